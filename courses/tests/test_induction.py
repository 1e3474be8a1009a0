"""Induction heads: the queries, a perfect model built by hand, models without induction, Hugging Face models."""

import math
from pathlib import Path

import pytest
import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, MambaConfig, MambaForCausalLM

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.stages import stages
from headrace.train.config import ModelConfig
from headrace.train.distributed.processes import Ranks
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.scoring import score
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import Answer
from headrace.train.inference.sharing import Sharing
from headrace.train.inference.transformers_model import TransformersModel
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace_courses.induction import AttentionWeights, Induction
from tests.train.small_models import model_of

SEQUENCE, VOCABULARY, WINDOW = 6, 12, 13
HEAD_WIDTH = 20
START = 3


def sources(vocabulary: int = VOCABULARY) -> Sources:
    return Sources(Path(), None, "0:induction", vocabulary, START)


def subject_of(model, window: int = WINDOW, vocabulary: int = VOCABULARY) -> InferenceModel:
    return model_of(model, NoTexts(), vocabulary, window)


def scored(model, window: int = WINDOW, vocabulary: int = VOCABULARY, **settings):
    benchmark = Induction(sequence_tokens=SEQUENCE, **settings)
    return score("induction", benchmark, sources(vocabulary), None, subject_of(model, window, vocabulary))


class NoTexts:
    """Texts for a benchmark that needs none."""

    end_of_text = START

    def encode(self, texts):
        assert not texts
        return []


SHAPE = ModelConfig(layers=2, width=2 * HEAD_WIDTH, heads=2, kv_heads=2, context=WINDOW, mlp_width=4)


def induction_circuit() -> Transformer:
    """Features: the token (0–11), its position (12–24), the token before it (25–36).

    Layer 0, head 0 attends one position back and copies the token there. Layer 1, head 1 attends to positions after a
    token like its own, and predicts the token there. (Elhage et al. 2021, "A Mathematical Framework for Transformer
    Circuits", the two-layer induction head.)
    """
    model = Transformer(SHAPE, VOCABULARY)
    token, position, before = range(VOCABULARY), range(VOCABULARY, 25), range(25, 37)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "norm.weight" in name else 0.0)
        model.embedding.weight[token, token] = 1.0
        model.positions.weight[range(WINDOW), position] = 1.0
        (looks_back, writes), (induces, predicts) = (
            (block.attention.qkv.weight.unflatten(0, (3, 2, HEAD_WIDTH)), block.attention.output.weight)
            for block in model.blocks
        )
        query, key, value = looks_back[:, 0]
        query[range(WINDOW - 1), position[1:]] = 30.0
        key[range(WINDOW), position] = 30.0
        value[token, token] = 1.0
        writes[before, token] = 1.0
        query, key, value = induces[:, 1]
        query[token, token] = 30.0
        key[token, before] = 30.0
        value[token, token] = 1.0
        predicts[token, [HEAD_WIDTH + number for number in token]] = 50.0
    return model.eval()


def test_what_is_asked():
    first, second = Induction(sequence_tokens=4, sequences=2).items(sources())
    whole = first.queries[2].tokens.tolist()
    once = whole[1:5]
    assert whole == [START, *once, *once]
    assert len({START, *once}) == 5
    assert first.queries[2].pairs.tolist() == [[5, 2], [6, 3], [7, 4], [8, 5]]
    for query, context in zip(first.queries, ([START], [START, *once]), strict=False):
        assert (query.context.tolist(), query.continuation.tolist()) == ([*context, once[0]], once[1:])
    assert second.queries[2].tokens.tolist() != whole
    assert Induction(sequence_tokens=4).least_window_tokens == 9
    assert len(Induction(sequences=5, limit=3).items(sources(1000))) == 3
    (same, *_) = Induction(sequence_tokens=4).items(sources())
    assert same.queries[2].tokens.tolist() == whole


def test_every_token_but_the_start_is_drawn():
    (item,) = Induction(sequence_tokens=VOCABULARY - 1, sequences=1).items(sources())
    assert sorted(item.queries[2].tokens[1:VOCABULARY].tolist()) == [n for n in range(VOCABULARY) if n != START]


def test_a_circuit_built_by_hand_induces_perfectly():
    found = scored(induction_circuit(), sequences=5)
    metrics = {(metric.name, metric.group): metric for metric in found.scores.metrics}
    whole = metrics["prefix_matching", ""]
    assert whole.value == pytest.approx(1.0, abs=1e-6)
    assert metrics["prefix_matching", "layer_1_head_1"].value == whole.value
    assert metrics["prefix_matching", "layer_0_head_0"].value == pytest.approx(0.0, abs=1e-6)
    assert whole.random == pytest.approx(sum(1 / n for n in range(8, 14)) / 6)
    assert metrics["prefix_matching", "layer_0_head_1"].value == pytest.approx(whole.random), "looks everywhere"
    assert metrics["induction_heads", ""].value == 1.0
    assert metrics["loss_on_repeat", ""].value < 0.1
    assert metrics["copying_loss", ""].value < -2
    assert (found.scores.items, found.scores.tally.queries, found.scores.tally.truncated_contexts) == (5, 10, 0)


def test_a_model_without_the_first_layer_does_not_induce():
    model = induction_circuit()
    with torch.no_grad():
        model.blocks[0].attention.output.weight.zero_()
    assert scored(model).scores.metrics[0].value < 0.3


def test_metrics_by_hand():
    benchmark = Induction(sequence_tokens=2, sequences=2)
    items = benchmark.items(sources())
    heads = (((0.9, 0.1), (0.6, 0.0)), ((0.7, 0.1), (0.2, 0.0)))
    outcomes = [
        benchmark.outcome(item, [Answer(-6.0, False, 2), Answer(-losses, False, 2), values])
        for item, values, losses in zip(items, heads, (1.0, 3.0), strict=True)
    ]
    assert outcomes[0] == {
        "copying_loss": -2.5,
        "loss_at_first": 3.0,
        "loss_on_repeat": 0.5,
        "layer_0_head_0": 0.9,
        "layer_0_head_1": 0.1,
        "layer_1_head_0": 0.6,
        "layer_1_head_1": 0.0,
    }
    found = benchmark.metrics(items, outcomes, 16)
    assert [(metric.name, metric.group, round(metric.value, 9)) for metric in found] == [
        ("prefix_matching", "", 0.8),
        ("induction_heads", "", 1.0),
        ("copying_loss", "", -2.0),
        ("loss_at_first", "", 3.0),
        ("loss_on_repeat", "", 1.0),
        ("prefix_matching", "layer_0_head_0", 0.8),
        ("prefix_matching", "layer_0_head_1", 0.1),
        ("prefix_matching", "layer_1_head_0", 0.4),
        ("prefix_matching", "layer_1_head_1", 0.0),
    ]
    assert found[0].standard_error == pytest.approx(0.1)
    assert (found[2].random, found[3].random) == (0.0, math.log(16))


def test_another_family_shows_its_heads_as_transformers_does():
    torch.manual_seed(1)
    config = GPTNeoXConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.3,
    )
    theirs = GPTNeoXForCausalLM(config).eval()
    usual = theirs.config._attn_implementation
    found = scored(TransformersModel(theirs), 32, 64, sequences=2)
    assert theirs.config._attn_implementation == usual != "eager"
    eager = GPTNeoXForCausalLM._from_config(config, attn_implementation="eager").eval()
    eager.load_state_dict(theirs.state_dict())
    (*_, query) = found.items[1].queries
    assert isinstance(query, AttentionWeights)
    weights = eager(input_ids=torch.tensor(query.tokens)[None], output_attentions=True).attentions
    expected = sum(weights[1][0, 3, at, at - SEQUENCE + 1].item() for at in range(7, 13)) / 6
    assert found.outcomes[1]["layer_1_head_3"] == pytest.approx(expected, abs=1e-5)


def test_a_model_without_attention_is_an_error():
    model = MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=8, num_hidden_layers=1, state_size=2)).eval()
    with pytest.raises(ConfigError) as caught:
        scored(TransformersModel(model), 32, 64)
    assert str(caught.value) == (
        "attention: MambaForCausalLM does not return the attention weights of its heads; leave out what measures "
        "attention (induction), or take a model of a family that Headrace computes"
    )


def test_company_changes_no_head():
    model = Transformer(SHAPE, VOCABULARY)
    initialize(model, 0)
    few, many = scored(model, sequences=2), scored(model, sequences=9)
    assert few.outcomes == many.outcomes[:2]


def test_every_query_is_told_as_answers_to():
    subject, told = subject_of(induction_circuit()), []
    benchmark = Induction(sequence_tokens=SEQUENCE, sequences=3)
    found = score("induction", benchmark, sources(), None, subject.shared(Sharing(Ranks(0, 1, 0, 1), told.append)))
    assert sum(told) == sum(len(item.queries) for item in found.items) == 9
    assert found.outcomes == score("induction", benchmark, sources(), None, subject).outcomes


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"sequence_tokens": 1}, "sequence_tokens: must be at least 2 (got 1)"),
        ({"sequences": 0}, "sequences: must be at least 1 (got 0)"),
    ],
)
def test_wrong_settings(settings, wrong):
    with pytest.raises(ConfigError) as caught:
        decode(Induction, settings)
    assert str(caught.value) == f"{wrong}; correct the value"


def test_too_few_tokens_to_draw():
    with pytest.raises(ConfigError) as caught:
        Induction(sequence_tokens=VOCABULARY).items(sources())
    assert str(caught.value) == (
        "evaluation.benchmarks: 12 distinct tokens of a vocabulary of 12; make sequence_tokens smaller"
    )


def test_a_model_without_attention_is_refused_before_its_training() -> None:
    overrides = ["experiment=smoke", "model.mixer=lstm", "model.positions=none", "evaluation=demo"]
    stages(decoded(compose(overrides)))
    with pytest.raises(ConfigError, match=r"benchmarks\.induction: type induction needs weights of attention"):
        stages(decoded(compose([*overrides, "+evaluation.benchmarks.induction={type: induction}"])))
