"""The sample of an audit against a brute force over all documents, and values near thresholds against the rules."""

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
import xxhash
from datatrove.data import Document

from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.c4.lines import C4Lines
from headrace.data_prep.filters.c4.page_length import LongLines, PageLength
from headrace.data_prep.filters.fineweb_quality import FineWebQuality, ShortLines
from headrace.data_prep.filters.gopher.quality import GopherQuality, WordCount
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.pipeline.documents.audit_draw import document_artifacts, drawn_sheet
from headrace.pipeline.documents.audit_sheet import BEGINNING, END, Stratum, excerpt_of, saved_sheet
from headrace.pipeline.documents.nearness import Nearness, failing_rules, near_thresholds
from tests.small_runs import Corpus, build, run_with


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return build(tmp_path_factory.mktemp("audit"), "c4")


def all_documents(artifact: Artifact, kind: str) -> list[Document]:
    return [document for path in sorted((artifact.folder / kind).iterdir()) for document in read_documents(path)]


@pytest.mark.parametrize("seed", [0, 7])
def test_the_draw_is_the_lowest_hashes_of_all_documents(corpus: Corpus, seed: int) -> None:
    sheet = drawn_sheet(corpus.run, 4, 0, seed)
    expected = set()
    for stage in ("texts", "clean", "unique"):
        by_rule: dict[str, list[str]] = {}
        for document in all_documents(corpus.artifact(stage), "dropped"):
            by_rule.setdefault(document.metadata["drop"]["rule"], []).append(document.id)
        if stage == "unique":
            by_rule["kept"] = [document.id for document in all_documents(corpus.artifact(stage), "documents")]
        for rule, ids in by_rule.items():
            ranked = sorted(ids, key=lambda identity: xxhash.xxh64_intdigest(identity, seed))
            expected.add(Stratum(stage, rule, len(ids), tuple(ranked[:4])))
    assert set(sheet.strata) == expected
    assert Counter(sheet.ids) == Counter(identity for stratum in sheet.strata for identity in stratum.ids)


def test_every_document_is_in_one_stratum(corpus: Corpus) -> None:
    """So the weights add up to the records that were read."""
    sheet = drawn_sheet(corpus.run, 3, 3, 0)
    assert sum(stratum.weight * len(stratum.ids) for stratum in sheet.strata) == 24
    assert [stratum.weight for stratum in sheet.strata if not stratum.is_drawn] in ([], [0])


def test_another_seed_draws_others_in_another_order(corpus: Corpus) -> None:
    first, again, other = (drawn_sheet(corpus.run, 4, 0, seed) for seed in (0, 0, 1))
    assert first == again
    assert first.key != other.key
    assert first.ids != other.ids


def test_a_removed_copy_comes_with_the_page_that_stays(corpus: Corpus) -> None:
    pages = {page.rule: page for page in drawn_sheet(corpus.run, 4, 0, 0).pages}
    copy = pages["near_duplicate"]
    stays = {document.id: document.text for document in all_documents(corpus.artifact("clean"), "documents")}
    assert copy.survivor_text == stays[copy.survivor]
    assert copy.id != copy.survivor
    assert pages["c4_lines.sentences"].survivor == ""


def test_a_run_whose_stages_are_not_finished_is_refused(tmp_path: Path, corpus: Corpus) -> None:
    moved = [dataclasses.replace(stage, folder=tmp_path / stage.name) for stage in corpus.run.stages]
    with pytest.raises(ArtifactError, match="texts: is not finished, so there is no page to draw; run it first"):
        document_artifacts(moved)


def test_a_sheet_is_read_as_it_was_saved(tmp_path: Path, corpus: Corpus) -> None:
    sheet = drawn_sheet(corpus.run, 2, 2, 0)
    assert saved_sheet(tmp_path) is None
    sheet.save(tmp_path)
    assert saved_sheet(tmp_path) == sheet
    values = read_json(tmp_path / "audit/sheet.json")
    assert all(entry["weight"] == entry["documents"] / len(entry["ids"]) for entry in values["strata"])
    write_json(tmp_path / "audit/sheet.json", values | {"seed": 5})
    with pytest.raises(ArtifactError, match="is damaged"):
        saved_sheet(tmp_path)


def test_documents_that_are_not_selected_are_pages_of_unique(tmp_path: Path) -> None:
    """``selected`` is an index without documents, so there is nothing of it to draw."""
    before = build(tmp_path, "c4")
    rule = "{type: share, column: words, share: 0.5}"
    chosen = run_with(tmp_path, [*before.overrides, "columns=basic", f"selection.rules=[{rule}]"])
    assert chosen.artifact("selected").counts["dropped:share.words"]
    sheet, expected = drawn_sheet(chosen.run, 4, 3, 0), drawn_sheet(before.run, 4, 3, 0)
    assert (sheet.strata, sheet.pages) == (expected.strata, expected.pages)


def test_a_long_text_is_cut_in_its_middle() -> None:
    assert excerpt_of("a" * (BEGINNING + END)) == "a" * (BEGINNING + END)
    assert excerpt_of("a" * BEGINNING + "b" * 1234 + "c" * END) == (
        "a" * BEGINNING + "\n\n[… 1,234 characters …]\n\n" + "c" * END
    )


SENTENCE = "the mill of the town and the wheel have turned to the river that we know "


def words(number: int) -> Document:
    return Document(id=f"a:{number}", text=" ".join((SENTENCE * 30).split()[:number]))


def test_values_near_a_threshold_are_those_of_the_rule() -> None:
    """Word counts by brute force: pages of 50 to 62 words are within a quarter of the threshold 50."""
    rules = (GopherQuality(rules=(WordCount(),)),)
    documents = [words(number) for number in (40, 49, 50, 51, 60, 62, 63, 200)]
    nearest = near_thresholds(rules, documents, 10)
    expected = [(f"a:{number}", number) for number in (50, 51, 60, 62)]
    assert [(identity, nearness.value) for identity, nearness in nearest] == expected
    assert nearest[1][1] == Nearness("gopher_quality.word_count", 51, "min_words", 50)
    assert str(nearest[1][1]) == "51, threshold min_words=50"
    assert [identity for identity, _ in near_thresholds(rules, documents, 2)] == ["a:50", "a:51"]


@pytest.mark.parametrize(
    ("page_filter", "text", "value"),
    [
        (PageLength(max_characters=10), "nine char", 9),
        (LongLines(min_lines=4, min_characters=3), "long\n" * 5, 5),
        (C4Lines(rules=(), min_sentences=4), "A line.\nA line.\nA line.\nA line.\nA line.", 5),
        (FineWebQuality(rules=(ShortLines(max_fraction=0.6, max_characters=3),)), "abc\ndefgh", 0.5),
    ],
    ids=lambda value: getattr(value, "type", None),
)
def test_filters_give_the_values_of_pages_that_pass(page_filter, text: str, value: float) -> None:
    document = Document(id="a", text=text)
    [(_, nearness)] = near_thresholds((page_filter,), [document], 5)
    assert nearness.value == value
    assert document.text == text


def test_a_perfect_score_is_not_near() -> None:
    assert Nearness("language", 1.0, "min_score", 0.99).distance == pytest.approx(1)
    assert Nearness("language", 0.992, "min_score", 0.99).distance == pytest.approx(0.2)
    assert Nearness("symbols", 0.09, "max_fraction", 0.1).distance == pytest.approx(0.1)
    assert Nearness("ellipsis", 0.2, "max_fraction", 0.0).distance == pytest.approx(0.2)


def test_every_threshold_has_its_own_failing_rule() -> None:
    names = [(rule.holder.type, rule.name) for rule in failing_rules(GopherQuality())]
    assert names[:3] == [("word_count", "min_words"), ("word_count", "max_words"), ("word_length", "min_characters")]
    assert not near_thresholds((), [words(50)], 5)
