"""A model's results with a cache equal those without: to the last bit if only the cut differs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.train.config import ModelConfig
from headrace.train.model.cache import Cache, attend_in_order, cache_bytes
from headrace.train.model.recurrence import DecoderCache
from headrace.train.model.transformer import Transformer
from headrace.train.model.visibility import CAUSAL, logit_mask
from tests.train.model.test_transformer import GPT2, LLAMA, SHAPES, VOCABULARY, random_model

WIDE = ModelConfig(
    layers=2, width=64, heads=4, kv_heads=1, context=600, mlp_width=96,
    positions="rope", norm="rmsnorm", activation="swiglu", bias=False,
)  # fmt: skip
EVERY_SHAPE = pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)


def new_cache(model: Transformer, rows: int = 1) -> DecoderCache:
    return model.new_cache(rows)


def random_tokens(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def sizes(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def at_once(model: Transformer, tokens_T: torch.Tensor) -> torch.Tensor:
    """Returns logits_TV of one sequence, computed from its start."""
    return model.logits(model.extend(new_cache(model), tokens_T, sizes(len(tokens_T))))


@EVERY_SHAPE
@torch.inference_mode()
def test_extending_from_nothing_gives_the_logits_of_training(config):
    model, tokens_BT = random_model(config), random_tokens(3, 24)
    expected = model(tokens_BT, torch.arange(24).expand(3, -1), torch.zeros_like(tokens_BT))
    found = model.head(model.extend(new_cache(model, 3), tokens_BT.flatten(), sizes(24, 24, 24))).unflatten(0, (3, 24))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("steady_products")
@EVERY_SHAPE
@given(
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    others=st.lists(st.integers(0, 5), max_size=3),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_no_bit_depends_on_the_cuts_or_on_other_rows(config, cuts, others, seed):
    """Row 0 is read in pieces of its own; the others, of other lengths, in theirs in the same batch."""
    model = random_model(config)
    (tokens_T,) = random_tokens(1, min(sum(cuts), config.context), seed)
    cache, done, found = new_cache(model, 1 + len(others)), 0, []
    for number, cut in enumerate(cuts):
        taken = tokens_T[done : done + cut]
        beside = [
            other if cache.lengths_B[row + 1] + other <= config.context else 0 for row, other in enumerate(others)
        ]
        tokens_P = torch.cat((taken, random_tokens(1, sum(beside), seed + number)[0]))
        found.append(model.extend(cache, tokens_P, sizes(len(taken), *beside))[: len(taken)])
        done += len(taken)
    assert torch.equal(model.logits(torch.cat(found)), at_once(model, tokens_T))
    assert cache.lengths_B[0] == len(tokens_T)


@pytest.mark.usefixtures("steady_products")
def test_no_bit_depends_on_the_cuts_of_hundreds_of_tokens():
    """More slots than are summed at once, and than MKL sums in one go."""
    model, (tokens_T,) = random_model(WIDE), random_tokens(1, 600)
    expected = at_once(model, tokens_T)
    for cuts in ([333, 267], [100, 1, 1, 498], [599, 1]):
        cache = new_cache(model)
        found = [model.extend(cache, part, sizes(len(part))) for part in tokens_T.split(cuts)]
        assert torch.equal(model.logits(torch.cat(found)), expected)


@pytest.mark.usefixtures("steady_products")
@pytest.mark.parametrize(("room", "slots"), [(0, 16), (17, 32)])
@EVERY_SHAPE
def test_a_cache_can_be_gone_on_from_by_several_rows(config, room, slots):
    model = random_model(config)
    first_T, second_T = random_tokens(1, 5)[0], random_tokens(1, 7, 1)[0]
    ends_BT = random_tokens(3, 4, 2)
    cache = new_cache(model, 2)
    model.extend(cache, torch.cat((first_T, second_T)), sizes(5, 7))
    branched = cache.of_rows(torch.tensor([1, 0, 1]), room)
    assert branched.lengths_B.tolist() == [7, 5, 7]
    assert not isinstance(branched, Cache) or branched.capacity_tokens == slots
    x_BTM = model.extend(branched, ends_BT.flatten(), sizes(4, 4, 4)).unflatten(0, (3, 4))
    for x_TM, start_T, end_T in zip(x_BTM, (second_T, first_T, second_T), ends_BT, strict=True):
        assert torch.equal(model.logits(x_TM), at_once(model, torch.cat((start_T, end_T)))[-4:])
    assert cache.lengths_B.tolist() == [5, 7]


def test_a_full_window_is_refused():
    model = random_model(GPT2)
    cache = new_cache(model, 2)
    model.extend(cache, random_tokens(1, 44)[0], sizes(24, 20))
    with pytest.raises(ValueError, match=r"^25 tokens do not fit a context of 24$"):
        model.extend(cache, random_tokens(1, 2)[0], sizes(1, 1))
    model.extend(cache, random_tokens(1, 1)[0], sizes(0, 1))
    assert cache.lengths_B.tolist() == [24, 21]


def test_bytes_are_those_of_the_formula():
    cache = new_cache(random_model(LLAMA), 3)
    cache.reserve(32)
    assert cache.bytes_per_row == cache_bytes(LLAMA, 32, 4) == 2 * 2 * 2 * 8 * 4 * 32
    smollm2 = ModelConfig(layers=30, width=576, heads=9, kv_heads=3, context=8192, mlp_width=1536, positions="rope")
    assert cache_bytes(smollm2, 1, 2) == 23_040


@pytest.mark.parametrize(("name", "values"), [("lstm", 2 * 2 * 32), ("rnn", 2 * 32), ("window_mlp", 2 * 5 * 32)])
def test_a_state_has_one_size_for_any_number_of_tokens(name, values):
    """2 layers of width 32: h and c, h alone, and the last 5 vectors."""
    model = random_model(SHAPES[name])
    cache = new_cache(model, 3)
    for tokens in (1, 20):
        model.extend(cache, random_tokens(3, tokens).flatten(), sizes(tokens, tokens, tokens))
        assert cache.bytes_per_row == cache_bytes(SHAPES[name], tokens, 4) == 4 * values


def test_attention_in_order_is_attention():
    generator = torch.Generator().manual_seed(1)
    q_BNTD, k_BGSD, v_BGSD = (torch.randn(2, heads, 300, 16, generator=generator) for heads in (4, 2, 2))
    mask = logit_mask(CAUSAL, None, 2, 4, torch.arange(300)[None], 300)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q_BNTD, k_BGSD, v_BGSD, attn_mask=torch.ones(300, 300, dtype=torch.bool).tril(), enable_gqa=True
    )
    torch.testing.assert_close(attend_in_order(q_BNTD, k_BGSD, v_BGSD, mask), expected, rtol=0, atol=1e-5)
