"""Extraction of canaries: what is asked, and metrics by copies."""

import math
from pathlib import Path

from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.inference.queries import Answer
from headrace_courses.canaries import Canaries
from headrace_courses.canary_extraction import Extraction

CANARIES = Canaries(copies=(1, 4), each=2)
BENCHMARK = Extraction(canaries=CANARIES)


def test_the_second_half_follows_the_first(encoder):
    items = BENCHMARK.items(Sources(Path(), None, "", start=encoder.end_of_text, tokenizer=encoder))
    assert [item.group for item in items] == ["copies_0"] * 2 + ["copies_1"] * 2 + ["copies_4"] * 2
    texts = [canary.text for copies in (0, 1, 4) for canary in CANARIES.canaries(copies)]
    for item, text in zip(items, texts, strict=True):
        (query,) = item.queries
        start, *first = query.context.tolist()
        assert start == encoder.end_of_text
        assert encoder.decode([*first, *query.continuation.tolist()]) == text
        assert 0 <= len(query.continuation) - len(first) <= 1


def test_metrics_leave_out_what_was_never_planted(encoder):
    items = BENCHMARK.items(Sources(Path(), None, "", start=encoder.end_of_text, tokenizer=encoder))
    right = [True, False, False, True, True, True]
    outcomes = [BENCHMARK.outcome(item, [Answer(-20.0, one, 10)]) for item, one in zip(items, right, strict=True)]
    found = {(one.name, one.group): one for one in BENCHMARK.metrics(items, outcomes, 16)}
    values = [found["acc", group].value for group in ("", "copies_0", "copies_1", "copies_4")]
    assert values == [0.75, 0.5, 0.5, 1.0]
    assert (found["loss", "copies_4"].value, found["loss", "copies_4"].random) == (2.0, math.log(16))
