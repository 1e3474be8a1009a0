"""Marked pages: marked lines equal the counts of the filters, unmarked lines equal the document."""

import dataclasses
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from datatrove.data import Document
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.line_corrections import LineCorrections
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.documents.marking import REMOVED, REWRITTEN, MarkedLine, Page, excerpt, marked_lines, pages
from headrace.pipeline.documents.stored_documents import matches
from tests.stage_run import texts_and_clean

WORDS = "river water mill wheel stone grain flour channel gate power bread town season winter".split()  # noqa: SIM905
PARTS = (
    "menu",
    "Read our privacy policy before you go on.",
    "Enable javascript to see this page.",
    "And so on and on...",
)


def page(rng: random.Random) -> str:
    """Sentences of this page and of all pages, some with citations, between lines that C4's rules remove."""

    def sentence(words: random.Random) -> str:
        start = " ".join(words.choice(WORDS) for _ in range(9)).capitalize()
        return f"{start} is what the people of this quiet valley remember{words.choice(['', ' [3] too', ''])}."

    shared = [sentence(random.Random(n)) for n in range(6)]
    lines = [sentence(rng) for _ in range(rng.randrange(3, 9))]
    lines += rng.sample(shared, rng.randrange(4)) + rng.choices(PARTS, k=rng.randrange(6)) + [""] * rng.randrange(3)
    lines += ["Here { is code for everyone to see."] * (rng.random() < 0.1)
    lines += lines[:1] * (rng.random() < 0.3)
    rng.shuffle(lines)
    return rng.choice(["\n", "\n  ", " \n"]).join(lines)


@dataclasses.dataclass(frozen=True)
class Cleaned:
    cleaning: Cleaning
    texts: Artifact
    clean: Artifact

    def pages(self, kind: str) -> list[Page]:
        shards = enumerate(self.clean.shards(kind))
        found = [(shard, document) for shard, path in shards for document in read_documents(path)]
        return pages(found, self.texts, self.cleaning)


def cleaned(folder: Path, cleaning: str, texts: list[str]) -> Cleaned:
    rows = [{"text": text, "url": f"https://{n}.example/"} for n, text in enumerate(texts)]
    (folder / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    overrides = ["source=jsonl", f"source.paths=[{folder}/pages.jsonl]", f"cleaning={cleaning}", "until=clean"]
    config = decoded(compose(overrides))
    return Cleaned(config.cleaning, *texts_and_clean(config.source, config.cleaning, folder))


def filled(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def c4(tmp_path_factory) -> Cleaned:
    rng = random.Random(5)
    return cleaned(tmp_path_factory.mktemp("c4"), "c4", [page(rng) for _ in range(150)])


def test_marks_of_kept_pages_equal_the_counts_of_filters(c4: Cleaned) -> None:
    seen: Counter[str] = Counter()
    for one in c4.pages("documents"):
        marks = Counter(line.rule for line in one.lines if line.rule)
        assert marks == Counter(one.document.metadata.get("removed_lines", {}))
        assert [line.text for line in one.lines if not line.rule] == filled(one.document.text)
        seen += marks
    assert {rule: n for rule, n in c4.clean.counts.items() if rule.startswith("removed_lines:")} == {
        f"removed_lines:{rule}": n for rule, n in seen.items()
    }
    assert {"unique_lines", "c4_lines.end_mark", "c4_lines.ellipsis", "c4_lines.policy", "c4_lines.javascript"} <= set(
        seen
    )


def test_a_dropped_page_marks_the_line_that_caused_it(c4: Cleaned) -> None:
    dropped = [one for one in c4.pages("dropped") if one.drop["rule"] == "c4_lines.curly_bracket"]
    assert len(dropped) > 3
    for one in dropped:
        lines = [line.text for line in one.lines if line.rule == one.drop["rule"]]
        assert lines[0] == one.drop["value"] == "Here { is code for everyone to see."
        assert len(one.lines) == len(filled(one.document.text))


def test_a_page_dropped_by_a_later_filter_marks_lines_removed_by_earlier_ones(tmp_path: Path) -> None:
    text = "\n".join(["menu", *(f"Das ist der Satz Nummer {n} auf dieser langen deutschen Seite." for n in range(5))])
    (one,) = cleaned(tmp_path, "c4", [text]).pages("dropped")
    assert one.drop["rule"] == "language"
    assert [line.rule for line in one.lines] == ["c4_lines.end_mark", *[""] * 5]


def test_sentences_removed_from_lines(tmp_path: Path) -> None:
    """Spans of three sentences that two pages share: the shortened line comes after its original."""
    rng = random.Random(3)
    lines = [[" ".join(rng.choices(WORDS, k=8)).capitalize() + "." for _ in range(6)] for _ in range(8)]
    shared = [*lines[1][1:5], "Another end of this line that nobody wrote before."]
    texts = ["\n".join(map(" ".join, some)) for some in (lines[:4], [shared, *lines[4:]])]
    found = cleaned(tmp_path, "c4_paper", texts).pages("documents")
    shorter = [one for one in found if "removed_sentences" in one.document.metadata]
    (one,) = shorter
    assert [line.text for line in one.lines if not line.rule] == filled(one.document.text)
    assert [line.rule for line in one.lines if line.rule.startswith("unique")] == ["unique_spans"]


def test_corrected_lines(tmp_path: Path) -> None:
    """A phrase is removed from one line; other lines are removed whole."""
    body = [f"This is sentence number {n} of a page with many words in all of its lines." for n in range(30)]
    text = "\n".join([*body, "1,234 likes", "HOME AND NEWS", "", "Two items in cart"])
    source, cleaning = Jsonl(paths=(str(tmp_path / "pages.jsonl"),)), Cleaning(filters=(LineCorrections(),))
    (tmp_path / "pages.jsonl").write_text(json.dumps({"text": text}))
    (one,) = Cleaned(cleaning, *texts_and_clean(source, cleaning, tmp_path)).pages("documents")
    assert one.lines == [
        *map(MarkedLine, body),
        MarkedLine("1,234 likes", "line_corrections.counter_line"),
        MarkedLine("HOME AND NEWS", "line_corrections.uppercase_line"),
        MarkedLine("Two"),
    ]


def c4_rules() -> Cleaning:
    return decoded(compose([])).cleaning


@pytest.mark.parametrize(
    ("metadata", "rules"),
    [
        ({"removed_lines": {"unique_lines": 1}}, ["unique_lines"]),
        ({"removed_lines": {"unique_lines": 1, "other": 1}}, [REMOVED]),
        ({}, [REMOVED]),
    ],
)
def test_unknown_rules_are_marked_as_removed(metadata: dict[str, object], rules: list[str]) -> None:
    first, second = ("This is a sentence with a number of words.", "Here is another one with even more words.")
    lines = marked_lines(Document(text=second, id="a:0", metadata=metadata), f"{first}\n{second}", c4_rules())
    assert lines == [MarkedLine(first, rules[0]), MarkedLine(second)]


def test_rewritten_lines() -> None:
    first, second = ("Write to us at ann@example.org if you like it.", "Here is another one with even more words.")
    changed = first.replace("ann@example.org", "email@example.com")
    lines = marked_lines(Document(text=f"{changed}\n{second}", id="a:0", metadata={}), f"{first}\n{second}", c4_rules())
    assert lines == [MarkedLine(first, REWRITTEN), MarkedLine(changed), MarkedLine(second)]
    alone = marked_lines(Document(text="New.", id="a:0", metadata={}), "menu", c4_rules())
    assert alone == [MarkedLine("New."), MarkedLine("menu", "c4_lines.end_mark")]


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd")))
def test_all_lines_of_the_document_are_shown(before: list[str], after: list[str]) -> None:
    document = Document(text="\n".join(after), id="a:0", metadata={})
    lines = marked_lines(document, "\n".join(before), Cleaning(filters=()))
    assert [line.text for line in lines if not line.rule] == after
    assert Counter(before) - Counter(line.text for line in lines) == Counter()


def test_documents_of_texts_have_lost_no_line(c4: Cleaned) -> None:
    (first, *_) = read_documents(c4.texts.shards("documents")[0])
    (one,) = pages([(0, first)], None, c4.cleaning)
    assert one.lines == [*map(MarkedLine, filled(first.text))]


def test_excerpts_of_long_pages_prefer_removed_lines() -> None:
    lines = [MarkedLine(str(n), "a.x" if n == 10 else "b" if n == 20 else "") for n in range(30)]
    first, ten, twenty = (
        [MarkedLine("0")],
        [MarkedLine("9"), MarkedLine("10", "a.x"), MarkedLine("11")],
        [MarkedLine("19"), MarkedLine("20", "b"), MarkedLine("21")],
    )
    assert excerpt(lines, 7) == [*first, 8, *ten, 7, *twenty, 8]
    assert excerpt(lines, 4, "a") == [*first, 8, *ten, 18]
    assert excerpt(lines, 3, "b") == [19, *twenty, 8]
    assert excerpt(lines[:3], 7) == lines[:3]
    assert excerpt(lines, 2, "none") == [MarkedLine("0"), MarkedLine("1"), 28]
    assert excerpt([], 3) == []


def test_a_rule_matches_its_name_and_its_filter() -> None:
    assert matches("", "language")
    assert matches("c4_lines", "c4_lines.end_mark")
    assert matches("c4_lines.end_mark", "c4_lines.end_mark")
    assert not matches("c4", "c4_lines.end_mark")
    assert not matches("c4_lines.end_mark", "c4_lines.end")
