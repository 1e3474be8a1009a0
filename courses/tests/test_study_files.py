"""The studies of the lectures decode, and their arms are valid runs with the recipes of their publications."""

import pytest

from headrace.pipeline.configuration.options import CONF, studies
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.experiments import study_file as plans
from headrace.pipeline.experiments.study_file import read_study
from headrace.train.objectives.masked import Masked

STUDIES = [name for name in studies() if not (CONF / "study" / f"{name}.yaml").is_file()]


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_decodes_and_its_arms_are_equal_in_what_is_held_equal(name):
    study = read_study(name).at("tiny")
    given = {arm: [f"{setting}=[given]" for setting in needs] for arm, needs in study.arm_needs.items()}
    found = plans.arm_plans(name, study, "tiny", [], given if name == "judgements" else {})
    for plan in found:
        plan.config.evaluation.check_stack(plan.config.model.stack)
        tuned = {
            source.removeprefix("finetuned.") for source in study.measures.values() if source.startswith("finetuned.")
        }
        if tuned and plan.config.finetune.task.type == "text_to_text":
            assert tuned <= set(plan.config.finetune.task.used_metrics), plan.name
    assert name != "architectures" or {plan.config.text_packing.row_tokens for plan in found} == {568}


@pytest.mark.parametrize("size", ["tiny", "small", "paper"])
def test_models_with_and_without_attention_have_as_many_parameters(size):
    given = ["source.paths=[given]"] if size == "paper" else []
    arms = plans.arm_plans("recurrence", read_study("recurrence").at(size), size, given)
    parameters = [plan.config.model.parameters(plan.config.tokenizer.vocabulary_size) for plan in arms]
    assert max(parameters) < 1.01 * min(parameters)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["small", "paper"])
@pytest.mark.parametrize("name", STUDIES)
def test_arms_of_larger_sizes_are_valid(name, size):
    for plan in plans.arm_plans(name, read_study(name).at(size), size, []):
        plan.config.evaluation.check_stack(plan.config.model.stack)


ADAFACTOR = ("adafactor", 0.01, "inverse_sqrt", 10_000, None)
"""Optimizer, rate, schedule, warm-up and clip of T5 (Raffel et al. 2020, section 3.1.2)."""
BERT = ("adamw", 1e-4, "linear", 10_000, 1.0)
"""Devlin et al. 2019, appendix A.2."""
PAPER = {
    "architectures": (*ADAFACTOR, 128, 512, 2**19),
    "bart": ("adamw", 4e-4, "linear", 10_000, 0.1, 256, 512, 1_000_000),
    "bart_writing": ("adamw", 4e-4, "linear", 10_000, 0.1, 256, 512, 1_000_000),
    "bert_ablation": (*BERT, 256, 512, 1_000_000),
    "bert_size": (*BERT, 256, 512, 1_000_000),
    "canaries": ("adamw", 2e-4, "cosine", 715, 1.0, 512, 1024, 100_000),
    "copying": ("adamw", 1e-5, "linear", 300, 1.0, 64, 64, 100_000),
    "corruption": (*ADAFACTOR, 128, 512, 2**19),
    "data_sets": (*ADAFACTOR, 128, 512, 2**19),
    "emergence": ("adamw", 3e-4, "linear", 300, 1.0, 64, 64, 100_000),
    "history": ("adamw", 3e-4, "cosine", 16_000, 0.1, 72, 1024, 1400),
    "induction": ("adamw", 6e-4, "cosine", 715, 1.0, 256, 128, 100_000),
    "judgements": (*BERT, 256, 512, 2**18),
    "mask_rate": (*BERT, 256, 512, 1_000_000),
    "masks_static": (*BERT, 256, 512, 1_000_000),
    "mlm_size": (*BERT, 256, 512, 1_000_000),
    "objectives": (*ADAFACTOR, 128, 512, 2**19),
    "positions": ("adamw", 3e-4, "cosine", 16_000, 0.1, 72, 1024, 286_000),
    "pre_post_norm": ("adamw", 1e-3, "linear", 4000, None, 48, 512, 100_000),
    "recurrence": ("adamw", 3e-4, "cosine", 16_000, 0.1, 72, 1024, 286_000),
    "repeats": (*ADAFACTOR, 128, 512, 2**19),
    "roberta": ("adamw", 6e-4, "linear", 24_000, None, 8192, 512, 100_000),
    "shots": ("adamw", 6e-4, "cosine", 715, 1.0, 256, 2048, 572_205),
    "similar_rows": ("adamw", 3e-4, "cosine", 2000, 1.0, 512, 8192, 71_526),
    "tokenizers": ("adamw", 6e-4, "cosine", 715, 1.0, 256, 384, 200_000),
    "windows": ("adamw", 6e-4, "cosine", 715, 1.0, 256, 2048, 572_205),
}
"""Study → the recipe of its first arm at size paper: optimizer, rate, schedule, warm-up, clip, rows, context, steps."""


@pytest.mark.parametrize("name", STUDIES)
def test_size_paper_has_the_recipe_of_the_publication_and_no_value_of_a_demo(name):
    study = read_study(name).at("paper")
    config = plans.arm_plan(name, study, "paper", next(iter(study.arms)), []).config
    optimizer, schedule, training = config.optimizer, config.schedule, config.training
    found = (optimizer.type, optimizer.learning_rate, schedule.type, schedule.warmup_steps, training.gradient_clip)
    assert (*found, training.batch_rows, config.packing.row_tokens, training.steps) == PAPER[name]
    assert training.precision == "bf16"
    assert config.packing.validation_fraction == 0.01
    assert "documentation" not in getattr(config.source, "paths", ())
    if isinstance(config.objective, Masked):
        assert (config.objective.rate, config.model.norm_place) == (0.15, "post")
    if config.source.type != "synthetic":
        assert "source.paths" in study.needs


@pytest.mark.parametrize(("size", "layers"), [("tiny", (4, 2)), ("paper", (12, 6))])
def test_an_arm_has_overrides_of_a_size(size, layers):
    """Raffel et al. 2020, table 2: 12 and 6 layers in each stack of T5-base."""
    study = read_study("architectures").at(size)
    found = [plans.arm_plan("architectures", study, size, arm, []) for arm in ("encdec", "half")]
    assert tuple(plan.config.model.layers for plan in found) == layers
    with pytest.raises(ConfigError, match=r"model.layers: is what makes the arms half"):
        plans.arm_plans("architectures", study, size, ["model.layers=3"])
