"""The rows that one training step sees, the spans in them, and the documents that they come from."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence

from headrace.data_prep.tokenization.shards import TokenShards
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.branches import label_of
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.pipeline.tracing.lookup import Identity, identities_in_rows, need
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints, manifests
from headrace.train.checkpoint.store import read_state
from headrace.train.data.mixture import Mix, training_data
from headrace.train.data.order import Later, share
from headrace.train.data.rows import Rows
from headrace.train.engine.zero import plan_batches

INPUTS = ("tokenizer", "tokens", "packed")
"""The stages that training reads."""


@dataclasses.dataclass(frozen=True)
class RowSource:
    """The artifacts that rows come from: those of this run, or of one that is mixed into it."""

    name: str
    """The name of a mixture's source; empty without a mixture."""
    rows: Rows
    tokens: TokenShards
    unique: Artifact


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
    config = run.config
    mix = Mix.of(config.mixture, config.text_packing.row_tokens, config.objective.frame_tokens)
    inputs = {name: need(name, run.stages) for name in INPUTS}
    began = _beginning(run, number)
    first = began.rows_seen + training.rows_between(began.step, number - 1)
    end = first + training.rows_at(number - 1)
    yield "step", f"{number:,} of {training.steps:,}: rows {first:,} to {end - 1:,} of the training"
    yield "ranks", f"{rank} of {world}" if rank else f"all {world}"
    yield from _update(run.stages, number)
    rows, own_order = training_data(training.seed, inputs, mix, training.unique_rows)
    order = Later(own_order, began.first_row)
    for name, epochs in order.epochs(end).items():
        yield name, f"{epochs:.4f} after this step"
    sources = _sources(run.stages, mix)
    numbers = order.batch(first, end - first)
    seen = []
    for member in chosen:
        group = member // together
        own = share(numbers, group, world // together).tolist()
        for position, row in enumerate(own, first + group * len(own)):
            source, own_row = rows.source(row)
            seen.append(_seen(position, member, sources[source], own_row))
    yield from _documents(seen)


@dataclasses.dataclass(frozen=True)
class Beginning:
    """The steps and rows that a training began after: those of its trunk if it is a branch."""

    step: int = 0
    rows_seen: int = 0
    first_row: int = 0
    """The rows that were seen before the data of this run."""


def _beginning(run: Run, number: int) -> Beginning:
    """Returns where the training of ``run``, whose step ``number`` is asked for, began.

    Raises:
        ArtifactError: when it is a branch without a checkpoint.
        ConfigError: when the step is one of its trunk.
    """
    point = run.config.training.branch_from
    if point is None:
        return Beginning()
    (folder,) = (stage.folder for stage in run.stages if stage.name == "weights")
    saved = checkpoints(folder / CHECKPOINTS)
    if not saved:
        raise ArtifactError(str(folder), f"branches from {point} and has no checkpoint yet", "start the training first")
    state = read_state(saved[max(saved)])
    branch = state.branch or {}
    if number <= branch["step"]:
        label = label_of(folder.with_name(branch["weights"]))
        problem = f"{number} is a step of the trunk ({label}); this training went on after step {branch['step']}"
        raise ConfigError("STEP", problem, f"ask for its run: headrace order --step {number} --run {label}")
    return Beginning(branch["step"], branch["rows_seen"], state.first_row)


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


def _sources(stages: Sequence[PlannedStage], mix: Mix) -> list[RowSource]:
    """Returns the sources, each with its artifacts."""
    own = {name: need(name, stages) for name in ("packed", "tokens", "unique")}
    artifacts_by_source = []
    for source in mix.sources:
        artifacts = own
        if source.packed is not None:
            artifacts = {**source.inputs()}
            artifacts["unique"] = source.made_from(artifacts["tokens"], "unique")
        artifacts_by_source.append((source.name, artifacts))
    return [
        RowSource(
            name,
            Rows(own_artifacts["packed"], own_artifacts["tokens"], "train"),
            TokenShards(own_artifacts["tokens"]),
            own_artifacts["unique"],
        )
        for name, own_artifacts in artifacts_by_source or [("", own)]
    ]


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
