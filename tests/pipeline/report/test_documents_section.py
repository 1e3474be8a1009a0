"""The sections of unique documents: columns, computed again from all values."""

import math
from pathlib import Path

import numpy as np
import pytest

from headrace.data_prep.column import Column
from headrace.data_prep.columns import AnyScorer
from headrace.data_prep.columns.scorers import FilterValue, Length
from headrace.data_prep.filters.language.identification import LanguageFasttext
from headrace.pipeline.report import documents_section
from headrace.pipeline.report.documents_section import ColumnPart, histogram_bars
from tests.stage_run import run_here
from tests.unique_documents import unique_documents

TEXTS = [[f"The wheel of mill {n} turns. " * (n * shard + 1) for n in range(17)] for shard in range(3)] + [["", "<b>"]]


def shown(scorer: AnyScorer, folder: Path) -> ColumnPart:
    unique = unique_documents(folder / "unique" / "u", TEXTS)
    column = run_here(Column(column="x", scorer=scorer), {"unique": unique}, folder / "column" / "c")
    return ColumnPart.of("x", column, unique)


def test_numbers(tmp_path: Path) -> None:
    texts = [text for texts in TEXTS for text in texts]
    lengths = sorted(map(len, texts))
    found = shown(Length(), tmp_path)
    assert (found.documents, found.without_value, found.texts) == (53, 0, [])
    assert [sample.percent for sample in found.deciles] == list(range(0, 101, 10))
    for sample in found.deciles:
        assert sample.value == lengths[round(sample.percent * 52 / 100)]
        shard, _, number = sample.id.partition(":")
        assert len(TEXTS[int(shard)][int(number)]) == sample.value
        assert " ".join(TEXTS[int(shard)][int(number)].split()).startswith(sample.text)
    assert found.figure is not None


def test_texts_and_missing_values(tmp_path: Path) -> None:
    found = shown(FilterValue(filter=LanguageFasttext(), value="language"), tmp_path / "a")
    assert (found.texts[0].name, found.texts[0].count) == ("en", 52)
    assert found.without_value == 1
    assert (found.figure, found.deciles) == (None, [])
    assert shown(FilterValue(filter=LanguageFasttext(), value="language_score"), tmp_path / "b").without_value == 1


def test_every_value_is_in_one_bar() -> None:
    values = np.random.default_rng(1).lognormal(0, 2, 1000)
    bars = histogram_bars(values)
    assert sum(number for _, number in bars) == 1000
    assert len(bars) == 24
    assert float(bars[0][0]) == pytest.approx(np.percentile(values, 1), rel=1e-3)
    assert histogram_bars(np.full(7, 2.0)) == [("1.5", 7)], "numpy's only bin is around the value"
    assert histogram_bars(np.empty(0)) == []


def test_a_large_column_is_shown_by_some_of_its_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_section, "MOST_VALUES", 30)
    found = shown(Length(), tmp_path)
    lengths = sorted(len(text) for shard in (0, 2) for text in TEXTS[shard])
    assert [sample.value for sample in found.deciles] == [lengths[round(p * 33 / 100)] for p in range(0, 101, 10)]
    assert math.ceil(53 / 30) == 2
