"""inspect: the choice of documents by rule, number and seed; their form in a pipe and on a terminal."""

import json

import pytest
from datatrove.data import Document

from headrace.data_prep.document import read_documents
from headrace.pipeline.commands import inspect
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents.marking import MarkedLine, Page
from headrace.pipeline.documents.stored_documents import KINDS
from headrace.pipeline.output.terminal import terminal
from tests.command_line import headrace_here
from tests.small_runs import Corpus, build


@pytest.fixture(scope="module")
def c4(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("c4"), "c4")


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("plain"), "none")


def ids(pages: list[Page]) -> list[str]:
    return [page.document.id for page in pages]


def test_by_rule_or_by_filter(c4: Corpus) -> None:
    for rule in ("c4_lines.sentences", "c4_lines"):
        assert ids(inspect.chosen(c4.steps, "clean", rule, "1", only="kept").kept) == [f"{c4.first}:0"]
        found = inspect.chosen(c4.steps, "clean", rule, "1")
        assert found.kept == [], "the rule has nothing to do with them"
        (dropped,) = found.dropped
        assert list(inspect.facts_of(dropped, rule)) == [
            ("id", f"{c4.second}:2"),
            ("url", "https://b.example/?page=2"),
            ("rule", "c4_lines.sentences"),
            ("value", "0"),
            ("meaning", "0 sentences left, 3 needed"),
            ("characters", "10"),
            ("lost", "- Too short.  (c4_lines.few_words)"),
        ]
    assert ids(inspect.chosen(c4.steps, "unique", "near_duplicate").dropped) == [f"{c4.first}:5"]


def test_by_a_rule_that_removes_lines(c4: Corpus) -> None:
    """Only one kept page has lines without an end mark. The dropped pages are those of the same filter."""
    found = inspect.chosen(c4.steps, "clean", "c4_lines.end_mark")
    assert ids(found.kept) == [f"{c4.second}:6"]
    facts = list(inspect.facts_of(found.kept[0]))
    assert ("removed lines", "2 by c4_lines.end_mark") in facts
    assert [value for name, value in facts if name == "lost"] == [
        "- menu �[31m  (c4_lines.end_mark)",
        "- home  (c4_lines.end_mark)",
    ]
    assert ids(found.dropped) == [f"{c4.second}:2", f"{c4.second}:7"]


def test_long_texts_are_shown_in_part() -> None:
    page = Page(Document(text="", id="a:0", metadata={}), [MarkedLine("x" * 200)] * 15)
    lines = [value for key, value in inspect.facts_of(page) if key == "text"]
    assert lines == [*["x" * 160 + "…"] * 12, "… 3 more"]


def test_a_page_cannot_steer_the_terminal(
    plain: Corpus, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = inspect.chosen(plain.steps, "clean", "", "100")
    inspect.show(found)
    printed = capsys.readouterr().out
    assert "text              �]0;owned� �\n" in printed
    assert not set(printed) & set("\x1b\x07\u202e\r")
    monkeypatch.setattr(inspect, "terminal", lambda: terminal(force_terminal=True, no_color=True, width=120))
    inspect.show(found)
    printed = capsys.readouterr().out
    assert "�]0;owned� �" in printed
    assert not set(printed) & set("\x07\u202e\r")
    assert "\x1b]" not in printed


def test_one_kind_is_shown_one_fact_a_line(
    c4: Corpus, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect, "terminal", lambda: terminal(force_terminal=True, color_system=None, width=120))
    inspect.show(inspect.chosen(c4.steps, "clean", "c4_lines.end_mark", only="kept"))
    printed = capsys.readouterr().out
    assert "lost              - home  (c4_lines.end_mark)" in printed
    assert "1 of 1, kept" in printed
    assert "dropped" not in printed
    inspect.show(inspect.chosen(c4.steps, "clean", only="dropped", seed="3"))
    assert "(random, seed 3)" in capsys.readouterr().out


def test_the_command_line(c4: Corpus) -> None:
    shown = headrace_here("inspect", "unique", "--rule", "near_duplicate", "--sample", "1", *c4.overrides)
    assert f"{'rule':<18}near_duplicate\n" in shown.stdout, shown.stderr
    assert shown.stdout.startswith(f"{'sample':<18}1 of 1, dropped\n")
    assert json.dumps(c4.first)[1:-1] in shown.stdout
    shown = headrace_here("inspect", "unique", "--sample", "1", *c4.overrides)
    kept, dropped = shown.stdout.split("\n\n")
    assert (kept.splitlines()[0], dropped.splitlines()[0]) == (
        f"{'sample':<18}1 of 1, kept",
        f"{'sample':<18}1 of 1, dropped",
    )
    assert "rule" not in kept


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
