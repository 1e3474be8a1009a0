"""The scorers of a document's length, of a filter's values and of values that another program wrote.

    {type: length, unit: words}
    {type: filter, filter: {type: language_fasttext}, value: language_score}     what a filter of cleaning measures;
    {type: filter, filter: {type: gopher_repetition}, value: top_ngram_2}        no document is dropped

    {"id": "a.jsonl:0", "score": 0.83}                                      {type: file, path: s.jsonl, value: score}
    {"id": "a.jsonl:0", "prediction": "hq", "probabilities": {"hq": 0.83}}  {…, value: probabilities.hq}

    rows ── sorted by the first 128 bits of the SHA-256 of their ids ──> values.npz ── binary search ──> value

Memory is 24 bytes a row of the file, and 48 more while they are sorted. Texts are numbers of a list of texts in it.
"""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow
from pyarrow import parquet
from typing_extensions import Self

from headrace.data_prep.columns.scorer import ScoreKind, Scorer, Scoring
from headrace.data_prep.dedup.shingles import shingle_hashes
from headrace.data_prep.document import digest_of
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.filter import Filter, Value, require_file, user_file
from headrace.data_prep.sources.fields import is_in, value_at
from headrace.data_prep.sources.tables import dictionaries
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.json_files import read_objects
from headrace.pipeline.core.settings import FilePath, settings
from headrace.pipeline.core.stage import Inputs, RawFile


@settings
class Length(Scorer):
    """The number of characters or words of a document."""

    type: Literal["length"] = "length"
    unit: Literal["characters", "words"] = "characters"
    """The unit. Words are those of deduplication."""

    def scoring(self, model: Path | None) -> Scoring:
        if self.unit == "words":
            return lambda document: len(shingle_hashes(document.text, 1))
        return lambda document: len(document.text)


@settings
class FilterValue(Scorer):
    """One of the values that a filter measures, whatever its thresholds."""

    type: Literal["filter"] = "filter"
    filter: AnyFilter
    """The filter, with its settings. Its thresholds have no effect."""
    value: str | None = None
    """The name of the value: a rule of the filter, ``language``, ``language_score``, or a label; null: its only one."""

    def __post_init__(self) -> None:
        # Thresholds decide no value, so no address: a column is computed once, whatever they are.
        if isinstance(self.filter, Filter):
            object.__setattr__(self, "filter", self.filter.without_thresholds())

    @property
    def kind(self) -> ScoreKind:
        return self._chosen[1]

    @property
    def _chosen(self) -> tuple[str, ScoreKind]:
        """The name and the type of the value.

        Raises:
            ConfigError: when the filter measures nothing, or no value has the name.
        """
        kinds = self.filter.value_kinds if isinstance(self.filter, Filter) else {}
        if not kinds:
            remedy = "give one that does, such as gopher_quality, gopher_repetition, fineweb_quality, language"
            raise ConfigError("columns.scorers.filter", f"{self.filter.type} measures nothing of a document", remedy)
        name = self.value or (next(iter(kinds)) if len(kinds) == 1 else "")
        if name not in kinds:
            problem = f"{self.filter.type} measures {len(kinds)} values, and value is {self.value!r}"
            remedy = suggestion(name, kinds) if name else f"give one of {', '.join(kinds)}"
            raise ConfigError("columns.scorers.value", problem, remedy)
        return name, kinds[name]

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.filter.inputs

    @property
    def run_labels(self) -> tuple[str, ...]:
        return self.filter.run_labels

    def ready(self, inputs: Inputs) -> Self:
        return dataclasses.replace(self, filter=self.filter.ready(inputs))  # type: ignore[arg-type]

    def raw_files(self) -> tuple[RawFile, ...]:
        return self.filter.raw_files()

    def check(self) -> None:
        self.filter.check()
        _ = self._chosen

    def scoring(self, model: Path | None) -> Scoring:
        name, measure = self._chosen[0], self.filter
        assert isinstance(measure, Filter)
        return lambda document: measure.values(document).get(name)


ENTRY = np.dtype([("id", "S16"), ("value", "<f8")])
PARQUET = (".parquet", ".pq")


@settings
class FileValues(Scorer):
    """The values of a file of JSON lines, also compressed, or Parquet. Documents that it does not name have none."""

    learns: ClassVar[bool] = True

    type: Literal["file"] = "file"
    path: FilePath
    """The file with the values."""
    id: str = "id"
    """The field with the id of the document; a dot leads into an object."""
    value: str = "value"
    """The field with its value, null for none."""
    holds: Literal["numbers", "texts"] = "numbers"
    """The type of the values."""

    @property
    def kind(self) -> ScoreKind:
        return float if self.holds == "numbers" else str

    def raw_files(self) -> tuple[RawFile, ...]:
        self._require()
        return (user_file(self.path),)

    def check(self) -> None:
        """Refuses a file that is missing, and one whose first row has no id or no value."""
        self._require()
        next(self._pairs(), None)

    def _require(self) -> None:
        require_file("columns.scorers.path", self.path, "a file of JSON lines or Parquet")

    def learn(self, unique: Artifact, path: Path, counts: "Counter[str]") -> None:
        texts: dict[str, int] = {}

        def number(value: Value) -> float:
            return texts.setdefault(value, len(texts)) if isinstance(value, str) else value

        pairs = ((digest(identity), number(value)) for identity, value in self._pairs())
        entries = np.sort(np.fromiter(pairs, ENTRY), order="id", kind="stable")
        self._refuse_repeated(entries["id"])
        counts["rows_of_file"] = len(entries)
        with path.open("wb") as file:
            np.savez(file, ids=entries["id"], values=entries["value"], texts=np.array([*texts], dtype="U"))

    def scoring(self, model: Path | None) -> Scoring:
        assert model is not None
        with np.load(model) as arrays:
            ids, values, texts = arrays["ids"], arrays["values"], arrays["texts"].tolist()

        def value_of(identity: str) -> Value | None:
            key = digest(identity)
            place = int(np.searchsorted(ids, key))
            if place == len(ids) or ids[place] != key:
                return None
            return texts[int(values[place])] if texts else float(values[place])

        return lambda document: value_of(document.id)

    def _pairs(self) -> Iterator[tuple[str, Value]]:
        """Yields the id and the value of each row that has one.

        Raises:
            ArtifactError: naming the row that has no id, or a value of another type.
        """
        rows = self._table() if self.path.endswith(PARQUET) else self._lines()
        for number, row in enumerate(rows, 1):
            identity, value = value_at(row, self.id), value_at(row, self.value)
            if not isinstance(identity, str):
                fields = ", ".join(row) or "none"
                raise self._refused(number, f"has no text in {self.id!r}", f"set id (its fields: {fields})")
            if value is None and not is_in(row, self.value):
                fields = ", ".join(row)
                raise self._refused(number, f"has no field {self.value!r}", f"set value (its fields: {fields})")
            if value is None or value != value:
                continue
            if not self._is_kind(value):
                remedy = "set value, or holds=" + ("texts" if self.holds == "numbers" else "numbers")
                raise self._refused(number, f"has {str(value)[:60]!r} in {self.value!r}, no {self.holds[:-1]}", remedy)
            yield identity, value

    def _is_kind(self, value: object) -> bool:
        if self.holds == "texts":
            return isinstance(value, str)
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

    def _lines(self) -> Iterator[Mapping[str, Any]]:
        objects = read_objects(Path(self.path), "give JSON lines, or a .parquet file")
        return (row for _, row in objects)

    def _table(self) -> Iterator[Mapping[str, Any]]:
        try:
            table = parquet.ParquetFile(self.path)
            roots = {field.partition(".")[0] for field in (self.id, self.value)} | {self.id, self.value}
            columns = [name for name in table.schema_arrow.names if name in roots]
            yield from itertools.chain.from_iterable(map(dictionaries, table.iter_batches(columns=columns)))
        except (pyarrow.ArrowException, OSError) as error:
            problem = f"is damaged ({' '.join(str(error).split())[:200]})"
            raise ArtifactError(self.path, problem, "write it again") from None

    def _refused(self, number: int, problem: str, remedy: str) -> ArtifactError:
        return ArtifactError(self.path, f"row {number:,} {problem}", remedy)

    def _refuse_repeated(self, ids: "np.ndarray[Any, Any]") -> None:
        repeated = ids[1:][ids[1:] == ids[:-1]]
        if len(repeated):
            name = next(identity for identity, _ in self._pairs() if digest(identity) == repeated[0])
            raise ArtifactError(self.path, f"has several values of {name}", "give one row for each document")


def digest(identity: str) -> bytes:
    """Returns the first 128 bits of the SHA-256 of ``identity``, as numpy keeps bytes: no null at the end."""
    return digest_of(identity)[: ENTRY["id"].itemsize].rstrip(b"\0")
