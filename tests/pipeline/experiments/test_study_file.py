"""The files of conf/study/ decode, and their arms are valid runs."""

import pytest

from headrace.pipeline.configuration.options import studies
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.experiments import study_file as plans
from headrace.pipeline.experiments.study_file import decoded_study, read_study
from headrace.pipeline.experiments.study_results import Findings

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


@pytest.mark.parametrize("size", ["tiny", *(pytest.param(size, marks=pytest.mark.slow) for size in ("small", "paper"))])
@pytest.mark.parametrize("name", studies())
def test_a_study_decodes_and_its_arms_are_equal_in_what_is_held_equal(name, size):
    for plan in plans.arm_plans(name, read_study(name).at(size), size, []):
        plan.config.evaluation.check_stack(plan.config.model.stack)
    if size == "paper":
        assert plan.config.training.precision == "bf16"


def test_arms_without_their_files_are_left_out(tmp_path):
    study = read_study("cleaning").at("tiny")
    typed = ["all_text:source=jsonl", "all_text:source.paths=[pages.jsonl]", "best_half:workers=1"]
    found = plans.arm_plans("cleaning", study, "tiny", ["source.paths=[crawl.warc]"], study.by_arm(typed))
    assert [plan.name for plan in found] == [arm for arm in study.arms if arm != "best_half"]
    sources = {plan.name: plan.config.source for plan in found}
    assert {name: source.paths for name, source in sources.items()} == dict.fromkeys(sources, ("crawl.warc",)) | {
        "all_text": ("pages.jsonl",)
    }
    assert (sources["c4"].type, sources["all_text"].type) == ("warc", "jsonl")
    (note, *_) = Findings("cleaning", study, "tiny", 3, found, []).notes()
    assert note.startswith("The arm best_half is left out, because it needs files of yours: --arm best_half:classi")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("c4_uniqe:workers=1", "--arm: unknown arm 'c4_uniqe'; did you mean 'c4_unique'?"),
        ("c4", "--arm: 'c4' is not ARM:KEY=VALUE; name the arm and its setting"),
    ],
)
def test_an_override_of_no_arm_is_refused(typed, message):
    with pytest.raises(ConfigError) as error:
        read_study("cleaning").by_arm([typed])
    assert str(error.value) == message


def test_a_size_may_change_what_arms_are_and_what_is_measured(tmp_path):
    file = tmp_path / "own.yaml"
    more = """at_size:
  paper:
    needs: {source.paths: a crawl}
    arms: {fast: [optimizer.learning_rate=1e-2, schedule.warmup_steps=9]}
    measures: {loss: bits_per_byte}
"""
    file.write_text(STUDY + more)
    whole = decoded_study(file)
    paper, tiny = whole.at("paper"), whole.at("tiny")
    assert paper.arms == {**whole.arms, "fast": ("optimizer.learning_rate=1e-2", "schedule.warmup_steps=9")}
    assert paper.overrides == ("experiment=demo", "training.steps=2000")
    assert (paper.needs, paper.measures) == ({"source.paths": "a crawl"}, {"loss": "bits_per_byte"})
    assert (tiny.arms, tiny.needs, tiny.measures) == (whole.arms, {}, whole.measures)
    file.write_text(STUDY + more.replace("{fast:", "{faster:"))
    with pytest.raises(ConfigError) as error:
        decoded_study(file)
    assert str(error.value) == f"{file}: at_size.paper.arms: unknown arm 'faster'; did you mean 'fast'?"


def test_a_function_that_is_a_measure_is_imported_before_anything_starts(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(STUDY.replace("{loss: validation_loss}", "{loss: 'nowhere.measures:rare'}"))
    study = decoded_study(file).at("tiny")
    assert study.last_stage == "weights"
    with pytest.raises(ConfigError) as error:
        plans.arm_plan("own", study, "tiny", "slow", [])
    assert str(error.value).startswith("own.arms.slow: measures: 'nowhere.measures:rare' names no function (No module")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("fast, slow]", "fats, slow]", "claims.0.rising: unknown arm 'fats'; did you mean 'fast'?"),
        ("fast, slow]", "fast.lost, slow]", "claims.0.rising: unknown measure 'lost'; did you mean 'loss'?"),
        ("fast, slow]", '"fast - slwo", 0.1]', "claims.0.rising: unknown arm 'slwo'; did you mean 'slow'?"),
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


@pytest.mark.parametrize(
    ("measure", "more", "message"),
    [
        ("finetuned.accuracy", [], "finetune: is null, and a measure of the study is that of a fine-tuning; "
         "give the task: finetune=sst2, say"),
        ("agreement.acc", ["finetune=sst2", "finetune.train=a", "finetune.validation=b", "finetune.from_scratch=true"],
         "finetune: leaves out the pretraining, and with it the scores of benchmarks, which the study measures; "
         "measure finetuned.METRIC alone, or pretrain this arm"),
    ],
)  # fmt: skip
def test_an_arm_without_the_measured_stage_is_refused(tmp_path, measure, more, message):
    file = tmp_path / "own.yaml"
    file.write_text(STUDY.replace("validation_loss", measure))
    with pytest.raises(ConfigError) as error:
        plans.arm_plan("own", decoded_study(file).at("tiny"), "tiny", "slow", more)
    assert str(error.value) == f"own.arms.slow: {message}"


@pytest.mark.parametrize(("steps", "equal"), [(1000, True), (1010, True), (1011, False)])
def test_operations_are_equal_to_one_in_a_hundred(tmp_path, steps, equal):
    file = tmp_path / "own.yaml"
    text = STUDY.replace("slow: [", f"slow: [training.steps={steps},").replace(
        "[parameters, tokens, flops, steps]", "[flops]"
    )
    file.write_text(text.replace("training.steps=20]", "training.steps=1000]"))
    study = decoded_study(file).at("tiny")
    if equal:
        assert len(plans.arm_plans("own", study, "tiny", [])) == 2
    else:
        with pytest.raises(ConfigError, match="flops is held equal, and differs between arms"):
            plans.arm_plans("own", study, "tiny", [])


def test_what_differs_is_not_held_equal(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(STUDY.replace("slow: [", "slow: [training.steps=10,"))
    with pytest.raises(ConfigError) as error:
        plans.arm_plans("own", decoded_study(file).at("tiny"), "tiny", [])
    wrong = "own.held_equal: tokens is held equal, and differs between arms: slow 20,480, fast 40,960"
    assert str(error.value).partition(";")[0] == wrong
    with pytest.raises(ConfigError) as error:
        plans.arm_plan("own", decoded_study(file).at("tiny"), "tiny", "slow", ["model.layer=3"])
    assert str(error.value) == "own.arms.slow: model.layer: unknown key 'layer'; did you mean 'model.layers'?"
