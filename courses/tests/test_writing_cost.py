"""Memory and speed of writing texts against formulas, and against the cache that is kept."""

import dataclasses

import pytest
import torch

from courses.tests.command_line import courses_here
from headrace.train.config import ModelConfig
from headrace.train.model.cache import Cache, cache_bytes
from headrace_courses.writing_cost import InferenceCost

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


def test_inference_has_a_table_of_batch_and_length() -> None:
    done = courses_here("writing_cost", "--gpu=A100", "evaluation.precision=bf16", "source=warc", "model=gpt3_125m")
    assert done.returncode == 0, done.stderr
    assert (
        "cache             36,864 bytes a token = 2 · 12 layers · 12 key/value heads · 64 wide · 2 bytes" in done.stdout
    )
    assert "| new tokens/s, all rows | 128 tokens | 512 tokens | 2,048 tokens |" in done.stdout
    refused = courses_here("writing_cost", "model=bert_tiny", "objective=masked")
    assert "model: is a model of stack encoder, and this counts decoders" in refused.stderr
