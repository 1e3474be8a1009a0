"""The in-context-learning score, by hand and of a uniform model."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.held_out_documents import HeldOut, HeldOutDocument
from headrace.train.evaluation.scoring import score
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import Answer
from headrace_courses.in_context import InContext
from tests.train.small_models import WINDOW_TOKENS, Uniform, model_of

ROUNDING = 1e-6
"""Rounding of log-probabilities in fp32."""

END = 0


def document(number: int, tokens: int) -> HeldOutDocument:
    """``tokens`` tokens 1, 2, … in two spans, between two end-of-text tokens."""
    whole = np.array([END, *range(1, tokens + 1), END], np.uint16)
    cut = (tokens + 2) // 2
    return HeldOutDocument(f"00000:{number}", (whole[:cut], whole[cut - 1 :]), 3 * tokens, SimpleNamespace())


def items_of(benchmark: InContext, *lengths: int):
    documents = [document(number, length) for number, length in enumerate(lengths)]
    return benchmark.items(Sources(Path(), SimpleNamespace(documents=documents), ""))


def test_both_tokens_follow_all_that_stands_before_them():
    benchmark = InContext(early_token=3, late_token=10)
    just_enough, longer = items_of(benchmark, 9, 10, 12)
    assert [just_enough.name, longer.name] == ["00000:1", "00000:2"]
    early, late, *octaves = just_enough.queries
    assert (early.context.tolist(), early.continuation.tolist()) == ([END, 1, 2], [3])
    assert (late.context.tolist(), late.continuation.tolist()) == ([END, *range(1, 10)], [10])
    assert [query.continuation.tolist() for query in octaves] == [[1], [2, 3], [4, 5, 6, 7], [8, 9, 10]]
    for query in octaves:
        assert query.context.tolist() == [END, *range(1, query.continuation[0])]
    assert len(items_of(InContext(early_token=3, late_token=10, limit=1), 10, 12, 14)) == 1


def test_the_score_by_hand():
    benchmark = InContext(early_token=3, late_token=10)
    items = items_of(benchmark, 20, 20)
    answers = ([-4.0, -1.0, -5.0, -8.0, -12.0, -6.0], [-3.0, -2.0, -7.0, -6.0, -8.0, -3.0])
    tokens = (1, 1, 1, 2, 4, 3)
    outcomes = [
        benchmark.outcome(items[0], [Answer(x, False, n) for x, n in zip(sums, tokens, strict=True)])
        for sums in answers
    ]
    octaves = {"tokens_1_1": 5.0, "tokens_2_3": 4.0, "tokens_4_7": 3.0, "tokens_8_10": 2.0}
    assert outcomes[0] == {"in_context_score": -3.0, "loss_at_early": 4.0, "loss_at_late": 1.0, **octaves}
    found, early, late, *by_index = benchmark.metrics(items, outcomes, 16)
    assert (found.name, found.value, found.random, found.items) == ("in_context_score", -2.0, 0.0, 2)
    assert found.standard_error == pytest.approx(1.0)  # deviations ±1: sqrt(2 / (2 - 1)) / sqrt(2)
    assert found.interval == pytest.approx((-2 - 1.959964, -2 + 1.959964))
    assert (early.name, early.value, late.name, late.value) == ("loss_at_early", 3.5, "loss_at_late", 1.5)
    assert early.random == late.random == math.log(16)
    assert {metric.name for metric in by_index} == {"loss_by_index"}
    expected = {"tokens_1_1": 6.0, "tokens_2_3": 3.5, "tokens_4_7": 2.5, "tokens_8_10": 1.5}
    assert {metric.group: metric.value for metric in by_index} == expected
    assert [metric.group for metric in by_index] == ["tokens_1_1", "tokens_2_3", "tokens_4_7", "tokens_8_10"]


def test_a_uniform_model_scores_exactly_0(line, encoder):
    subject = model_of(Uniform(encoder.vocabulary_size), encoder)
    held_out = HeldOut(line["tokens"], line["packed"], encoder)
    benchmark = InContext(early_token=5, late_token=WINDOW_TOKENS)
    entry = score("in_context", benchmark, Sources(Path(), held_out, ""), None, subject).scores
    found, early, _, *by_index = entry.metrics
    assert entry.items > 20
    assert (found.value, found.standard_error, entry.tally.truncated_contexts) == (0.0, 0.0, 0)
    assert [metric.value for metric in (early, *by_index)] == pytest.approx([early.random] * 8, rel=1e-6)


def test_a_window_too_small_is_an_error():
    evaluation = Evaluation(benchmarks={"learning": InContext(late_token=65)})
    evaluation.check_window(65)
    with pytest.raises(ConfigError) as caught:
        evaluation.check_window(64)
    assert str(caught.value) == (
        "evaluation.benchmarks.learning: it needs 65 positions and the model has 64; "
        "make its settings smaller or leave it out"
    )


@pytest.mark.parametrize(("early", "late"), [(5, 5), (6, 5)])
def test_the_early_token_comes_first(early, late):
    with pytest.raises(ConfigError) as caught:
        InContext(early_token=early, late_token=late)
    assert str(caught.value) == (
        f"evaluation.benchmarks: early_token is {early}, late_token {late}; give a larger late_token"
    )
