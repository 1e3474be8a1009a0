"""The model of word n-grams against the formula of Chen and Goodman, computed with dictionaries from the words."""

import math
import random
from collections import defaultdict
from pathlib import Path

import pytest

from headrace.data_prep.text.words import words
from headrace.pipeline.core.errors import ConfigError
from headrace_courses.perplexity import Perplexity, WordNgrams
from tests.data_prep.columns.test_scorers import TEXTS, scores

PAD, MARK = "<pad>", "<s>"


class Reference:
    """The same model from the definition: c_k by counting, a sum for each probability."""

    def __init__(self, texts: list[str], order: int) -> None:
        self.order = order
        self.ids = len({word for text in texts for word in words(text)}) + 2
        self.counts: list[dict[tuple[str, ...], int]] = [defaultdict(int) for _ in range(order + 1)]
        before: list[dict[tuple[str, ...], set[str]]] = [defaultdict(set) for _ in range(order + 1)]
        for sequence in map(self.padded, texts):
            for last in range(order, len(sequence)):
                self.counts[order][tuple(sequence[last - order + 1 : last + 1])] += 1
                for k in range(1, order):
                    before[k][tuple(sequence[last - k + 1 : last + 1])].add(sequence[last - k])
        for k in range(1, order):
            self.counts[k] = {gram: len(words_before) for gram, words_before in before[k].items()}

    def padded(self, text: str) -> list[str]:
        return [PAD] * (self.order - 1) + [MARK, *words(text)]

    def discount(self, k: int, count: int) -> float:
        n1, n2, n3, n4 = (list(self.counts[k].values()).count(number) for number in (1, 2, 3, 4))
        discounts = [0.0, 0.5, 1.0, 1.5]
        if n1 and n2 and n3:
            y = n1 / (n1 + 2 * n2)
            estimated = [0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
            discounts = estimated if all(0 <= d <= k for k, d in enumerate(estimated)) else discounts
        return discounts[min(count, 3)]

    def probability(self, context: tuple[str, ...], word: str) -> float:
        k = len(context) + 1
        lower = self.probability(context[1:], word) if context else 1 / self.ids
        after = {gram: n for gram, n in self.counts[k].items() if gram[:-1] == context}
        total = sum(after.values())
        if not total:
            return lower
        own = after.get((*context, word), 0)
        left = sum(self.discount(k, n) for n in after.values())
        return (own - self.discount(k, own) + left * lower) / total

    def log_probs(self, text: str) -> list[float]:
        sequence, k = self.padded(text), self.order - 1
        return [
            math.log(self.probability(tuple(sequence[i - k : i]), sequence[i])) for i in range(k + 1, len(sequence))
        ]


def texts_of(seed: int, number: int) -> list[str]:
    chooser = random.Random(seed)
    return [" ".join(chooser.choices("abcdef", range(6, 0, -1), k=chooser.randrange(0, 20))) for _ in range(number)]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_it_is_the_formula(order: int) -> None:
    texts = ["A mill turns. The mill wheel turns, the mill turns.", "", *texts_of(1, 12)]
    model, reference = WordNgrams.of(texts, order), Reference(texts, order)
    for text in [*texts, *texts_of(2, 6), "the unknown wheel turns a b c unknown", ""]:
        assert model.log_probs(text).tolist() == pytest.approx(reference.log_probs(text), rel=1e-12), text


def test_text_like_the_texts_has_a_lower_perplexity() -> None:
    model = WordNgrams.of(["the wheel of the mill turns in the river"] * 3, 3)
    like, unlike = model.perplexity("the mill turns in the river"), model.perplexity("river the in turns mill the")
    assert like is not None
    assert unlike is not None
    assert like < unlike
    assert like == pytest.approx(math.exp(-math.fsum(model.log_probs("the mill turns in the river")) / 6), rel=1e-12)
    assert model.perplexity(" .. ") is None


def test_order_of_the_texts_and_a_saved_file_change_nothing(tmp_path: Path) -> None:
    texts = texts_of(4, 20)
    model = WordNgrams.of(texts, 3)
    model.save(tmp_path / "model.npz")
    for other in (WordNgrams.of(texts[::-1], 3), WordNgrams.load(tmp_path / "model.npz")):
        assert [other.perplexity(text) for text in texts] == [model.perplexity(text) for text in texts]


def test_texts_without_words_are_refused() -> None:
    with pytest.raises(ConfigError, match="hold no word"):
        WordNgrams.of(["", "..."], 3)


def test_perplexity_of_a_file_and_of_the_documents(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the mill turns\nin the river\n")
    given = scores(Perplexity(path=str(tmp_path / "text.txt")), tmp_path / "given")
    model = WordNgrams.of(["the mill turns", "in the river"], 3)
    assert given[0][0] == model.perplexity(TEXTS[0][0])
    assert all(math.isnan(float(value)) for value in (given[0][1], given[2][2])), "texts without words"
    own = WordNgrams.of([text for texts in TEXTS for text in texts], 2)
    found = scores(Perplexity(order=2), tmp_path / "own")
    assert [found[0][0], found[2][0]] == [own.perplexity(TEXTS[0][0]), own.perplexity(TEXTS[2][0])]
    one_line = scores(Perplexity(path=str(tmp_path / "text.txt"), sample_bytes=1), tmp_path / "short")
    assert one_line[0][0] == WordNgrams.of(["the mill turns"], 3).perplexity(TEXTS[0][0])
