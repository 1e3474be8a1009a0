"""Where training stands, and where a loss spike takes it back to; a checkpoint holds it with the weights."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class State:
    """Where training stands: with the weights, everything that decides the steps to come.

    The order of rows is a function of (seed, rows_seen) and dropout's random numbers one of (seed, step, rank), so no
    generator's state is kept.
    """

    step: int
    """Steps done, those that were left out among them."""
    rows_seen: int
    tokens_seen: int
    """Target tokens, so without padding."""
    run_id: str
    """The tracker's, so that a resumed run continues its curve."""
    data: dict[str, str]
    """What decides which rows come when: each artifact and setting, and a hash of it; ``order`` is one of them all."""
    losses: list[float] = dataclasses.field(default_factory=list)
    """Of the last steps, as far as they decide whether the next one is left out (train/loop/loss_guard.py)."""
    left_out: list[list[int]] = dataclasses.field(default_factory=list)
    """First and last step of each stretch whose updates are not in the weights; the loss of the last was a spike."""
    curve: str | None = None
    """SHA-256 of metrics.jsonl up to this step, in a checkpoint; None in those of older versions."""

    def after(self, rows: int, tokens: int) -> "State":
        """The state one update of ``rows`` and ``tokens`` later."""
        return dataclasses.replace(
            self, step=self.step + 1, rows_seen=self.rows_seen + rows, tokens_seen=self.tokens_seen + tokens
        )

    @property
    def steps_left_out(self) -> int:
        """How many steps are not in the weights; a stretch may begin where the one before it did."""
        steps = end = 0
        for first, last in self.left_out:
            steps += last - max(first - 1, end)
            end = last
        return steps


def rollback_step(step: int, every: int | None) -> int:
    """Where a spike after ``step`` leads back to: the last multiple of ``every``; 0 when there is none."""
    return step // every * every if every else 0
