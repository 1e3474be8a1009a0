"""The lead of a document as its summary."""

import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace.train.evaluation.scoring import score
from headrace_courses.lead import Lead
from tests.train.evaluation.test_benchmarks import questions, sources
from tests.train.small_models import OfHuggingFace, model_of

SETTINGS = {"prompt": "{article}\nTL;DR:", "answer": "{highlights}", "scores": ("rouge2",)}


def test_the_lead_of_a_document_is_scored_without_a_model(gpt2, encoder, write_lines):
    rows = [{"article": "It rained.  The river rose. It fell.", "highlights": "It rained.\nThe river rose."}] * 2
    path = str(questions(write_lines, *rows))
    benchmark = Lead(paths=(path,), document="article", sentences=2, **SETTINGS)
    found = score("lead", benchmark, sources(), None, model_of(OfHuggingFace(gpt2), encoder))
    assert found.scores.tally.queries == 0
    assert [row["written"] for row in found.samples()] == [["It rained.\nThe river rose."]] * 2
    assert [metric.value for metric in found.scores.metrics] == [1.0]


def test_it_needs_the_field_of_the_document():
    with pytest.raises(ConfigError, match="type lead has no document; name its field"):
        Lead(paths=("a",), **SETTINGS)
