"""``headrace why FILE --as page`` on a run of three pages, and options that do not fit."""

import json
import random
import re

import pytest

from headrace.data_prep.dedup.config import Dedup
from headrace.pipeline.commands.why import similar_facts
from headrace.pipeline.core.errors import ConfigError
from tests.command_line import headrace_here
from tests.data_prep.dedup.corpus import slow_jaccard

WORDS = random.Random(1).choices([f"word{i}" for i in range(500)], k=200)
PAGES = {"a": " ".join(WORDS), "b": " ".join(WORDS[10:]), "c": " ".join(reversed(WORDS))}
TEXT = " ".join(WORDS[5:])


def settings(folder):
    source = ["source=jsonl", f"source.paths=[{folder}/pages.jsonl]", "cleaning=none"]
    return [*source, "until=signatures", f"root={folder}/runs", "dedup.recall=0.99"]


def similar(folder, file, text=""):
    return headrace_here("why", file, "--as", "page", *settings(folder), text=text).stdout


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("similar")
    lines = (json.dumps({"url": f"https://example.org/{name}", "text": text}) for name, text in PAGES.items())
    (folder / "pages.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def finished(pages):
    result = headrace_here(*settings(pages))
    assert result.returncode == 0, result.stderr
    assert Dedup(recall=0.99).expected_recall in result.stderr
    return pages


def test_finds_the_similar_pages(finished):
    (finished / "text.txt").write_text(TEXT, encoding="utf-8")
    found = similar(finished, f"{finished}/text.txt")
    assert found == similar(finished, "-", text=TEXT)
    rows = [line.split() for line in found.splitlines()]
    assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
        ("jaccard", f"{slow_jaccard(TEXT, PAGES[name]):.4f}", "estimated", f"pages.jsonl:{record}")
        for name, record in sorted({"a": 0, "b": 1}.items(), key=lambda one: -slow_jaccard(TEXT, PAGES[one[0]]))
    ]
    assert all(abs(float(row[1]) - float(row[3])) < 0.1 for row in rows)


def test_says_when_there_is_none(finished):
    assert similar(finished, "-", text="a text that is on none of these three pages").split() == ["similar", "none"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.txt", None, "FILE: cannot read {!r} (No such file or directory); name a text file, or -"),
        ("latin.txt", b"M\xfchle", "FILE: {!r} is not UTF-8 (byte 1); convert it to UTF-8"),
        ("dots.txt", b"...", "FILE: there is no word in {!r}; give it a text"),
    ],
)
def test_a_file_that_cannot_be_looked_up(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{re.escape(message.format(str(path)))}$"):
        list(similar_facts([], str(path)))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a:1", "--rank", "1"], "--rank: says nothing of a document; give --as step"),
        (["1", "--as", "step", "--blocks"], "--blocks: says nothing of a step; leave out --as"),
        (["a.txt", "--as", "page", "--tokens", "9"], "--tokens: says nothing of a page; give --as text"),
    ],
)
def test_options_of_another_question(words, message):
    assert headrace_here("why", *words).stderr == f"headrace: {message}\n"
