"""Each scorer against what it measures, computed another way."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datatrove.data import Document

from headrace.data_prep.column import Column, Columns, column_stage
from headrace.data_prep.columns.column_values import has_value, read_values, values_array
from headrace.data_prep.columns.filter_scorer import FilterValue
from headrace.data_prep.columns.length_scorer import Length
from headrace.data_prep.columns.perplexity_scorer import Perplexity
from headrace.data_prep.columns.word_ngrams import WordNgrams
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.fineweb_quality import FineWebQuality
from headrace.data_prep.filters.gopher.quality import GopherQuality
from headrace.data_prep.filters.gopher.repetition import GopherRepetition
from headrace.data_prep.filters.language.fasttext_filter import LanguageFasttext
from headrace.data_prep.filters.language.langdetect_filter import Language
from headrace.data_prep.filters.page_rules import PageFilter
from headrace.data_prep.text.words import words
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from tests.stage_run import run_here
from tests.unique_documents import unique_documents

TEXTS = [
    ["The mill turns in the river, and the wheel turns with it.\nIt is old.", "", "• one\n• two\n• two\n• two ..."],
    [],
    ["Das Rad der alten Mühle dreht sich im Fluss, und das Wasser fließt.", "word " * 200, "# # # #"],
]
FILTERS: list[AnyFilter] = [
    GopherQuality(), GopherQuality(counting="datatrove"), GopherRepetition(),
    GopherRepetition(counting="datatrove"), FineWebQuality(), Language(), LanguageFasttext(),
]  # fmt: skip


def scores(scorer: Length | FilterValue | Perplexity, folder: Path) -> list[list[float | str]]:
    unique = unique_documents(folder / "unique" / "u", TEXTS)
    column = run_here(Column(column="x", scorer=scorer), {"unique": unique}, folder / "column" / "c")
    assert column.counts["documents"] == 6
    return [read_values(column, shard).tolist() for shard in range(3)]


def test_lengths(tmp_path: Path) -> None:
    assert scores(Length(), tmp_path / "a") == [[len(text) for text in texts] for texts in TEXTS]
    assert scores(Length(unit="words"), tmp_path / "b") == [[len(words(text)) for text in texts] for texts in TEXTS]


@pytest.mark.parametrize("filter", [f for f in FILTERS if isinstance(f, PageFilter)], ids=lambda one: one.type)
def test_a_filter_drops_by_the_values_that_it_measures(filter: PageFilter) -> None:
    """The value in the reason of the drop is the measured one; a page that passes has values for all rules."""
    dropped = 0
    for text in (text for texts in TEXTS for text in texts):
        document = Document(text=text, id="a:0")
        values, drop = filter.values(document), filter.judge(document)
        assert values.keys() == filter.value_kinds.keys()
        if drop is not None:
            dropped += 1
            rule = drop.rule.removeprefix(f"{filter.type}.")
            measured = [value for name, value in values.items() if name in (rule, f"{rule}_characters")]
            assert drop.value in {f"{value:.4f}" for value in measured} | set(map(str, measured))
        assert document.text == text
        assert not document.metadata
    assert dropped


@pytest.mark.parametrize(
    "identifier", [Language(languages=None, min_score=0), LanguageFasttext(languages=None, min_score=0)]
)
def test_languages_are_those_that_the_filter_stores(identifier: Language | LanguageFasttext, tmp_path: Path) -> None:
    expected: dict[str, list[list[float | str]]] = {"language": [], "language_score": []}
    for texts in TEXTS:
        documents = [Document(text=text, id="a:0") for text in texts]
        for document in documents:
            identifier.judge(document)
        for name, missing in (("language", ""), ("language_score", None)):
            expected[name].append([document.metadata.get(name, missing) for document in documents])
    for name in expected:
        of_column = scores(FilterValue(filter=identifier, value=name), tmp_path / name)
        assert [[None if value != value else value for value in shard] for shard in of_column] == expected[name]
    assert (expected["language"][0][0], expected["language"][2][0]) == ("en", "de")


def test_perplexity_of_a_file_and_of_the_documents(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the mill turns\nin the river\n")
    given = scores(Perplexity(path=str(tmp_path / "text.txt")), tmp_path / "given")
    model = WordNgrams.of(["the mill turns", "in the river"], 3)
    assert given[0][0] == model.perplexity(TEXTS[0][0])
    assert all(math.isnan(float(value)) for value in (given[0][1], given[2][2])), "texts without words"
    own = WordNgrams.of([text for texts in TEXTS for text in texts], 2)
    found = scores(Perplexity(order=2), tmp_path / "own")
    assert [found[0][0], found[2][0]] == [own.perplexity(TEXTS[0][0]), own.perplexity(TEXTS[2][0])]
    one_line = scores(Perplexity(path=str(tmp_path / "text.txt"), sample_bytes=1), tmp_path / "short")
    assert one_line[0][0] == WordNgrams.of(["the mill turns"], 3).perplexity(TEXTS[0][0])


def test_a_missing_file_is_refused_by_a_run_and_not_when_settings_are_read(tmp_path: Path) -> None:
    scorer = decode(Perplexity, {"type": "perplexity", "path": str(tmp_path / "none.txt")})
    with pytest.raises(ConfigError, match=r"columns\.scorers\.path: there is no file .*none\.txt"):
        scorer.raw_files()


@pytest.mark.parametrize(
    ("filter", "other", "value", "is_same"),
    [
        ({"type": "language_fasttext"}, {"languages": ["de"], "min_score": 0.1}, "language", True),
        ({"type": "language_fasttext"}, {"max_characters": 7}, "language", False),
        ({"type": "fineweb_quality"}, {"rules": [{"type": "short_lines", "max_fraction": 0.3}]}, "short_lines", True),
        ({"type": "fineweb_quality"}, {"rules": [{"type": "short_lines", "max_characters": 3}]}, "short_lines", False),
        ({"type": "linear_classifier", "label": "a", "min_score": 0.5}, {"min_score": 0.25}, "a", True),
    ],
)
def test_thresholds_are_in_no_address_of_a_column(
    filter: dict[str, Any], other: dict[str, Any], value: str, is_same: bool
) -> None:
    rules = {"rules": [{"type": rule["type"]} for rule in other["rules"]]} if "rules" in other else {}
    columns = [
        Column(column="x", scorer=decode(FilterValue, {"filter": {**filter, **changes}, "value": value}))
        for changes in (rules, other)
    ]
    addresses = {column.address({"unique": "u", "classifier": "c"}) for column in columns}
    assert (len(addresses) == 1) is is_same


def test_every_value_of_a_filter_is_a_column() -> None:
    document = Document(text=TEXTS[0][0], id="a:0")
    for measure in FILTERS:
        for name, kind in measure.value_kinds.items():
            scorer = FilterValue(filter=measure, value=name)
            scorer.check()
            assert scorer.kind is kind
            assert isinstance(scorer.scoring(None)(document), (kind, int))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"filter": {"type": "c4_lines"}}, "c4_lines measures nothing of a document; give one that does"),
        ({"filter": {"type": "unique_lines"}}, "unique_lines measures nothing"),
        ({"filter": {"type": "gopher_quality"}}, "measures 7 values, and value is None; give one of word_count"),
        ({"filter": {"type": "gopher_quality"}, "value": "word_counts"}, "did you mean 'word_count'"),
    ],
)
def test_a_filter_without_the_value_is_refused(values: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        decode(FilterValue, {"type": "filter", **values}).check()


def test_names_of_columns() -> None:
    assert [stage.name for stage in Columns(scorers={"a": Length(), "b_2": Length()}).stages()] == [
        "column.a",
        "column.b_2",
    ]
    assert column_stage("a") == "column.a"
    for name in ("", "A", "a.b", "a/b", "x" * 33):
        with pytest.raises(ConfigError, match="is not the name of a column"):
            Columns(scorers={name: Length()})


def test_the_name_is_not_in_the_address_and_the_scorer_is() -> None:
    def address(name: str, scorer: Length) -> str:
        return Column(column=name, scorer=scorer).address({"unique": "u"})

    assert address("a", Length()) == address("b", Length()) != address("a", Length(unit="words"))


def test_values_without_one() -> None:
    numbers, texts = values_array([1.5, None], float), values_array(["en", None, "x" * 99], str)
    np.testing.assert_array_equal(numbers, [1.5, np.nan])
    assert texts.tolist() == ["en", "", "x" * 64]
    assert has_value(numbers).tolist() == [True, False]
    assert has_value(texts).tolist() == [True, False, True]
