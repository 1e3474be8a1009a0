"""The stage ``selected``: how often each document of ``unique`` is trained on, by the values of its columns.

    values/00007.npy of columns ── rule, rule, … ──> copies/00007.npy     uint32, 0 for a dropped document
                                                     reasons/00007.npy    uint16, the place in ``reason_names``; 0: kept

It is an index: no text is copied. ``tokens`` encodes all documents, and ``packed`` repeats their spans, so another
selection only packs again, and runs that are compared have one tokenizer.

    (for each share: rank ──> cut) ──> selected
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.column import Column, Columns, column_stage
from headrace.data_prep.columns.scorer import ColumnValues, ScoreKind, has_value, read_values
from headrace.data_prep.document import document_ids
from headrace.data_prep.selection_rules import AnySelectionRule
from headrace.data_prep.selection_rules.rules import DocumentRanks, Share, sorted_ranks
from headrace.data_prep.shuffle.records import save_array
from headrace.pipeline.core.artifact import Artifact, Balance, TaskOutput, handed
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import decode, settings
from headrace.pipeline.core.stage import DocumentCounts, Inputs, Phase, Stage, counted, kind_of

COPIES, REASONS = "copies", "reasons"
RANK, CUT = "rank", "cut"
"""The phases of a share, before its number."""


@settings
class SelectionRules:
    """The rules that select documents by their columns."""

    rules: tuple[AnySelectionRule, ...] = ()
    """The rules in their order: each multiplies the copies that those before it left."""

    def __post_init__(self) -> None:
        for number, rule in enumerate(self.rules):
            rule.check(f"selection.rules.{number}")

    def check_columns(self, kinds: Mapping[str, ScoreKind]) -> None:
        """Checks that each rule reads one of the columns ``kinds``, of a type that it can read.

        Raises:
            ConfigError: naming the rule.
        """
        for number, rule in enumerate(self.rules):
            where = f"selection.rules.{number}.column"
            if rule.column not in kinds:
                remedy = suggestion(rule.column, kinds) if kinds else "name it in columns.scorers"
                raise ConfigError(where, f"there is no column {rule.column!r}", remedy)
            if kinds[rule.column] not in rule.kinds:
                held = "texts" if kinds[rule.column] is str else "numbers"
                other = "any_of or copies.texts" if held == "texts" else "threshold, share or copies.steps"
                problem = f"{rule.column!r} holds {held}, which {rule.described} cannot read"
                raise ConfigError(where, problem, f"use {other}")

    @property
    def reason_names(self) -> tuple[str, ...]:
        """The reasons by their numbers in ``reasons/*.npy``; the first is empty, for selected documents."""
        return ("", *(reason for rule in self.rules for reason in rule.reasons))


def reason_names(selected: Artifact) -> tuple[str, ...]:
    """Returns the reasons in ``selected`` by their numbers."""
    return decode(SelectionRules, selected.settings["selection"]).reason_names


@dataclasses.dataclass
class ShardCopies:
    """The copies of the documents of one shard, after some rules."""

    copies: NDArray[np.uint32]
    reasons: NDArray[np.uint16]

    def drop(self, dropped: NDArray[np.bool_], reason: int) -> None:
        """Drops the documents ``dropped`` that are left, for ``reason``."""
        dropped = dropped & (self.copies > 0)
        self.copies[dropped], self.reasons[dropped] = 0, reason


@dataclasses.dataclass
class SelectedShard:
    """A shard of ``unique`` with its columns. The ids are read when a rule needs one."""

    inputs: Inputs
    number: int

    @functools.cached_property
    def documents(self) -> int:
        """The number of documents."""
        name = next(name for name in self.inputs if kind_of(name) == Column.name)
        return len(read_values(self.inputs[name], self.number))

    def values(self, column: str) -> ColumnValues:
        """Reads the values of ``column``."""
        return read_values(self.inputs[column_stage(column)], self.number)

    def id(self, row: int) -> str:
        """Returns the id of the document in ``row``."""
        return self._ids[row]

    @functools.cached_property
    def _ids(self) -> list[str]:
        return list(document_ids(self.inputs["unique"].shard("documents", self.number, "jsonl.zst")))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selected(Stage):
    """Counts ``documents_in``, ``kept``, their ``copies``, and ``dropped:`` documents by reason."""

    name: ClassVar[str] = "selected"
    headline: ClassVar[tuple[str, ...]] = ("documents_in", "kept", "copies")
    describes_documents: ClassVar[bool] = True
    document_counts: ClassVar[DocumentCounts | None] = DocumentCounts(
        read="documents_in",
        unit="documents",
        text_bytes="bytes",
        dropped_title="not selected",
        kept_title="selected",
        kept_short="selected",
        stores_documents=False,
    )

    selection: SelectionRules

    @staticmethod
    def with_columns(columns: Columns, selection: SelectionRules) -> tuple[Stage, ...]:
        """Returns the stages of ``columns`` and, if there is a rule, that of ``selection``."""
        return (*columns.stages(), *([Selected(selection=selection)] if selection.rules else []))

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("unique", *dict.fromkeys(column_stage(rule.column) for rule in self.selection.rules))

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        tasks = shards["unique"]
        last = Phase("selected", tasks, self._select)
        return (*(phase for number in self._shares for phase in self._share_phases(number, tasks)), last)

    def _share_phases(self, number: int, tasks: int) -> tuple[Phase, Phase]:
        rank = Phase(f"{RANK}{number}", tasks, functools.partial(self._rank, number))
        return rank, Phase(f"{CUT}{number}", 1, functools.partial(self._cut, number, tasks))

    @property
    def _shares(self) -> Iterator[int]:
        """The places of the rules that need all documents."""
        return (number for number, rule in enumerate(self.selection.rules) if isinstance(rule, Share))

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        yield "documents_in = kept of unique", counts["documents_in"], inputs["unique"].counts["kept"]
        yield "documents_in = kept + dropped", counts["documents_in"], counts["kept"] + counted(counts, "dropped:")

    def _rank(self, number: int, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Writes the sorted ranks of the documents of a shard that the rules before the share ``number`` left."""
        rule = self.selection.rules[number]
        assert isinstance(rule, Share)
        shard = SelectedShard(inputs, task)
        values = shard.values(rule.column)
        left = np.flatnonzero((self._applied(number, shard, out).copies > 0) & has_value(values))
        ranks = rule.ranks(values[left], map(shard.id, left.tolist()))
        with out.scratch(RANK, "npy") as path:
            save_array(path, sorted_ranks(ranks))
        return Counter()

    def _cut(self, number: int, tasks: int, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Writes the rank of the last document that the share ``number`` keeps."""
        rule = self.selection.rules[number]
        assert isinstance(rule, Share)
        files = [handed(out, f"{RANK}{number}/{RANK}", shard, "npy") for shard in range(tasks)]
        with out.scratch(CUT, "npy") as path:
            save_array(path, rule.limit(files))
        return Counter()

    def _select(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        chosen = self._applied(len(self.selection.rules), SelectedShard(inputs, task), out)
        for kind, array in ((COPIES, chosen.copies), (REASONS, chosen.reasons)):
            with out.shard(kind, "npy") as path:
                save_array(path, array)
        names, numbers = np.unique(chosen.reasons, return_counts=True)
        counts = Counter(documents_in=len(chosen.copies), kept=0, copies=int(chosen.copies.sum(dtype=np.int64)))
        for name, documents in zip(names.tolist(), numbers.tolist(), strict=True):
            counts[f"dropped:{self.selection.reason_names[name]}" if name else "kept"] += documents
        return counts

    def _applied(self, until: int, shard: SelectedShard, out: TaskOutput) -> ShardCopies:
        """Returns the copies in ``shard`` after the first ``until`` rules."""
        chosen = ShardCopies(np.ones(shard.documents, "<u4"), np.zeros(shard.documents, "<u2"))
        for number, rule in enumerate(self.selection.rules[:until]):
            values = shard.values(rule.column)
            if not rule.takes_missing:
                chosen.drop(~has_value(values), 2 * number + 2)
            left = np.flatnonzero(chosen.copies)
            if isinstance(rule, Share):
                limit: DocumentRanks = np.load(handed(out, f"{CUT}{number}/{CUT}", 0, "npy"))
                factors = rule.kept(rule.ranks(values[left], map(shard.id, left.tolist())), limit)
            else:
                factors = rule.factors(values[left])
            chosen.copies[left] = rule.drawn(chosen.copies[left] * factors, map(shard.id, left.tolist()))
            chosen.reasons[left[chosen.copies[left] == 0]] = 2 * number + 1
        return chosen
