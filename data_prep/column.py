"""The stages ``column.NAME``: one value of each document of ``unique``, for each of ``columns.scorers``.

    documents/00007.jsonl.zst ── scorer ──> values/00007.npy     a value of each document, in their order

A run has one such stage for each scorer. The name is not in the address, so a column is computed once, whatever it is
called, and another column does not compute it again. All are in the folder ``column`` below the root.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np

from headrace.data_prep.columns import AnyScorer
from headrace.data_prep.columns.scorer import VALUES, has_value, values_array
from headrace.data_prep.document import read_documents
from headrace.data_prep.shuffle.records import save_array
from headrace.pipeline.core.artifact import Balance, TaskOutput, handed
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import settings
from headrace.pipeline.core.stage import OF_KIND, Inputs, Phase, RawFile, Stage

MODEL = "model"
"""The phase in which a scorer learns, and the kind of its file."""


def column_stage(column: str) -> str:
    """Returns the name of the stage of ``column`` in a run."""
    return f"{Column.name}{OF_KIND}{column}"


@settings
class Columns:
    """The values of documents that are computed, by their names."""

    scorers: Mapping[str, AnyScorer] = dataclasses.field(default_factory=dict)
    """The scorer of each column, by the name of the column: small letters, digits and ``_``."""

    def __post_init__(self) -> None:
        for name in self.scorers:
            if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", name):
                problem = f"{name!r} is not the name of a column"
                raise ConfigError("columns.scorers", problem, "give up to 32 of a-z, 0-9 and _, a letter first")

    def stages(self) -> "tuple[Column, ...]":
        """Returns the stage of each column."""
        return tuple(Column(column=name, scorer=scorer) for name, scorer in self.scorers.items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column(Stage):
    """Scores the documents of each shard. Counts ``documents`` and, if there are any, those ``without_value``."""

    name: ClassVar[str] = "column"
    headline: ClassVar[tuple[str, ...]] = ("documents", "without_value")
    describes_documents: ClassVar[bool] = True

    column: str = dataclasses.field(metadata={"hashed": False})
    """The name of the column in this run."""
    scorer: AnyScorer

    def __post_init__(self) -> None:
        # A run has several: each has a name of its own in the line, and they share the folder of their class.
        object.__setattr__(self, "name", column_stage(self.column))

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("unique", *self.scorer.inputs)

    def raw_files(self) -> tuple[RawFile, ...]:
        return self.scorer.raw_files()

    def check_start(self) -> None:
        self.scorer.check()

    def without_raw_files(self, addresses: Mapping[str, str]) -> dict[str, object]:
        """Names the stage as its folder, so the name of the column decides nothing."""
        return super().without_raw_files(addresses) | {"stage": type(self).name}

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        scoring = Phase("column", shards["unique"], self._score)
        return (Phase(MODEL, 1, self._learn), scoring) if self.scorer.learns else (scoring,)

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        yield "documents = kept of unique", counts["documents"], inputs["unique"].counts["kept"]

    def _learn(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        counts: Counter[str] = Counter()
        with out.scratch(MODEL, "npz") as path:
            self.scorer.learn(inputs["unique"], path, counts)
        return counts

    def _score(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        model = handed(out, f"{MODEL}/{MODEL}", 0, "npz") if self.scorer.learns else None
        score = self.scorer.ready(inputs).scoring(model)
        documents = read_documents(inputs["unique"].shard("documents", task, "jsonl.zst"))
        values = values_array(map(score, documents), self.scorer.kind)
        with out.shard(VALUES, "npy") as path:
            save_array(path, values)
        missing = int(np.count_nonzero(~has_value(values)))
        return Counter(documents=len(values), **({"without_value": missing} if missing else {}))
