"""Log-likelihoods equal Hugging Face's, one query at a time, with any batches; known models get known scores.

The tree of shared beginnings: every sequence is its way through it, and long shared beginnings are there once.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.train.config import ModelConfig
from headrace.train.context import LEFT_TO_RIGHT, ContextForm
from headrace.train.evaluation.settings import Evaluation
from headrace.train.families.hf_folder import load
from headrace.train.inference.causal_likelihood import (
    LEAST_SHARED_TOKENS,
    Segment,
    after_contexts,
    alone,
    tree,
    windows,
)
from headrace.train.inference.inference_model import open_exported
from headrace.train.inference.queries import TokenQuery
from headrace.train.model.transformer import Transformer
from tests.train.small_models import WINDOW_TOKENS, OfHuggingFace, Uniform, asked, likelihood_of


def random_queries(number: int, vocabulary: int, longest_context: int, longest_continuation: int) -> list[TokenQuery]:
    generator = np.random.default_rng(5)

    def ids(longest: int) -> np.ndarray:
        return generator.integers(0, vocabulary, generator.integers(1, longest + 1))

    return [TokenQuery(ids(longest_context), ids(longest_continuation)) for _ in range(number)]


@torch.no_grad()
def one_by_one(model, query: TokenQuery) -> tuple[float, bool]:
    """Log-likelihood and greediness of one query that fits, after cutting the context on the left."""
    room = WINDOW_TOKENS + 1 - len(query.continuation)
    sequence = torch.tensor([*query.context.tolist()[-room:], *query.continuation.tolist()])
    logits = model(sequence[None, :-1]).logits[0, -len(query.continuation) :]
    targets = sequence[-len(query.continuation) :]
    chosen = torch.log_softmax(logits.double(), -1)[torch.arange(len(targets)), targets]
    return chosen.sum().item(), bool((logits.argmax(-1) == targets).all())


def test_log_likelihoods_equal_hugging_face_one_by_one(gpt2, encoder):
    queries = random_queries(60, encoder.vocabulary_size, 90, 12)
    greedy = gpt2.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=4, do_sample=False, pad_token_id=0)[0, 3:]
    queries.append(TokenQuery(np.array([1, 2, 3]), greedy.numpy()))
    answers, _ = asked(likelihood_of(OfHuggingFace(gpt2)), queries)
    expected = [one_by_one(gpt2, query) for query in queries]
    assert [answer.log_likelihood for answer in answers] == pytest.approx([value for value, _ in expected], abs=1e-4)
    assert [answer.greedy for answer in answers] == [value for _, value in expected]
    assert answers[-1].greedy
    assert not answers[0].greedy
    assert [answer.tokens for answer in answers] == [len(query.continuation) for query in queries]


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def ours(request, line, encoder) -> Transformer:
    """Our models in the shapes of GPT-2 and LLaMA: their scores must not depend on other queries by a bit."""
    if request.param == "gpt2":
        return load(line["weights"].path("hf/config.json").parent)
    config = ModelConfig(
        layers=2, width=32, heads=4, kv_heads=2, context=WINDOW_TOKENS, mlp_width=48,
        positions="rope", norm="rmsnorm", activation="swiglu", bias=False, tied=False,
    )  # fmt: skip
    model = Transformer(config, encoder.vocabulary_size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2, generator=torch.Generator().manual_seed(parameter.numel()))
    return model


def choices(number: int, vocabulary: int) -> list[TokenQuery]:
    """Queries that share contexts, and contexts that share worked examples."""
    generator = np.random.default_rng(9)
    examples, queries = generator.integers(0, vocabulary, 30), list[TokenQuery]()
    for item in range(number):
        own = generator.integers(0, vocabulary, generator.integers(1, 40))
        context = np.concatenate((examples, own)) if item % 2 else own
        queries += [TokenQuery(context, generator.integers(0, vocabulary, generator.integers(1, 9))) for _ in range(4)]
        queries.append(TokenQuery(context, queries[-1].continuation[:1]))
    return queries


@pytest.mark.usefixtures("steady_products")
def test_no_bit_depends_on_batch_order_or_company(ours, encoder):
    queries = choices(12, encoder.vocabulary_size) + random_queries(30, encoder.vocabulary_size, 90, 12)
    expected, _ = asked(likelihood_of(ours, batch_tokens=1), queries)
    for batch_tokens in (100, 1000, 10**6):
        assert likelihood_of(ours, batch_tokens=batch_tokens).answers(queries) == expected
    order = np.random.default_rng(1).permutation(len(queries)).tolist()
    shuffled = likelihood_of(ours).answers([queries[number] for number in order])
    assert shuffled == [expected[number] for number in order]
    assert [likelihood_of(ours).answers([query])[0] for query in queries[:20]] == expected[:20]


def test_sharing_changes_no_score(ours, encoder):
    """The model is called as those of ``transformers``: every sequence from its start, by training's forward."""
    queries = choices(12, encoder.vocabulary_size) + random_queries(30, encoder.vocabulary_size, 90, 12)

    def forward(tokens_BT, positions_BT, documents_BT):
        return ours(tokens_BT, positions_BT, documents_BT)

    expected, tally = asked(likelihood_of(forward), queries)
    found, same_tally = asked(likelihood_of(ours), queries)
    assert [one.log_likelihood for one in found] == pytest.approx([one.log_likelihood for one in expected], abs=1e-4)
    assert [one.greedy for one in found] == [one.greedy for one in expected]
    assert same_tally == tally


def test_shared_beginnings_are_read_once_and_logits_taken_of_targets_only(ours, encoder, monkeypatch):
    read, predicted = [], []
    extend, logits = Transformer.extend, Transformer.logits
    monkeypatch.setattr(
        Transformer,
        "extend",
        lambda self, cache, tokens, sizes: read.append(int(sizes.sum())) or extend(self, cache, tokens, sizes),
    )
    monkeypatch.setattr(Transformer, "logits", lambda self, x_NM: predicted.append(len(x_NM)) or logits(self, x_NM))
    context, vocabulary = np.arange(40), encoder.vocabulary_size
    queries = [TokenQuery(context, np.array([first, 5, 6])) for first in range(vocabulary - 4, vocabulary)]
    likelihood_of(ours).answers(queries)
    assert sum(read) == 40 + 4 * 2
    assert sum(predicted) == 1 + 4 * 2


def test_a_uniform_model_has_perplexity_v(encoder):
    vocabulary = encoder.vocabulary_size
    queries = random_queries(30, vocabulary, 90, 150)
    answers, tally = asked(likelihood_of(Uniform(vocabulary)), queries)
    nats = -sum(answer.log_likelihood for answer in answers)
    assert math.exp(nats / sum(answer.tokens for answer in answers)) == pytest.approx(vocabulary, rel=1e-6)
    assert tally.tokens == sum(len(query.continuation) for query in queries)


def test_truncated_contexts_are_counted(gpt2):
    fits = TokenQuery(np.zeros(WINDOW_TOKENS - 1, int), np.array([1, 2]))
    loses_one = TokenQuery(np.zeros(WINDOW_TOKENS, int), np.array([1, 2]))
    loses_nine = TokenQuery(np.zeros(WINDOW_TOKENS + 9, int), np.array([1]))
    _, tally = asked(likelihood_of(OfHuggingFace(gpt2)), [fits, loses_one, loses_nine])
    assert (tally.queries, tally.tokens) == (3, 5)
    assert (tally.truncated_contexts, tally.truncated_tokens, tally.split_continuations) == (2, 10, 0)


@given(
    context=st.integers(1, 30), continuation=st.integers(1, 60), window=st.integers(1, 20), data=st.integers(0, 10**6)
)
@settings(max_examples=80)
def test_pieces_predict_each_token_once_within_the_window(context, continuation, window, data):
    ids = np.random.default_rng(data).integers(0, 1000, context + continuation)
    rows = list(windows(TokenQuery(ids[:context], ids[context:]), LEFT_TO_RIGHT.capacity(window, two_stacks=False)))
    targets = np.concatenate([row.sequence[-row.targets :] for row in rows])
    assert targets.tolist() == ids[context:].tolist()
    for row in rows:
        assert row.targets < len(row.sequence) <= window + 1
    assert len(rows) == -(-continuation // window)
    end = context
    for row in rows:
        end += row.targets
        assert len(row.sequence) == min(window + 1, end)
        assert row.sequence.tolist() == ids[end - len(row.sequence) : end].tolist()


@given(context=st.integers(1, 30), continuation=st.integers(1, 60), window=st.integers(5, 20))
def test_an_encoder_and_its_decoder_have_a_window_each(context, continuation, window):
    """After a context of up to 1 token less come a token that ends it and two that begin the continuation."""
    form = ContextForm(ending=(100,), given=(101, 102))
    ids = np.arange(context + continuation)
    rows = list(windows(TokenQuery(ids[:context], ids[context:]), form.capacity(window, two_stacks=True), form))
    start = context
    for row in rows:
        of_encoder, of_decoder = np.split(row.sequence, [row.context_tokens])
        assert of_encoder.tolist() == [*ids[max(0, start - window + 1) : start], 100]
        assert of_decoder.tolist() == [101, 102, *ids[start : start + row.targets]]
        assert len(of_decoder) <= window
        start += row.targets
    assert start == len(ids)


def test_a_split_continuation_is_greedy_when_all_its_parts_are():
    def counts_up(tokens_BT, positions_BT, documents_BT):
        return torch.nn.functional.one_hot((tokens_BT + 1) % 100, 100).float()

    ids = np.arange(50)
    broken_early, broken_late = ids.copy(), ids.copy()
    broken_early[3], broken_late[-1] = 77, 77
    queries = [TokenQuery(sequence[:1], sequence[1:]) for sequence in (ids, broken_early, broken_late)]
    answers, tally = asked(likelihood_of(counts_up, window_tokens=16), queries)
    assert [answer.greedy for answer in answers] == [True, False, False]
    assert tally.split_continuations == 3


def test_log_probabilities_of_bf16_logits_are_taken_in_fp32():
    logits_BTV = torch.randn(1, 12, 300, generator=torch.Generator().manual_seed(4)).to(torch.bfloat16)
    query = TokenQuery(np.array([1, 2, 3]), np.arange(10))
    (answer,), _ = asked(likelihood_of(lambda tokens_BT, positions_BT, documents_BT: logits_BTV), [query])
    exact = torch.log_softmax(logits_BTV[0, 2:].double(), -1)[torch.arange(10), torch.arange(10)].sum().item()
    assert answer.log_likelihood == pytest.approx(exact, rel=1e-6)


def test_bf16_weights_change_scores_a_little(line, encoder):
    folder = line["weights"].path("hf/config.json").parent
    queries = random_queries(20, encoder.vocabulary_size, 40, 8)
    exact = open_exported(folder, encoder, Evaluation(device="cpu")).likelihood.answers(queries)
    bf16 = Evaluation(device="cpu", precision="bf16")
    rough = open_exported(folder, encoder, bf16).likelihood.answers(queries)
    differences = [abs(a.log_likelihood - b.log_likelihood) / a.tokens for a, b in zip(exact, rough, strict=True)]
    assert 0 < max(differences) < 0.1


token_lists = st.lists(
    st.lists(st.sampled_from([0, 1, 300]), min_size=1, max_size=40)
    | st.tuples(st.integers(1, 40), st.lists(st.integers(0, 2), max_size=12)).map(lambda pair: [7] * pair[0] + pair[1]),
    max_size=30,
)


def ways(segments: list[Segment], before: tuple[int, ...] = ()) -> dict[int, list[tuple[int, ...]]]:
    """The tokens of each sequence as the tree has them, once for each way."""
    found: dict[int, list[tuple[int, ...]]] = {}
    for segment in segments:
        assert segment.start == len(before)
        here = (*before, *segment.tokens.tolist())
        going_on = ways(segment.next, here)
        for number in segment.members:
            found.setdefault(number, []).extend(going_on.get(number, [here]))
        assert going_on.keys() <= set(segment.members)
    return found


def arrays(lists: list[list[int]]) -> list[np.ndarray]:
    return [np.array(tokens, np.int64) for tokens in lists]


def size(segments: list[Segment]) -> int:
    return sum(len(segment.tokens) + size(segment.next) for segment in segments)


@given(token_lists)
@settings(max_examples=40)
def test_every_sequence_has_one_way(lists):
    expected = {number: [tuple(tokens)] for number, tokens in enumerate(lists)}
    assert ways(tree(arrays(lists))) == expected
    assert ways(alone(arrays(lists))) == expected


@given(token_lists)
@settings(max_examples=40)
def test_a_long_beginning_of_two_is_there_once(lists):
    def check(segments: list[Segment]) -> None:
        for number, one in enumerate(segments):
            for other in segments[number + 1 :]:
                equal = [a == b for a, b in zip(one.tokens.tolist(), other.tokens.tolist(), strict=False)]
                shared = equal.index(False) if False in equal else len(equal)
                assert shared < LEAST_SHARED_TOKENS
            check(one.next)

    check(tree(arrays(lists)))


def test_hundreds_of_beginnings_of_one_another():
    whole = np.arange(400)
    assert size(tree([whole[:length] for length in range(1, 401)])) < 400 * LEAST_SHARED_TOKENS


@given(token_lists.filter(bool), st.integers(1, 6))
@settings(max_examples=40)
def test_only_equal_contexts_are_shared(lists, longest):
    contexts = [min(longest, len(tokens)) for tokens in lists]
    roots = after_contexts(arrays(lists), contexts)
    assert ways(roots) == {number: [tuple(tokens)] for number, tokens in enumerate(lists)}
    expected = {tuple(tokens[:end]) for tokens, end in zip(lists, contexts, strict=True)}
    assert {tuple(root.tokens.tolist()) for root in roots} == expected
    assert len(roots) == len(expected)
