"""The files of conf/study/ decode, and their arms are valid runs."""

import copy
import functools
from collections.abc import Sequence

import hydra
import pytest
from omegaconf import DictConfig, OmegaConf

from headrace.pipeline import composition
from headrace.pipeline.conf_folder import CONF, groups, studies
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.overrides import parsed
from headrace.pipeline.study import arm_plans as plans
from headrace.pipeline.study.findings import Findings
from headrace.pipeline.study.settings import decoded_study, read_study

STUDIES = studies()
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


@functools.cache
def composed(*options: str) -> DictConfig:
    """The composed options of groups. Hydra takes a third of a second, so arms with the same options share one."""
    with composition._hydra(options):
        return hydra.compose(composition.PRIMARY, list(options))


def cheaply_composed(overrides: Sequence[str]) -> dict[str, object]:
    """The composed settings, as ``compose`` makes them: values are set after options are composed."""
    options = [one for one in overrides if one.partition("=")[0] in groups()]
    config = copy.deepcopy(composed(*options))
    OmegaConf.set_struct(config, False)
    with hydra.initialize_config_dir(str(CONF), version_base=composition.HYDRA_VERSION_BASE):
        for one in parsed([override for override in overrides if override not in options]):
            above, _, key = one.key_or_group.rpartition(".")
            if one.is_delete():
                del OmegaConf.select(config, above)[key]
            else:
                OmegaConf.update(config, one.key_or_group, one.value(), merge=True)
    return composition._plain(config)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_decodes_and_its_arms_are_equal_in_what_is_held_equal(name, monkeypatch):
    monkeypatch.setattr(plans, "compose", cheaply_composed)
    found = plans.arm_plans(name, read_study(name), "tiny", [])
    assert name != "architectures" or {plan.config.text_packing.row_tokens for plan in found} == {568}


def test_arms_without_their_files_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "compose", cheaply_composed)
    study = read_study("cleaning")
    (tmp_path / "domains.json").write_text("{}")
    (tmp_path / "urls.txt").write_text("https://a.example\n")
    typed = [f"realnews_like:cleaning.filters.1.path={tmp_path}/domains.json",
             f"webtext_like:cleaning.filters.2.path={tmp_path}/urls.txt",
             "wikipedia:source.paths=[wiki.jsonl]", "wikipedia_books:workers=1"]  # fmt: skip
    found = plans.arm_plans("cleaning", study, "tiny", ["source.paths=[crawl.warc]"], study.by_arm(typed))
    assert [plan.name for plan in found] == [arm for arm in study.arms if arm != "wikipedia_books"]
    sources = {plan.name: plan.config.source for plan in found}
    assert {name: source.paths for name, source in sources.items()} == dict.fromkeys(sources, ("crawl.warc",)) | {
        "wikipedia": ("wiki.jsonl",)
    }
    assert (sources["c4"].type, sources["wikipedia"].type) == ("warc", "jsonl")
    (note, *_) = Findings("cleaning", study, "tiny", 3, found, []).notes()
    assert note == (
        "The arm wikipedia_books is left out, because it needs files of yours: "
        "--arm wikipedia_books:source.paths=… ([FOLDER/*.jsonl,BOOKS/*.jsonl], the same articles and books)."
    )


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("wiki:source.paths=a", "--arm: unknown arm 'wiki'; did you mean 'wikipedia'?"),
        ("wikipedia", "--arm: 'wikipedia' is not ARM:KEY=VALUE; name the arm and its setting"),
    ],
)
def test_an_override_of_no_arm_is_refused(typed, message):
    with pytest.raises(ConfigError) as error:
        read_study("cleaning").by_arm([typed])
    assert str(error.value) == message


@pytest.mark.slow
@pytest.mark.parametrize("size", ["small", "paper"])
@pytest.mark.parametrize("name", STUDIES)
def test_arms_of_larger_sizes_are_valid(name, size, monkeypatch):
    monkeypatch.setattr(plans, "compose", cheaply_composed)
    plans.arm_plans(name, read_study(name), size, [])


@pytest.mark.parametrize(("size", "layers"), [("tiny", (4, 2)), ("paper", (12, 6))])
def test_an_arm_has_overrides_of_a_size(size, layers, monkeypatch):
    """Raffel et al. 2020, table 2: 12 and 6 layers in each stack of T5-base."""
    monkeypatch.setattr(plans, "compose", cheaply_composed)
    study = read_study("architectures")
    found = [plans.arm_plan("architectures", study, size, arm, []) for arm in ("encdec", "half")]
    assert tuple(plan.config.model.layers for plan in found) == layers
    assert study.of_arm("half", "paper") == ["model.context=512", "model.layers=6"]
    with pytest.raises(ConfigError, match=r"model.layers: is what makes the arms half"):
        plans.arm_plans("architectures", study, size, ["model.layers=3"])


def test_arms_are_composed_cheaply_in_these_tests_as_the_command_does():
    study = read_study("repeats")
    arm = plans.arm_plan("repeats", study, "tiny", "denoise_32", ["training.seed=3"])
    assert cheaply_composed(arm.overrides) == arm.values


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("fast, slow]", "fats, slow]", "claims.0.rising: unknown arm 'fats'; did you mean 'fast'?"),
        ("fast, slow]", "fast.lost, slow]", "claims.0.rising: unknown measure 'lost'; did you mean 'loss'?"),
        ("question", "questoin", "questoin: unknown key 'questoin'; did you mean 'question'?"),
        ("held_equal:", "arm_sizes: {fats: {tiny: []}}\nheld_equal:",
         "arm_sizes: unknown arm 'fats'; did you mean 'fast'?"),
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
        plans.arm_plan("own", decoded_study(file), "tiny", "slow", more)
    assert str(error.value) == f"own.arms.slow: {message}"


def test_what_differs_is_not_held_equal(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(STUDY.replace("slow: [", "slow: [training.steps=10,"))
    with pytest.raises(ConfigError) as error:
        plans.arm_plans("own", decoded_study(file), "tiny", [])
    wrong = "own.held_equal: tokens is held equal, and differs between arms: slow 20,480, fast 40,960"
    assert str(error.value).partition(";")[0] == wrong
    with pytest.raises(ConfigError) as error:
        plans.arm_plan("own", decoded_study(file), "tiny", "slow", ["model.layer=3"])
    assert str(error.value) == "own.arms.slow: model.layer: unknown key 'layer'; did you mean 'model.layers'?"
