"""The choice of documents by rule, number and seed."""

import pytest

from headrace.data_prep.document import read_documents
from headrace.pipeline.commands import inspect
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents.marking import Page
from headrace.pipeline.documents.stored_documents import KINDS
from tests.small_runs import Corpus, build


@pytest.fixture(scope="module")
def c4(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("c4"), "c4")


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("plain"), "none")


def ids(pages: list[Page]) -> list[str]:
    return [page.document.id for page in pages]


def test_documents_come_out_of_several_shards(c4: Corpus) -> None:
    both = inspect.chosen(c4.steps, "clean", sample="2")
    assert ids(both.kept) == [f"{c4.first}:0", f"{c4.second}:0"]
    assert ids(both.dropped) == [f"{c4.second}:2", f"{c4.second}:3"]
    kept = inspect.chosen(c4.steps, "clean", "kept", "3")
    assert ids(kept.kept) == [f"{c4.first}:0", f"{c4.second}:0", f"{c4.first}:1"]
    assert kept.dropped == []
    everything = ids(inspect.chosen(c4.steps, "clean", "kept", "1000").kept)
    assert len(everything) == len(set(everything)) == c4.artifact("clean").counts["kept"]


def test_it_looks_on_where_a_rule_is_rare(plain: Corpus) -> None:
    """The evenly chosen shard has no such document; the other has."""
    assert ids(inspect.chosen(plain.steps, "texts", "no_text", "1").dropped) == [f"{plain.second}:10"]


def test_documents_whose_stored_numbers_are_nearest(c4: Corpus) -> None:
    """A number, and one of a label, with the kept and the dropped documents that have it."""
    around = 0.9999
    for kind, pages in zip(KINDS, both_near(c4, "language_score", str(around), "3"), strict=True):
        documents = [one for path in c4.artifact("clean").shards(kind) for one in read_documents(path)]
        stored = [one.metadata["language_score"] for one in documents if "language_score" in one.metadata]
        near = sorted(sorted(stored, key=lambda number: abs(number - around))[:3])
        assert [page.document.metadata["columns"] for page in pages] == [{"language_score": n} for n in near]
    kept, dropped = both_near(c4, "removed_lines.c4_lines.end_mark", "9", "3")
    assert (ids(kept), ids(dropped)) == ([f"{c4.second}:6"], [])


def both_near(c4: Corpus, score: str, around: str, number: str) -> tuple[list[Page], list[Page]]:
    chosen = inspect.chosen(c4.steps, "clean", sample=number, score=score, around=around)
    return chosen.kept, chosen.dropped


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tokens"], "STAGE: 'tokens' does not keep or drop documents; give one of texts, clean, unique"),
        (["clean", "c4_lnes"], "RULE: clean dropped and removed nothing by 'c4_lnes'; did you mean 'c4_lines'?"),
        (["clean", "kept", "0"], "--sample: must be at least 1 (got '0'); correct the value"),
    ],
)
def test_mistakes(c4: Corpus, words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        inspect.chosen(c4.steps, *words)
    assert str(error.value) == message


def test_random_documents(c4: Corpus) -> None:
    """The same for the same seed; all of them, once each, if enough are asked for."""
    chosen = [inspect.chosen(c4.steps, "clean", sample="4", seed=seed) for seed in ("1", "1", "2")]
    assert ids(chosen[0].kept) == ids(chosen[1].kept) != ids(chosen[2].kept)
    assert chosen[0].choice == "random, seed 1"
    everything = ids(inspect.chosen(c4.steps, "clean", "", "1000", "7").kept)
    assert len(everything) == len(set(everything)) == c4.artifact("clean").counts["kept"]


def test_no_raw_file_is_read(tmp_path) -> None:
    corpus = build(tmp_path, "c4")
    (tmp_path / "second.jsonl").unlink()
    found = inspect.chosen(corpus.steps, "clean", "c4_lines.end_mark").kept[0]
    assert [line.text for line in found.lines if line.rule] == ["menu \x1b[31m", "home"]
