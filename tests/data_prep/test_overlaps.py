"""Benchmark items in documents are found, other items are not."""

import dataclasses

import pytest

from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.decontamination.overlap import read_overlaps
from headrace.data_prep.overlaps import Overlaps
from headrace.pipeline.core.json_files import read_json
from tests.data_prep.decontamination.quiz import Quiz, numbered, quiz
from tests.unique_documents import unique_documents

A = quiz(**{"a.jsonl:1": numbered(0, 20), "a.jsonl:2": numbered(20, 33), "a.jsonl:3": "too short to be found"})
B = Quiz(
    {"b.jsonl:1": (numbered(12, 28), "a wrong answer"), "b.jsonl:2": ("eight words are just enough to be searched",)}
)
TEXTS = [
    [f"before {numbered(0, 16).upper()} after", numbered(0, 12), ""],
    [numbered(0, 33), "Eight words are just enough: to be searched."],
    [],
]


@pytest.fixture
def inputs(tmp_path):
    return {"unique": unique_documents(tmp_path / "unique", TEXTS)}


def test_items_and_documents(run_stage, inputs, tmp_path):
    overlaps = run_stage(Overlaps(ngram_words=13, benchmarks={"b": B, "a": A}), inputs, tmp_path / "o")
    assert read_json(overlaps.path("items.json")) == {
        "format": 1,
        "ngram_words": 13,
        "benchmarks": {
            "a": {"items": 3, "too_short": ["a.jsonl:3"], "dirty": {"a.jsonl:1": 2, "a.jsonl:2": 1}},
            "b": {"items": 2, "too_short": [], "dirty": {"b.jsonl:1": 1, "b.jsonl:2": 1}},
        },
    }
    found = [[dataclasses.astuple(one) for one in read_overlaps(path)] for path in overlaps.shards("overlaps")]
    eight = "eight words are just enough to be searched"
    assert found == [
        [("a/a.jsonl:1", "0:0", 4, 8, numbered(0, 13), "kept")],
        [
            ("a/a.jsonl:1", "1:0", 8, 8, numbered(0, 13), "kept"),
            ("a/a.jsonl:2", "1:0", 1, 1, numbered(20, 33), "kept"),
            ("b/b.jsonl:1", "1:0", 4, 4, numbered(12, 25), "kept"),
            ("b/b.jsonl:2", "1:1", 1, 1, eight, "kept"),
        ],
        [],
    ]
    assert overlaps.counts == {
        "benchmark_items": 5,
        "too_short_items": 1,
        "benchmark_ngrams": 14,
        "documents": 5,
        "dirty_documents": 3,
        "dirty_items": 4,
    }


def test_a_long_item_is_dirty_when_more_than_its_share_is_found_in_all_documents(run_stage, inputs, tmp_path):
    """88 n-grams: 21 of them in two documents, of which one has 4 and the other all; or 17 of them."""
    words = {"21": 33, "17": 29}
    items = {name: f"{numbered(0, n)} {numbered(0, 100 - n, 'other')}" for name, n in words.items()}
    for share, dirty in ((0.0, {"17": 2, "21": 2}), (0.2, {"21": 2}), (0.24, {})):
        long = dataclasses.replace(quiz(**items), dirty_share=share)
        overlaps = run_stage(Overlaps(ngram_words=13, benchmarks={"long": long}), inputs, tmp_path / f"{share}")
        assert read_json(overlaps.path("items.json"))["benchmarks"]["long"]["dirty"] == dirty
    halves = {"unique": unique_documents(tmp_path / "halves", [[numbered(0, 22)], [numbered(10, 33)]])}
    long = dataclasses.replace(quiz(**items), dirty_share=0.2)
    overlaps = run_stage(Overlaps(ngram_words=13, benchmarks={"long": long}), halves, tmp_path / "of_halves")
    assert read_json(overlaps.path("items.json"))["benchmarks"]["long"]["dirty"] == {"21": 2}, "none has 20 % alone"


def test_nothing_to_search_for_reads_nothing(run_stage, inputs, tmp_path):
    for path in inputs["unique"].folder.glob("documents/*"):
        path.unlink()
    overlaps = run_stage(Overlaps(ngram_words=13), inputs, tmp_path / "o")
    assert read_json(overlaps.path("items.json"))["benchmarks"] == {}
    assert set(overlaps.manifest["files"]) == {"items.json"}
    assert overlaps.manifest["phases"] == {"items": 1}


@pytest.mark.parametrize("how", [{"backwards": True}, {"twice": True}])
def test_order_and_repetition_change_nothing(how, run_stage, inputs, tmp_path):
    stage = Overlaps(ngram_words=13, benchmarks={"a": A, "b": B})
    one = run_stage(stage, inputs, tmp_path / "one")
    other = run_stage(stage, inputs, tmp_path / "other", **how)
    assert one.manifest == other.manifest


def test_the_settings_that_search():
    assert Overlaps.of(Decontamination(action="none"), {"a": A}) == Overlaps(ngram_words=13)
    for action in ("report", "drop", "mask"):
        made = Overlaps.of(Decontamination(action=action, ngram_words=9), {"a": A})
        assert made == Overlaps(ngram_words=9, benchmarks={"a": A})
    assert made.raw_files() == A.raw_files()
