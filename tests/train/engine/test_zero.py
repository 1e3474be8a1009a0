import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.errors import ConfigError
from headrace.train.config import ModelConfig
from headrace.train.engine.optimizers.adafactor import Adafactor
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.engine.optimizers.muon import Muon
from headrace.train.engine.optimizers.stable_adamw import StableAdamW
from headrace.train.engine.zero import (
    check_offload,
    check_recomputation,
    check_sequence_ranks,
    deepspeed_config,
    plan_batches,
    stage_on,
)
from headrace.train.training_config import TrainingConfig, ZeroConfig


def training(**values) -> TrainingConfig:
    return TrainingConfig(**{"steps": 1, "batch_rows": 8, "precision": "fp32"} | values)


@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 100))
def test_the_three_batch_fields_agree(rank_rows, world, micro_batch_rows):
    settings = training(batch_rows=rank_rows * world, micro_batch_rows=micro_batch_rows)
    plan = plan_batches(settings, world)
    config = deepspeed_config(plan, settings, ZeroConfig())
    micro, accumulation = config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]
    assert micro * accumulation * world == config["train_batch_size"] == settings.batch_rows
    assert micro <= micro_batch_rows
    assert not any(rank_rows % n == 0 for n in range(micro + 1, min(micro_batch_rows, rank_rows) + 1))


def test_unequal_shares_are_refused():
    with pytest.raises(ConfigError) as error:
        plan_batches(training(batch_rows=9), 2)
    assert str(error.value) == "training.batch_rows: 9 rows cannot be dealt to 2 ranks; give a multiple of 2"


@pytest.mark.parametrize(
    ("world", "precision", "stage"), [(1, "fp32", 0), (1, "bf16", 1), (1, "fp16", 1), (2, "fp32", 1), (8, "bf16", 1)]
)
def test_auto_splits_where_there_is_something_to_split(world, precision, stage):
    settings = training(precision=precision)
    assert stage_on(world, settings, ZeroConfig()) == stage
    config = deepspeed_config(plan_batches(settings, world), settings, ZeroConfig())
    assert config["zero_optimization"]["stage"] == stage
    assert [stage_on(world, settings, ZeroConfig(stage=n)) for n in (0, 1, 2, 3)] == [0, 1, 2, 3]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_stage_0_in_half_precision_is_refused(precision):
    settings = training(precision=precision)
    with pytest.raises(ConfigError) as error:
        deepspeed_config(plan_batches(settings, 1), settings, ZeroConfig(stage=0))
    assert str(error.value) == (
        f"zero.stage: 0 with {precision} takes a phantom optimizer step at its start (DeepSpeed issue 8393); "
        "use stage 1, also on one rank, or training.precision=fp32"
    )


@pytest.mark.parametrize("overlap", [False, True])
def test_gradients_are_sent_during_the_backward_pass_where_it_is_asked_for(overlap):
    config = deepspeed_config(plan_batches(training(), 2), training(), ZeroConfig(stage=2, overlap=overlap))
    assert config["zero_optimization"]["overlap_comm"] is overlap


def test_ranks_that_compute_rows_together_are_dealt_rows_once():
    settings = training(sequence_ranks=4, micro_batch_rows=3)
    plan = plan_batches(settings, 16)
    assert (plan.groups, plan.micro_rows, plan.accumulation, plan.batch_rows) == (4, 2, 1, 8)
    assert [plan.group(rank) for rank in (0, 3, 4, 15)] == [0, 0, 1, 3]
    assert [rank for rank in range(16) if plan.counts_rows(rank)] == [0, 4, 8, 12]
    config = deepspeed_config(plan, settings, ZeroConfig())
    assert (config["train_batch_size"], config["train_micro_batch_size_per_gpu"]) == (32, 2)


@pytest.mark.parametrize(
    ("world", "sequence_ranks", "message"),
    [
        (4, 3, "training.sequence_ranks: 3 is no divisor of the number of ranks, 4; give one, or 1"),
        (24, 2, "training.batch_rows: 8 rows cannot be dealt to 12 groups of 2 ranks; give a multiple of 12"),
    ],
)
def test_groups_of_ranks_that_cannot_be_are_refused(world, sequence_ranks, message):
    with pytest.raises(ConfigError) as error:
        plan_batches(training(sequence_ranks=sequence_ranks), world)
    assert str(error.value) == message


SHAPE = ModelConfig(layers=1, width=24, heads=6, kv_heads=6, context=64, mlp_width=32)


@pytest.mark.parametrize(
    ("changes", "positions", "message"),
    [
        ({"heads": 3, "kv_heads": 3}, 64, "is 2, and the model has 3 heads; give a divisor of both"),
        ({}, 63, "is 2, and a row has 63 positions; give a divisor, or another packing.row_tokens"),
        (
            {"stack": "encoder_decoder"},
            64,
            "is 2, and model.stack is encoder_decoder; give 1, or a model of stack decoder or encoder",
        ),
    ],
)
def test_rows_that_ranks_cannot_compute_together_are_refused(changes, positions, message):
    settings, model = training(sequence_ranks=2), dataclasses.replace(SHAPE, **changes)
    with pytest.raises(ConfigError) as error:
        check_sequence_ranks(settings, model, positions)
    assert str(error.value) == f"training.sequence_ranks: {message}"
    check_sequence_ranks(training(), model, positions)
    check_sequence_ranks(settings, SHAPE, 64)


def test_a_model_without_attention_has_no_split_rows_and_no_selective_recomputation():
    lstm = dataclasses.replace(SHAPE, mixer="lstm", positions="none")
    message = r"^training\.sequence_ranks: is 2, and model\.mixer is lstm: its positions follow one another; give 1, or"
    with pytest.raises(ConfigError, match=message):
        check_sequence_ranks(training(sequence_ranks=2), lstm, 64)
    message = r"^training\.recompute: is selective, and model\.mixer is lstm; give full or none$"
    with pytest.raises(ConfigError, match=message):
        check_recomputation(training(recompute="selective"), ZeroConfig(stage=1), lstm)
    for recompute in ("none", "full"):
        check_recomputation(training(recompute=recompute), ZeroConfig(stage=3), lstm)


def test_selective_recomputation_of_shared_layers_is_refused_at_stage_3():
    shared, settings = dataclasses.replace(SHAPE, shared_layers=True), training(recompute="selective")
    with pytest.raises(ConfigError) as error:
        check_recomputation(settings, ZeroConfig(stage=3), shared)
    assert str(error.value) == (
        "training.recompute: is selective, with zero.stage=3 and model.shared_layers=true: parameters are gathered "
        "inside the layers; give full, or another stage"
    )
    for recompute, stage, model in (("full", 3, shared), ("selective", 2, shared), ("selective", 3, SHAPE)):
        check_recomputation(training(recompute=recompute), ZeroConfig(stage=stage), model)


def test_the_cpu_has_state_of_its_own_at_stages_1_to_3_alone():
    offloaded, settings = ZeroConfig(offload="optimizer"), training()
    plan = plan_batches(settings, 1)
    config = deepspeed_config(plan, settings, offloaded)["zero_optimization"]
    assert (config["stage"], config["offload_optimizer"]) == (1, {"device": "cpu", "pin_memory": True})
    with pytest.raises(ConfigError) as error:
        deepspeed_config(plan, settings, dataclasses.replace(offloaded, stage=0))
    assert str(error.value) == (
        "zero.offload: is optimizer, and ZeRO stage 0 has no master weights apart from the parameters; "
        "give zero.stage=1, also on one rank, or zero.offload=none"
    )


@pytest.mark.parametrize("optimizer", [Muon, StableAdamW, Adafactor])
def test_the_cpu_updates_each_value_by_itself(optimizer):
    check_offload(ZeroConfig(), optimizer(learning_rate=1.0))
    check_offload(ZeroConfig(offload="optimizer"), AdamW(learning_rate=1.0))
    with pytest.raises(ConfigError) as error:
        check_offload(ZeroConfig(offload="optimizer"), optimizer(learning_rate=1.0))
    name = optimizer(learning_rate=1.0).type
    assert str(error.value) == (
        f"zero.offload: is optimizer, and an update of optimizer={name} needs whole matrices of all ranks; "
        "give optimizer=adamw, or zero.offload=none"
    )


def test_deepspeed_reads_every_key():
    import deepspeed.runtime.constants as constants
    from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    source = (
        Path(constants.__file__).read_text() + (Path(constants.__file__).parent / "precision_config.py").read_text()
    )
    read = set(re.findall(r'^[A-Z_0-9]+ = ["\'](\w+)["\']', source, re.M)) | {"zero_optimization"}
    settings = training(precision="bf16")
    config = deepspeed_config(
        plan_batches(settings, 1), settings, ZeroConfig(stage=2, bucket_elements=123, offload="optimizer")
    )
    assert set(config) <= read
    assert DeepSpeedBF16Config(**config["bf16"]).enabled
    assert not DeepSpeedFP16Config(**config["fp16"]).enabled
    zero = DeepSpeedZeroConfig(**config["zero_optimization"])
    assert (zero.stage, zero.reduce_bucket_size, zero.prefetch_bucket_size) == (2, 123, 123)
    known = set(DeepSpeedZeroConfig.model_fields) | {f.alias for f in DeepSpeedZeroConfig.model_fields.values()}
    assert set(config["zero_optimization"]) <= known


@pytest.mark.parametrize(
    ("stage", "precision", "clip", "clipped_by_deepspeed"),
    [
        (0, "fp32", 0.7, 0.0),
        (0, "fp32", None, 0.0),
        (1, "bf16", 0.7, 0.7),
        (2, "fp32", None, 0.0),
        (3, "bf16", None, 0.0),
    ],
)
def test_no_default_that_changed_decides(stage, precision, clip, clipped_by_deepspeed, monkeypatch):
    """gradient_clipping was 0 and is 1, check_grad_overflow was off and is on; the third is in test_engine.py."""
    import deepspeed.runtime.config as reading

    monkeypatch.setattr(reading, "GRADIENT_CLIPPING_DEFAULT", 123.0)
    settings = training(precision=precision, gradient_clip=clip)
    config = deepspeed_config(plan_batches(settings, 1), settings, ZeroConfig(stage=stage))
    read = reading.DeepSpeedConfig(config)
    assert read.gradient_clipping == clipped_by_deepspeed
    assert config["bf16"]["check_grad_overflow"] is read.bfloat16_config.check_grad_overflow is (precision == "bf16")
    assert (read.optimizer_name, read.scheduler_name, read.gradient_predivide_factor) == (None, None, 1.0)
    assert (read.train_batch_size, read.gradient_accumulation_steps, read.train_micro_batch_size_per_gpu) == (8, 1, 8)
