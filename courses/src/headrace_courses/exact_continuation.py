"""Outcomes and metrics of benchmarks that ask for a continuation word for word, by group."""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

from headrace.train.evaluation.benchmarks.base import Item, Outcome, by_group, column
from headrace.train.evaluation.metrics import accuracy, mean_over_groups, ratio
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer


def exact_outcome(answers: Sequence[Answer]) -> Outcome:
    """Returns the outcome of the only answer: right when greedy decoding would write exactly the continuation."""
    (answer,) = answers
    return {"acc": float(answer.greedy), "nats": -answer.log_likelihood, "tokens": answer.tokens}


def exact_metrics(
    items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int, left_out: Collection[str] = ()
) -> list[Metric]:
    """Returns the mean share of right continuations over the groups but those ``left_out``; then for each group the
    share, and the loss in nats per token. Guessing is never right."""
    groups = by_group(items, outcomes)
    right = {group: column(outcomes, "acc") for group, outcomes in groups.items()}
    counted = {group: shares for group, shares in right.items() if group not in left_out}
    metrics = mean_over_groups("acc", counted, 0.0)[:1] if counted else []
    for group, outcomes_of_group in groups.items():
        nats, tokens = (column(outcomes_of_group, name) for name in ("nats", "tokens"))
        loss = ratio("loss", nats, tokens, math.log(vocabulary))
        metrics += [accuracy("acc", right[group], 0.0, group), dataclasses.replace(loss, group=group)]
    return metrics


def not_possible(positions: Mapping[int, int], most_window_tokens: int | None) -> tuple[str, ...]:
    """Returns a note on the lengths that a model with so many positions cannot read, if there are any.

    Args:
        positions: the positions that each length needs.
        most_window_tokens: the most positions of the model; None: any number.
    """
    if most_window_tokens is None or max(positions.values()) <= most_window_tokens:
        return ()
    beyond = ", ".join(str(length) for length, needed in positions.items() if needed > most_window_tokens)
    return (f"not possible at lengths {beyond}: the model has {most_window_tokens} positions and no others.",)
