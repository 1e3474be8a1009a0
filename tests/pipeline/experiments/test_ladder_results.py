"""The analysis of a whole ladder: recommendations, warnings and refusals."""

import json

import pytest

from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.experiments import law
from headrace.pipeline.experiments.ladder_results import Analysis, check_budget
from tests.pipeline.experiments.planted import LAW, SIZES, TOKENS, arms, best_rate

CHANCE = 100.0


LARGEST = 6 * SIZES[-1] * TOKENS[-1]


@pytest.fixture(scope="module")
def planted() -> Analysis:
    """The analysis of the planted trainings, with few resamples, for a budget of 20 times the largest of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(law, "RESAMPLES", 8)
        return Analysis.of(arms(), CHANCE, 20 * LARGEST)


def test_the_recommendation_for_a_budget_is_that_of_the_planted_law(planted):
    found, truth = planted.recommendation, LAW.optimum(20 * LARGEST)
    assert found.optimum == pytest.approx(truth, rel=1e-3)
    assert found.rate == pytest.approx(best_rate(truth.parameters, truth.tokens), rel=1e-3)
    facts = dict(found.facts())
    assert facts["budget"].endswith(" FLOP, 20 times the largest training of the ladder")
    assert facts["warning"] == "more than 10 times the largest training: the intervals are too narrow"


def test_trainings_at_chance_are_left_out(monkeypatch):
    monkeypatch.setattr(law, "RESAMPLES", 1)
    few = arms(sizes=SIZES[:3], tokens=TOKENS[:3])
    diverged = [arm._replace(rate=arm.rate * 9, loss=CHANCE) for arm in few]
    alive, both = Analysis.of(few, CHANCE, None), Analysis.of([*few, *diverged], CHANCE, None)
    assert both.law == alive.law
    assert len(both.trainings) == len(alive.trainings)


def test_a_ladder_at_chance_is_refused():
    flat = [arm._replace(loss=6.94 + 0.001 * number) for number, arm in enumerate(arms())]
    with pytest.raises(TaskError) as error:
        Analysis.of(flat, 6.931, 1e18)
    wrong = "ladder: no training is better than chance, 6.931 nats a token: the lowest loss is 6.940"
    assert str(error.value) == f"{wrong}; train on more tokens, or give other rates"


def test_a_grid_that_is_too_small_for_a_budget_is_refused():
    check_budget(3, 3)
    with pytest.raises(ConfigError) as error:
        check_budget(3, 2)
    wrong = "--budget: a law needs 3 sizes and 3 token counts, and the grid has 3 and 2"
    assert str(error.value) == f"{wrong}; give more --sizes and --tokens, or no --budget"


def test_without_a_law_the_rest_is_there():
    found = Analysis.of(arms(sizes=SIZES[:2]), CHANCE, 1e18)
    assert (found.law, found.recommendation, len(found.best)) == (None, None, 10)
    assert [*found.notes()] == [
        "No law of the loss: it needs 3 sizes and 3 token counts with losses, and there are 2 and 5."
    ]
    assert found.as_json()["law"] == {}


def test_figures_and_json_have_what_the_grid_allows(planted):
    assert [figure.id for figure, _ in planted.figures(1e18)] == ["rates", "by-tokens", "by-flops"]
    ((alone, _),) = Analysis.of(arms(sizes=SIZES[:1], tokens=TOKENS[:1]), CHANCE, None).figures(None)
    assert alone.id == "rates"
    values = json.loads(json.dumps(planted.as_json()))
    assert values["law"]["alpha"]["value"] == pytest.approx(LAW.alpha, abs=1e-3)
    best = LAW.optimum(20 * LARGEST)
    assert values["recommendation"]["optimum"]["parameters"] == pytest.approx(best.parameters, rel=1e-2)
