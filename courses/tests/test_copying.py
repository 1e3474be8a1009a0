"""Copying: the sequences that are asked, a model that copies and one that does not, lengths that do not fit."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.made_tokenizers import Words
from headrace.pipeline.core.errors import ConfigError
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.scoring import score_items
from headrace.train.inference.queries import Answer
from headrace_courses.copying import Copying
from headrace_courses.synthetic import Synthetic
from tests.train.small_models import model_of

SOURCE = Synthetic(documents=200, symbols=20, least_symbols=2, most_symbols=4, separator="=")
BENCHMARK = Copying(lengths=(2, 12), sequences=3)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    texts = (SOURCE.text(number) for number in range(200))
    return Encoder(Tokenizer.from_str(Words(vocabulary_size=64).train(texts)))


def sources(encoder: Encoder, most: int | None = None) -> Sources:
    start, size = encoder.end_of_text, encoder.vocabulary_size
    return Sources(Path(), None, "0:copying", size, start, tokenizer=encoder, most_window_tokens=most)


class Copier:
    """Predicts the token after the earlier occurrence of what it reads: after the separator, the text from its start.

    The first ``right`` tokens of each copy are right, the others are the separator.
    """

    def __init__(self, vocabulary: int, separator: int, right: int = 99) -> None:
        self.vocabulary, self.separator, self.right = vocabulary, separator, right

    def __call__(self, tokens_BT, positions_BT, documents_BT):
        logits_BTV = torch.zeros((*tokens_BT.shape, self.vocabulary))
        for row, tokens in enumerate(tokens_BT.tolist()):
            begin = tokens.index(self.separator)
            for index in range(begin, len(tokens)):
                copied = index - begin
                expected = tokens[1 + copied] if copied < begin - 1 else tokens[0]
                logits_BTV[row, index, expected if copied < self.right else self.separator] = 20.0
        return logits_BTV


def test_sequences_are_of_the_symbols_of_the_source(encoder):
    items = BENCHMARK.items(sources(encoder))
    assert [item.group for item in items] == ["length_2"] * 3 + ["length_12"] * 3
    for item in items:
        (query,) = item.queries
        length = int(item.group.split("_")[1])
        context, copy = query.context.tolist(), query.continuation.tolist()
        assert (context[0], copy[-1]) == (encoder.end_of_text,) * 2
        assert context[1:-1] == copy[:-1]
        assert query.window_tokens == len(context) + len(copy) - 1 == 2 * length + 2
        words = encoder.decode(context[1:]).split()
        assert words.pop() == "="
        assert set(words) <= {SOURCE.symbol(number) for number in range(20)}
    assert len({tuple(item.queries[0].context.tolist()) for item in items}) == 6
    assert [item.name for item in Copying(lengths=(2, 12), sequences=3, limit=4).items(sources(encoder))] == [
        "sequence:0", "sequence:1", "sequence:0", "sequence:1",
    ]  # fmt: skip


@pytest.mark.parametrize(("right", "expected"), [(99, (1.0, 1.0, 1.0)), (3, (0.5, 1.0, 0.0)), (2, (0.0, 0.0, 0.0))])
def test_a_copy_is_right_up_to_its_end(encoder, right, expected):
    (separator,) = encoder.encode(["="])[0].tolist()
    subject = model_of(Copier(encoder.vocabulary_size, separator, right), encoder, window_tokens=8)
    entry = score_items("copying", BENCHMARK, BENCHMARK.items(sources(encoder)), None, subject).scores
    found = {(metric.name, metric.group): metric.value for metric in entry.metrics}
    assert tuple(found["acc", group] for group in ("", "length_2", "length_12")) == expected
    assert (found["loss", "length_12"] < 1e-4) == (right == 99)


def test_lengths_beyond_a_table_of_positions(encoder):
    assert {item.group for item in BENCHMARK.items(sources(encoder, 8))} == {"length_2"}
    assert BENCHMARK.notes(8) == ("not possible at lengths 12: the model has 8 positions and no others.",)
    assert BENCHMARK.notes(26) == BENCHMARK.notes(None) == ()


def test_metrics_by_hand(encoder):
    items = BENCHMARK.items(sources(encoder))
    answers = [Answer(-3.0, True, 3)] * 3 + [Answer(-26.0, False, 13), Answer(-13.0, True, 13), Answer(0.0, True, 13)]
    outcomes = [BENCHMARK.outcome(item, [answer]) for item, answer in zip(items, answers, strict=True)]
    found = {(one.name, one.group): one for one in BENCHMARK.metrics(items, outcomes, 16)}
    assert found["acc", ""].value == pytest.approx((1 + 2 / 3) / 2)
    assert found["acc", "length_12"].value == pytest.approx(2 / 3)
    assert (found["loss", "length_2"].value, found["loss", "length_12"].value) == (1.0, 1.0)
    assert (found["acc", ""].random, found["loss", "length_2"].random) == (0.0, math.log(16))


def test_refusals(encoder):
    with pytest.raises(ConfigError) as caught:
        Copying(lengths=(3, 3))
    assert str(caught.value) == "evaluation.benchmarks: lengths is [3, 3]; give different numbers"
    two = SimpleNamespace(encode=lambda texts: [[1, 2]], backend=encoder.backend)
    with pytest.raises(ConfigError) as caught:
        BENCHMARK.items(Sources(Path(), None, "", 9, 0, tokenizer=two))
    assert str(caught.value) == (
        "evaluation.benchmarks: the separator '=' is 2 tokens of this tokenizer; give one that is a single token"
    )
