"""The rows that the steps of a training read, in their order, the spans in them, and the documents that they come from.

    step 12 ── positions ──> 88 to 95 ── order ──> rows      row 17 of crawl ── steps_of ──> steps 3, 40

The order is a function of settings and artifacts, so no training is needed; only that of a branch begins with its first
checkpoint.
"""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.packed import SPLITS
from headrace.data_prep.tokenization.shards import PackedRows, TokenShards
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.documents.lookup import need
from headrace.pipeline.documents.stored_documents import Location, id_and_url, in_rows
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.branches import label_of
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints, manifests
from headrace.train.checkpoint.store import read_state
from headrace.train.data.mixture import Mix, training_data
from headrace.train.data.order import Later, share
from headrace.train.data.rows import MixedRows, Rows
from headrace.train.engine.zero import plan_batches
from headrace.train.training_config import TrainingConfig

INPUTS = ("tokenizer", "tokens", "packed")
"""The stages that training reads."""
BATCH_ROWS = 1 << 20
"""Rows whose numbers are computed at once."""

SourceRow = tuple[int, int]
"""(number of a source, row of its split)."""


@dataclasses.dataclass(frozen=True)
class RowSource:
    """The artifacts that rows come from: those of this run, or of one that is mixed into it."""

    name: str
    """The name of a mixture's source; empty without a mixture."""
    rows: PackedRows
    tokens: TokenShards
    unique: Artifact


@dataclasses.dataclass(frozen=True)
class Beginning:
    """The steps and rows that a training began after: those of its trunk if it is a branch."""

    step: int = 0
    rows_seen: int = 0
    first_row: int = 0
    """The rows that were seen before the data of this run."""
    trunk: str = ""
    """The name of the trunk; empty without one."""


@dataclasses.dataclass(frozen=True)
class TrainingRows:
    """The rows of a run's training."""

    training: TrainingConfig
    tokenizer: Artifact
    began: Beginning
    rows: Rows | MixedRows
    order: Later
    sources: Sequence[RowSource]

    @classmethod
    def of(cls, run: Run) -> "TrainingRows":
        """Returns the rows of the training of ``run``.

        Raises:
            ConfigError: when the run ends before ``packed``.
            ArtifactError: when packed is not finished, what a source was made from is gone, or the run is a branch
                without a checkpoint.
        """
        config, training = run.config, run.config.training
        mix = Mix.of(config.mixture, config.text_packing.row_tokens, config.objective.frame_tokens)
        inputs = {name: need(name, run.stages) for name in INPUTS}
        began = _beginning(run)
        rows, order = training_data(training.seed, inputs, mix, training.unique_rows)
        sources = _sources(run.stages, mix)
        return cls(training, inputs["tokenizer"], began, rows, Later(order, began.first_row), sources)

    def positions(self, step: int) -> tuple[int, int]:
        """Returns the position in the training of the first row of ``step`` (from 1), and the one after its last."""
        first = self.began.rows_seen + self.training.rows_between(self.began.step, step - 1)
        return first, first + self.training.rows_at(step - 1)

    @functools.cached_property
    def read_rows(self) -> list[NDArray[np.bool_]]:
        """The rows of each source that a step reads, as masks (rows,). The time is linear in the rows read."""
        is_read = np.zeros(len(self.rows), np.bool_)
        for _, numbers in self._batches():
            is_read[numbers] = True
            if is_read.all():
                break
        marked = [np.zeros(len(source.rows), np.bool_) for source in self.sources]
        sources, own_rows = self.rows.origins(np.flatnonzero(is_read))
        for number, mask in enumerate(marked):
            mask[own_rows[sources == number]] = True
        return marked

    def steps_of(self, wanted: Sequence[SourceRow]) -> Mapping[SourceRow, list[int]]:
        """Returns the steps (from 1) that read each of the rows ``wanted``, in one pass over the order."""
        marked = [np.zeros(len(source.rows), np.bool_) for source in self.sources]
        for source, own_row in wanted:
            marked[source][own_row] = True
        sources, own_rows = self.rows.origins(np.arange(len(self.rows)))
        is_wanted = np.zeros(len(self.rows), np.bool_)
        for number, mask in enumerate(marked):
            is_wanted[sources == number] = mask[own_rows[sources == number]]
        sizes = [self.training.rows_at(step) for step in range(self.began.step, self.training.steps)]
        ends = self.began.rows_seen + np.cumsum(sizes)
        steps: dict[SourceRow, list[int]] = defaultdict(list)
        for first, numbers in self._batches():
            for index in np.flatnonzero(is_wanted[numbers]).tolist():
                step = self.began.step + 1 + int(np.searchsorted(ends, first + index, side="right"))
                steps[self.rows.source(int(numbers[index]))].append(step)
        return steps

    def _batches(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yields the numbers of the rows that the steps read, in their order, each part after its first position."""
        first, (_, end) = self.began.rows_seen, self.positions(self.training.steps)
        for begin in range(first, end, BATCH_ROWS):
            yield begin, self.order.batch(begin, min(BATCH_ROWS, end - begin))


def _beginning(run: Run) -> Beginning:
    """Returns where the training of ``run`` began.

    Raises:
        ArtifactError: when it is a branch without a checkpoint.
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
    trunk = label_of(folder.with_name(branch["weights"]))
    return Beginning(branch["step"], branch["rows_seen"], state.first_row, trunk)


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
            PackedRows(own_artifacts["packed"], SPLITS[0]),
            TokenShards(own_artifacts["tokens"]),
            own_artifacts["unique"],
        )
        for name, own_artifacts in artifacts_by_source or [("", own)]
    ]


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

    @functools.cached_property
    def spans(self) -> Sequence[Span]:
        """The pieces of documents in it."""
        document = self.source.tokens.document
        pieces = self.source.rows.spans(self.row).tolist()
        return [Span(shard, start, length, document(shard, start)) for shard, start, length in pieces]


def step_facts(run: Run, step: str, rank: str = "", ranks: str = "") -> Iterator[Fact]:
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
        raise ConfigError("STEP", problem, f"ask for its run: headrace why {number} --as step --run {label}")
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
            seen.append(SeenRow(position, member, trained.sources[source], own_row))
    yield from _row_facts(seen)


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


def _row_facts(seen: Sequence[SeenRow]) -> Iterator[Fact]:
    """Yields every row and its spans, with the ids and URLs of their documents; reads each shard once."""
    locations: dict[str, set[Location]] = defaultdict(set)
    for row in seen:
        locations[row.source.name].update((span.shard, span.document) for span in row.spans)
    uniques = {row.source.name: row.source.unique for row in seen}
    documents = {name: in_rows(uniques[name], wanted) for name, wanted in locations.items()}
    for row in seen:
        yield "", ""
        of_source = f" of {row.source.name}" if row.source.name else ""
        yield "row", f"{row.row}{of_source}, at position {row.position} of the training, read by rank {row.rank}"
        for span in row.spans:
            where = f"{span.length:,} tokens from {span.start} on of token shard {span.shard}"
            yield "span", f"{where}: {id_and_url(documents[row.source.name][span.shard, span.document])}"
