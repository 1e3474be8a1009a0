"""Memory and speed of writing texts against formulas, and against the cache that is kept; prices."""

import dataclasses
import re

import pytest
import torch

from courses.tests.command_line import courses_here
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.report.formatting import rounded
from headrace.pipeline.run.costs import Hardware
from headrace.train.config import ModelConfig
from headrace.train.cost.flops import Compute
from headrace.train.model.cache import Cache, cache_bytes
from headrace_courses.model_costs import InferenceCost, money_facts

OVERRIDES = ["source=warc", "model=gpt3_125m", "tokenizer.vocabulary_size=50257", "training=gpu"]
MODEL = ModelConfig(
    layers=4, width=64, heads=8, kv_heads=2, context=128, mlp_width=128, positions="rope", norm="rmsnorm",
    activation="swiglu", bias=False, tied=False,
)  # fmt: skip
COST = InferenceCost(MODEL, 1_000, 2, memory_bytes=2e6, bandwidth=1e9, peak_flops=1e12)


def test_the_cache_has_the_bytes_that_generation_keeps() -> None:
    """Two key/value heads of 8 in 4 layers, keys and values, in bf16."""
    assert COST.cache_bytes(1) == 2 * 4 * 2 * 8 * 2 == cache_bytes(MODEL, 1, 2)
    cache = Cache(MODEL, 1, torch.bfloat16, torch.device("meta"))
    cache.reserve(128)
    assert cache.bytes_per_row == COST.cache_bytes(128)


def test_rows_fit_beside_the_weights() -> None:
    assert COST.weight_bytes == 2 * MODEL.parameters(1_000)
    rows = COST.most_rows(128)
    assert (
        COST.weight_bytes + rows * COST.cache_bytes(128) <= 2e6 < COST.weight_bytes + (rows + 1) * COST.cache_bytes(128)
    )
    assert dataclasses.replace(COST, memory_bytes=1.0).most_rows(1) == 0


def test_a_window_is_read_and_the_whole_cache_is_kept() -> None:
    windowed = dataclasses.replace(MODEL, attention_pattern=("full", "window"), window=16)
    cost = dataclasses.replace(COST, model=windowed)
    assert cost.cache_bytes(128) == COST.cache_bytes(128)
    assert COST.read_cache_bytes(128) == COST.cache_bytes(128)
    assert cost.read_cache_bytes(128) == COST.cache_bytes(128) * (128 + 16) // (2 * 128)


def test_one_row_is_bound_by_bandwidth() -> None:
    """The untied embedding of 1,000 tokens is not read whole."""
    read = 2 * (MODEL.parameters(1_000) - 1_000 * 64) + COST.cache_bytes(100)
    assert COST.decode_tokens_per_second(1, 100) == pytest.approx(1e9 / read)
    tied = dataclasses.replace(COST, model=dataclasses.replace(MODEL, tied=True))
    assert tied.read_weight_bytes == tied.weight_bytes


def test_many_rows_and_prompts_are_bound_by_operations() -> None:
    """2 N operations for each token, and 4 for each value of a query and each key that it sees."""
    flops = 2 * MODEL.parameters(1_000) + 4 * 4 * 64 * 100
    assert COST.forward_flops(100) == pytest.approx(flops)
    assert COST.prefill_tokens_per_second(100) == pytest.approx(1e12 / flops)
    slow = dataclasses.replace(COST, peak_flops=1e9)
    assert slow.decode_tokens_per_second(1_000, 100) == pytest.approx(1e9 / flops)


def test_a_price_is_printed_with_the_hours() -> None:
    config = decoded(compose(OVERRIDES))
    line = dict(money_facts(config, config.vocabulary, Hardware.of("8", "A100", "0.5", ""), 2.0))["price"]
    hours = Compute.of(config.model, config.vocabulary, 2048, config.training).flops / (312e12 * 0.5 * 3600)
    assert line.split()[:4] == [rounded(2 * hours), "for", f"{hours:,.3g}", "GPU-hours"]


def test_a_fine_tuning_is_a_small_part_of_the_training() -> None:
    """One seed, 1,000 updates of 32 examples of 128 tokens, against 1 M updates of 256 rows of 512."""
    tuned = [
        "finetune=mrpc",
        "finetune.folder=x",
        "finetune.steps=1000",
        "finetune.train=[a]",
        "finetune.validation=[b]",
    ]
    config = decoded(compose(["experiment=bert_base", "source.paths=[a.jsonl]", *tuned]))
    facts = dict(money_facts(config, config.vocabulary, Hardware(), 1.0))
    assert re.search(r"at most: 1,000 updates of 128 tokens, 1 seed", facts["fine-tuning"])
    ratio = 1e6 * 256 * 512 / (1000 * 32 * 128)
    printed = float(re.search(r"costs ([\d,]+) times", facts["fine-tuning"]).group(1).replace(",", ""))
    assert ratio < printed < 1.1 * ratio


def test_writing_texts_has_a_table_of_batch_and_length() -> None:
    done = courses_here("model_costs", "--gpu=A100", "evaluation.precision=bf16", *OVERRIDES)
    assert done.returncode == 0, done.stderr
    assert (
        "cache             36,864 bytes a token = 2 · 12 layers · 12 key/value heads · 64 wide · 2 bytes" in done.stdout
    )
    assert "| new tokens/s, all rows | 128 tokens | 512 tokens | 2,048 tokens |" in done.stdout
