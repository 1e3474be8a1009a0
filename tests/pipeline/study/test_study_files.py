"""The files of conf/study/ decode, and their arms are valid runs."""

import pytest

from headrace.pipeline.conf_folder import studies
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.study.arm_plans import arm_plan, arm_plans
from headrace.pipeline.study.settings import decoded_study, read_study

STUDIES = studies()
SIZES = ("tiny", "small", "paper")
STUDY = """title: Two rates
question: Which rate is better?
expectation: The higher one.
overrides: [experiment=demo]
arms: {slow: [optimizer.learning_rate=1e-4], fast: [optimizer.learning_rate=1e-3]}
sizes: {tiny: [training.steps=20], small: [training.steps=200], paper: [training.steps=2000]}
held_equal: [parameters, tokens, flops, steps]
measures: {loss: validation_loss}
claims: [{claim: The higher rate is better., rising: [fast, slow]}]
"""


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_decodes_and_its_arms_compose(name):
    """Composing takes a third of a second: the arms take the sizes in turn."""
    study = read_study(name)
    for number, arm in enumerate(study.arms):
        arm_plan(name, study, SIZES[number % len(SIZES)], arm, [])


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", STUDIES)
def test_arms_are_equal_in_what_is_held_equal(name, size):
    arm_plans(name, read_study(name), size, [])


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("fast, slow]", "fats, slow]", "claims.0.rising: unknown arm 'fats'; did you mean 'fast'?"),
        ("fast, slow]", "fast.lost, slow]", "claims.0.rising: unknown measure 'lost'; did you mean 'loss'?"),
        ("question", "questoin", "questoin: unknown key 'questoin'; did you mean 'question'?"),
        ("[fast, slow]", "[fast]", "claims.0.rising: has 1 value, and a claim orders two or more; add a value"),
        ("[parameters,", "[params,", "held_equal.0: must be 'parameters', 'flops', 'tokens' or 'steps' (got 'params');"
         " correct the value"),
        ("{slow:", "{slow-er:", "arms.slow-er.[key]: must match ^[A-Za-z0-9_]{1,24}$ (got 'slow-er');"
         " correct the value"),
    ],
)  # fmt: skip
def test_a_wrong_study_is_refused(tmp_path, before, after, message):
    file = tmp_path / "own.yaml"
    file.write_text(STUDY.replace(before, after))
    with pytest.raises(ConfigError) as error:
        decoded_study(file)
    assert str(error.value) == f"{file}: {message}"


def test_what_differs_is_not_held_equal(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(STUDY.replace("slow: [", "slow: [training.steps=10,"))
    with pytest.raises(ConfigError) as error:
        arm_plans("own", decoded_study(file), "tiny", [])
    wrong = "own.held_equal: tokens is held equal, and differs between arms: slow 20,480, fast 40,960"
    assert str(error.value).partition(";")[0] == wrong
    with pytest.raises(ConfigError) as error:
        arm_plan("own", decoded_study(file), "tiny", "slow", ["model.layer=3"])
    assert str(error.value) == "own.arms.slow: model.layer: unknown key 'layer'; did you mean 'model.layers'?"
