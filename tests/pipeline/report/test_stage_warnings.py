"""Warnings about stages that lost nearly everything, from their counts."""

import itertools
import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.artifact import Artifact, TaskOutput
from headrace.pipeline.report.stage_warnings import all_warnings, warnings
from tests.command_line import headrace_here
from tests.pipeline.report.test_report import artifact, document, documents

FILTERS = [
    {"type": "page_length"},
    {"type": "c4_lines"},
    {"type": "python", "path": "my_filters:Shouts"},
    {"type": "datatrove", "path": "datatrove.pipeline.filters.RegexFilter"},
    {"type": "c4_lines"},
    {"type": "language"},
]


def made(root: Path, stage: str, counts: Mapping[str, int], **samples: str) -> Artifact:
    """A finished artifact with ``counts`` and dropped documents: a rule with the text of its document."""

    def fill(out: TaskOutput) -> Mapping[str, int]:
        drops = [{"rule": rule.replace("__", "."), "value": f"value of {rule}"} for rule in samples]
        pairs = zip(drops, samples.values(), strict=True)
        documents(out, "dropped", [document(f"a.jsonl:{n}", text, drop=drop) for n, (drop, text) in enumerate(pairs)])
        return counts

    return artifact(root, stage, {"cleaning": {"filters": FILTERS}}, fill)


@pytest.mark.parametrize(
    ("stage", "counts", "expected"),
    [
        ("clean", {"documents_in": 100, "kept": 1, "dropped:language": 99}, []),  # 99 % are not more than 99 %
        (
            "clean",
            {"documents_in": 1000, "kept": 9, "dropped:language": 991},
            ["clean: language dropped 991 of 1,000 documents (99.1 %)"],
        ),
        ("clean", {"documents_in": 99, "kept": 1, "dropped:page_length": 98}, []),
        (  # language judged only what was left: 100 documents
            "clean",
            {"documents_in": 1000, "kept": 0, "dropped:c4_lines.sentences": 900, "dropped:language": 100},
            ["clean: none of 1,000 documents is left, dropped by c4_lines.sentences 900, language 100"],
        ),
        (
            "clean",
            {"documents_in": 1200, "kept": 1, "dropped:c4_lines.sentences": 999, "dropped:language": 200},
            ["clean: language dropped 200 of 201 documents (99.5 %)"],
        ),
        (
            "clean",
            {"documents_in": 1000, "kept": 1, "dropped:c4_lines.sentences": 599, "dropped:c4_lines.javascript": 400},
            ["clean: c4_lines dropped 999 of 1,000 documents (99.9 %), by c4_lines.sentences 599, "
             "c4_lines.javascript 400"],
        ),
        (
            "clean",
            {"documents_in": 500, "kept": 1, "dropped:python.Shouts.loud": 499},
            ["clean: python.Shouts dropped 499 of 500 documents (99.8 %), by python.Shouts.loud 499"],
        ),
        (
            "clean",
            {"documents_in": 500, "kept": 1, "dropped:datatrove.RegexFilter": 499},
            ["clean: datatrove.RegexFilter dropped 499 of 500 documents (99.8 %)"],
        ),
        ("clean", {"documents_in": 0}, ["clean: there are no documents"]),
        (
            "clean",
            {"documents_in": 2, "dropped:language": 2},
            ["clean: none of 2 documents is left, dropped by language 2"],
        ),
        ("texts", {"records_in": 0}, ["texts: there are no records"]),
        (
            "texts",
            {"records_in": 1000, "kept": 1, "dropped:not_a_page": 600, "dropped:http_status": 399},
            ["texts: 999 of 1,000 records (99.9 %) were dropped, by not_a_page 600, http_status 399"],
        ),
        ("texts", {"records_in": 5, "dropped:no_text": 5}, ["texts: none of 5 records is left, dropped by no_text 5"]),
        (
            "unique",
            {"documents_in": 200, "kept": 1, "dropped:near_duplicate": 199},
            ["unique: 199 of 200 documents (99.5 %) were dropped, by near_duplicate 199"],
        ),
        ("unique", {"documents_in": 200, "kept": 100, "dropped:near_duplicate": 100}, []),
        ("tokens", {"documents": 0}, []),
        ("tokens", {"tokens": 1000, "unknown_tokens": 1}, []),  # 0.1 % are not more than 0.1 %
        (
            "tokens",
            {"tokens": 9990, "unknown_tokens": 10},
            ["tokens: 10 of 9,990 tokens (0.1 %) stand for characters that the tokenizer does not have; give one that "
             "falls back to bytes"],
        ),
        ("clean", {"documents_in": 10, "kept": 10, "hard_wrapped:c4_lines.end_mark": 1}, []),
        (
            "clean",
            {"documents_in": 20, "kept": 9, "dropped:page_length": 1, "hard_wrapped:c4_lines.end_mark": 2},
            [
                "clean: c4_lines.end_mark removed lines of 2 of 19 documents (10.5 %) that go on in the next line: "
                "they are hard-wrapped; to join such lines first, give source.unwrap=true"
            ],
        ),
    ],
)  # fmt: skip
def test_what_is_too_much(tmp_path: Path, stage: str, counts: dict[str, int], expected: list[str]) -> None:
    assert warnings(stage, made(tmp_path, stage, counts)) == expected


def test_an_example_of_the_most_frequent_rule(tmp_path: Path) -> None:
    counts = {"documents_in": 300, "kept": 1, "dropped:language": 199, "dropped:page_length": 100}
    found = made(tmp_path, "clean", counts, page_length="x" * 99, language="Der\nFluss \x1b[31m fließt " + "ab " * 99)
    (text,) = warnings("clean", found)
    assert text == (
        "clean: language dropped 199 of 200 documents (99.5 %); for example a.jsonl:1 (language: 'value of language'),"
        " 'Der Fluss \ufffd[31m fließt ab ab ab ab ab ab ab ab ab ab ab ab a…'"
    )


@pytest.mark.parametrize("damage", [b"", b"no zstd", None])
def test_a_damaged_shard_gives_no_example(tmp_path: Path, damage: bytes | None) -> None:
    found = made(tmp_path, "clean", {"documents_in": 2, "dropped:language": 2}, language="text")
    (path,) = (found.folder / "dropped").iterdir()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    assert warnings("clean", found) == ["clean: none of 2 documents is left, dropped by language 2"]


def test_stages_after_an_empty_one_are_not_named(tmp_path: Path) -> None:
    empty: dict[str, Any] = {
        "texts": made(tmp_path, "texts", {"records_in": 9, "kept": 9}),
        "clean": made(tmp_path, "clean", {"documents_in": 9, "dropped:language": 9}),
        "unique": made(tmp_path, "unique", {"documents_in": 0}),
    }
    assert all_warnings(empty) == ["clean: none of 9 documents is left, dropped by language 9"]


@pytest.mark.slow
def test_hard_wrapped_text_is_noted_at_the_end_of_the_stage_by_status_and_on_the_report(tmp_path: Path) -> None:
    """Rules for lines cut its sentences; joined when it is read, nothing is cut and nothing noted."""
    years = itertools.count(1700)
    sentences = (f"The mill of {year} was closed in the autumn, and nobody knew when it would open." for year in years)
    texts = (textwrap.fill(" ".join(itertools.islice(sentences, 6)), 64) for _ in range(10))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    given = ["source=jsonl", f"source.paths={tmp_path}/in.jsonl", "cleaning=c4", "until=clean"]
    note = "c4_lines.end_mark removed lines of 10 of 10 documents (100.0 %) that go on in the next line"
    for unwrap in ("false", "true"):
        own = [*given, f"root={tmp_path}/{unwrap}", f"source.unwrap={unwrap}"]
        ran, shown = headrace_here("run", *own), headrace_here("status", f"root={tmp_path}/{unwrap}")
        assert (ran.returncode, shown.returncode) == (0, 0), ran.stderr
        [page] = Path(tmp_path, unwrap, "report").glob("*/report.html")
        places = (ran.stderr, shown.stdout, page.read_text())
        assert [note in place for place in places] == [unwrap == "false"] * 3
