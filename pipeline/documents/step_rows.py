"""The rows that one training step sees, the spans in them, and the documents that they come from."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.documents.lookup import Identity, identities_in_rows
from headrace.pipeline.documents.training_rows import RowSource, TrainingRows
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.train.checkpoint.names import CHECKPOINTS, manifests
from headrace.train.data.order import share
from headrace.train.engine.zero import plan_batches


@dataclasses.dataclass(frozen=True)
class Span:
    """A piece of one document in a row: ``length`` positions from ``start`` on of token shard ``shard``."""

    shard: int
    start: int
    length: int
    document: int
    """The index of the document in its shard."""


@dataclasses.dataclass(frozen=True)
class SeenRow:
    """One row of a step, with its index (from 0) among all rows of the training."""

    position: int
    rank: int
    source: RowSource
    row: int
    spans: Sequence[Span]


def explain(run: Run, step: str, rank: str = "", ranks: str = "") -> Iterator[Fact]:
    """Yields the rows of ``step`` (from 1), of all ranks or of ``rank`` (from 0) of ``ranks``, each with its documents.

    Raises:
        ConfigError: when there is no such step or rank, or ``ranks`` cannot share a batch.
        ArtifactError: when packed is not finished, or what a source was made from is gone.
    """
    training = run.config.training
    world = _number("RANKS", ranks, 1, training.batch_rows) if ranks else run.config.training_ranks
    plan_batches(training, world)
    together = training.sequence_ranks
    chosen = [_number("RANK", rank, 0, world - 1)] if rank else list(range(0, world, together))
    number = _number("STEP", step, 1, training.steps)
    trained = TrainingRows.of(run)
    if number <= trained.began.step:
        label = trained.began.trunk
        problem = f"{number} is a step of the trunk ({label}); this training went on after step {trained.began.step}"
        raise ConfigError("STEP", problem, f"ask for its run: headrace order --step {number} --run {label}")
    first, end = trained.positions(number)
    yield "step", f"{number:,} of {training.steps:,}: rows {first:,} to {end - 1:,} of the training"
    yield "ranks", f"{rank} of {world}" if rank else f"all {world}"
    yield from _update(run.stages, number)
    for name, epochs in trained.order.epochs(end).items():
        yield name, f"{epochs:.4f} after this step"
    numbers = trained.order.batch(first, end - first)
    seen = []
    for member in chosen:
        group = member // together
        own = share(numbers, group, world // together).tolist()
        for position, row in enumerate(own, first + group * len(own)):
            source, own_row = trained.rows.source(row)
            seen.append(_seen(position, member, trained.sources[source], own_row))
    yield from _documents(seen)


def _update(stages: Sequence[PlannedStage], number: int) -> Iterator[Fact]:
    """Yields the reason when the update of step ``number`` is not in the weights of the newest checkpoint."""
    paths = [path for stage in stages for path in manifests(stage.folder / CHECKPOINTS)]
    state = read_sealed(paths[-1]) if paths else {"left_out": []}
    if number in state.get("without_targets", ()):
        yield "update", "none: no row of the step has a target"
    for first, spike in state["left_out"]:
        if first <= number <= spike:
            yield "update", f"left out: the loss of step {spike:,} was a spike"
            return


def _number(name: str, text: str, first: int, last: int) -> int:
    if not (text.isascii() and text.isdigit() and first <= int(text) <= last):
        raise ConfigError(name, f"{text!r} is not a number from {first} to {last}", "give one")
    return int(text)


def _seen(position: int, rank: int, source: RowSource, row: int) -> SeenRow:
    spans = [
        Span(shard, start, length, source.tokens.document(shard, start))
        for shard, start, length in source.rows.spans(row).tolist()
    ]
    return SeenRow(position, rank, source, row, spans)


def _documents(seen: Sequence[SeenRow]) -> Iterator[Fact]:
    """Yields every row and its spans, with the ids and URLs of their documents; reads each shard once."""
    wanted: dict[tuple[str, int], set[int]] = defaultdict(set)
    for row in seen:
        for span in row.spans:
            wanted[row.source.name, span.shard].add(span.document)
    uniques = {row.source.name: row.source.unique for row in seen}
    identities: dict[tuple[str, int], dict[int, Identity]] = {
        (name, shard): identities_in_rows(uniques[name], shard, documents)
        for (name, shard), documents in wanted.items()
    }
    for row in seen:
        yield "", ""
        of_source = f" of {row.source.name}" if row.source.name else ""
        yield "row", f"{row.row}{of_source}, at position {row.position} of the training, read by rank {row.rank}"
        for span in row.spans:
            identity = identities[row.source.name, span.shard][span.document]
            where = f"{span.length:,} tokens from {span.start} on of token shard {span.shard}"
            yield "span", f"{where}: {identity.id} {identity.url}".rstrip()
