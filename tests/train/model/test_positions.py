"""Positions without a family that transformers computes with the same formula, and activations by hand."""

import dataclasses
import math

import pytest
import torch

from headrace.pipeline.core.errors import ConfigError
from headrace.train.model.layers import ACTIVATIONS
from headrace.train.model.positions import POSITIONS, distance_buckets
from headrace.train.model.visibility import Visibility
from tests.train.model.test_transformer import BLOOM, GPT2, VOCABULARY, random_model

EVERYTHING = Visibility(lambda row, head, query, key: (query >= 0) & (key >= 0), looks_ahead=True)


def test_sines_and_cosines_alternate():
    """Vaswani et al. 2017, section 3.5, one value at a time; far positions too, and the vectors are no weights."""
    scheme = POSITIONS["sinusoidal"](dataclasses.replace(GPT2, positions="sinusoidal", width=8))
    positions_BT = torch.tensor([[0, 1, 7], [5, 100, 5000]])
    vectors_BTM, rotation = scheme(torch.zeros(2, 3, 8), positions_BT)
    assert rotation is None
    assert not list(scheme.state_dict())
    expected = [
        [(math.sin if m % 2 == 0 else math.cos)(position / 10_000 ** ((m - m % 2) / 8)) for m in range(8)]
        for position in positions_BT.flatten().tolist()
    ]
    torch.testing.assert_close(vectors_BTM.flatten(0, 1), torch.tensor(expected), rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (8, [2.0**-h for h in range(1, 9)]),
        (12, [*(2.0**-h for h in range(1, 9)), *(2.0 ** -(h + 0.5) for h in range(4))]),
        (3, [2.0**-4, 2.0**-8, 2.0**-2]),
    ],
)
def test_the_slopes_of_alibi(heads, slopes):
    """Press et al. 2022: a geometric sequence; for 12 heads that of 8, then every second one of 16."""
    bias = POSITIONS["alibi"](dataclasses.replace(BLOOM, width=24 * heads, heads=heads, kv_heads=heads)).bias()
    row, head, query, key = torch.tensor(0), torch.arange(heads), torch.tensor(9), torch.tensor(6)
    expected = torch.tensor(slopes)
    if heads == 12:  # 16 heads have the slopes 2^(-h/2)
        expected[8:] = torch.tensor([2.0 ** -(h / 2) for h in (1, 3, 5, 7)])
    torch.testing.assert_close(bias(row, head, query, key), -3 * expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(bias(row, head, key, query), -3 * expected, rtol=1e-6, atol=0)


@torch.inference_mode()
def test_without_positions_a_stack_that_sees_everything_ignores_the_order():
    """A permutation of the tokens permutes the outputs; under the causal mask it does not."""
    model = random_model(dataclasses.replace(GPT2, positions="none"))
    tokens_1T = torch.randint(VOCABULARY, (1, 16), generator=torch.Generator().manual_seed(2))
    order_T = torch.randperm(16, generator=torch.Generator().manual_seed(3))
    arguments = (torch.arange(16)[None], torch.zeros_like(tokens_1T), None)
    before, after = (model(tokens, *arguments, EVERYTHING) for tokens in (tokens_1T, tokens_1T[:, order_T]))
    torch.testing.assert_close(after, before[:, order_T], rtol=0, atol=1e-5)
    causal = model(tokens_1T[:, order_T], *arguments[:2]) - model(tokens_1T, *arguments[:2])[:, order_T]
    assert causal.abs().amax() > 1e-3


def erf_gelu(x: float) -> float:
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def tanh_gelu(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("relu", lambda x: max(x, 0.0)),
        ("gelu", tanh_gelu),
        ("gelu_exact", erf_gelu),
        ("reglu", lambda x: max(x, 0.0)),
        ("geglu", tanh_gelu),
        ("geglu_exact", erf_gelu),
        ("swiglu", lambda x: x / (1 + math.exp(-x))),
    ],
)
def test_activations_by_hand(name, formula):
    gate, value = [-2.5, -0.3, 0.0, 0.7, 3.1], [1.0, -2.0, 0.5, 4.0, -1.0]
    is_gated = name.endswith("glu") or name == "geglu_exact"
    found = ACTIVATIONS[name](torch.tensor([gate + value] if is_gated else [gate]))[0]
    expected = [formula(x) * (y if is_gated else 1.0) for x, y in zip(gate, value, strict=True)]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


@torch.no_grad()
def test_parallel_parts_read_the_input_of_the_block():
    """Attention to an encoder, too: x + attention(norm(x)) + cross(norm(x)) + mlp(norm(x))."""
    model = random_model(dataclasses.replace(GPT2, layers=1, norm_place="parallel", stack="encoder_decoder"))
    block = model.blocks[0]

    class Values:
        def attend(self, q, k, v, drop):
            return v

        def read(self, q, keys_and_values, drop):
            return q

    x_BTM = torch.randn(1, 5, GPT2.width, generator=torch.Generator().manual_seed(1))
    expected = x_BTM + block.attention(block.attention_norm(x_BTM), None, Values())
    expected = expected + block.cross(block.cross_norm(x_BTM), Values()) + block.mlp(block.mlp_norm(x_BTM))
    torch.testing.assert_close(block(x_BTM, None, Values(), Values()), expected, rtol=0, atol=1e-6)


def test_the_buckets_of_t5():
    """Raffel et al. 2020 and T5's code: the first distance of each bucket that holds several. Where tokens see later
    ones, half of the buckets are for distances up to 128, and the other half is for keys after the query."""
    distances = torch.arange(400)
    one, two = (distance_buckets(distances, torch.tensor(0), two_sided) for two_sided in (False, True))
    firsts = [int((two == bucket).nonzero()[0]) for bucket in range(8, 16)]
    assert firsts == [8, 12, 16, 23, 32, 46, 64, 91]
    assert two[:8].tolist() == list(range(8))
    assert one[:16].tolist() == list(range(16))
    assert (one[112], one[113], one[399]) == (30, 31, 31)
    after = distance_buckets(torch.tensor(0), distances[1:], True)
    assert torch.equal(after, two[1:] + 16)
    assert set(distance_buckets(torch.tensor(0), distances, False).tolist()) == {0}


@pytest.mark.parametrize(
    ("stack", "two_sided", "ranges"),
    [
        ("decoder", None, 1),
        ("decoder", True, 3),
        ("encoder", None, 3),
        ("discriminator", None, 1),
        ("discriminator", True, 3),
    ],
)
def test_a_bias_that_tells_later_tokens_apart(stack, two_sided, ranges):
    """The numbers for keys 1 and 3 positions after the query, and for its own."""
    config = dataclasses.replace(GPT2, positions="t5", stack=stack, two_sided_bias=two_sided)
    scheme = POSITIONS["t5"](config)
    bias = scheme.bias()
    assert bias is not None
    query, key = torch.tensor(4), torch.tensor([4, 5, 7])
    assert len(set(bias(torch.tensor(0), torch.tensor(0), query, key).tolist())) == ranges


@torch.inference_mode()
def test_a_prefix_lm_sees_the_order_of_later_tokens():
    """Two later tokens of a prefix exchange their places: without buckets of their own, the first vector stays."""
    tokens_1T = torch.tensor([[1, 2, 3, 4, 5, 6]])
    exchanged_1T, prefix_1T = tokens_1T[:, [0, 1, 3, 2, 4, 5]], torch.ones(1, 6, dtype=torch.bool)
    for two_sided in (None, True):
        model = random_model(dataclasses.replace(GPT2, layers=1, positions="t5", two_sided_bias=two_sided))
        rest = (torch.arange(6)[None], torch.zeros_like(tokens_1T))
        before, after = (model(tokens, *rest, prefix_BT=prefix_1T)[0, 0] for tokens in (tokens_1T, exchanged_1T))
        assert torch.allclose(before, after, rtol=0, atol=1e-5) == (two_sided is None)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"two_sided_bias": True},
            "true needs positions t5 and stack decoder or discriminator, not learned and decoder",
        ),
        (
            {"two_sided_bias": False, "positions": "t5", "stack": "encoder"},
            "false needs positions t5 and stack decoder or discriminator, not t5 and encoder",
        ),
    ],
)
def test_a_two_sided_bias_without_a_choice_is_refused(changed, message):
    with pytest.raises(ConfigError, match=f"^model: two_sided_bias {message}; correct the model's settings$"):
        dataclasses.replace(GPT2, **changed)
