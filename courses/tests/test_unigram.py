"""Unigram tokenizers, and their training against slow definitions: all segmentations of a word, one by one."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from headrace.data_prep.tokenization.encode import Encoder, parse
from headrace_courses import unigram
from headrace_courses.unigram import Unigram, train_pieces
from tests.pipeline.test_addresses import addresses

WORDS = {"▁mill": 20, "▁mills": 10, "▁miller": 7, "▁the": 50, "▁them": 5, "▁wheel": 9, "▁millwheel": 4, "▁x": 1}


def segmentations(word: str, pieces: dict[str, float]) -> list[tuple[str, ...]]:
    if not word:
        return [()]
    ends = [end for end in range(1, len(word) + 1) if word[:end] in pieces]
    return [(word[:end], *rest) for end in ends for rest in segmentations(word[end:], pieces)]


def scored(word: str, pieces: dict[str, float]) -> list[tuple[float, tuple[str, ...]]]:
    return sorted((sum(pieces[part] for part in parts), parts) for parts in segmentations(word, pieces))


def prepared(words: dict[str, int]):
    """The corpus of ``words``, its seeds, their edges, and their first scores."""
    corpus = unigram.corpus_of(words)
    texts, frequencies, edges = unigram.seed_pieces(corpus, 1000)
    return corpus, texts, edges, np.log(frequencies / frequencies.sum())


def test_seeds_are_characters_and_substrings_that_occur_twice():
    _, texts, edges, scores = prepared({"abab": 1, "xab": 3, "y": 1})
    assert sorted(texts) == ["a", "ab", "b", "x", "xa", "xab", "y"]
    weight = dict(zip(texts, np.exp(scores), strict=True))
    assert weight["xab"] / weight["a"] == pytest.approx(3 * 3 / 5)
    assert weight["ab"] / weight["b"] == pytest.approx(5 * 2 / 5)
    spelled = Counter(texts[piece] for piece in edges.pieces.tolist())
    assert spelled == {"a": 3, "b": 3, "ab": 3, "x": 1, "xa": 1, "xab": 1, "y": 1}


@given(st.dictionaries(st.text("abc", min_size=1, max_size=6), st.integers(1, 5), min_size=1, max_size=4))
def test_expected_counts_are_those_of_all_segmentations(words):
    corpus, texts, edges, scores = prepared(words)
    pieces, expected = dict(zip(texts, scores.tolist(), strict=True)), Counter[str]()
    for word, count in words.items():
        found = scored(word, pieces)
        total = math.fsum(math.exp(score) for score, _ in found)
        for score, parts in found:
            for part in parts:
                expected[part] += count * math.exp(score) / total
    ours = dict(zip(texts, unigram._expected(corpus, edges, scores).tolist(), strict=True))
    assert ours == pytest.approx({text: expected[text] for text in texts}, abs=1e-9)


def test_pruning_removes_the_pieces_that_cost_least():
    corpus, texts, edges, scores = prepared(WORDS)
    pieces, used = dict(zip(texts, scores.tolist(), strict=True)), Counter[str]()
    for word, count in WORDS.items():
        for part in scored(word, pieces)[-1][1]:
            used[part] += count
    total, losses = sum(used.values()), {}
    for text in (text for text in used if len(text) > 1):
        found = scored(text, {piece: score for piece, score in pieces.items() if piece != text})[-1]
        if found[0] <= pieces[text]:
            others = math.fsum(math.log(used[part] + used[text]) for part in found[1])
            others -= len(found[1]) * math.log(total + used[text] * (len(found[1]) - 1))
            losses[text] = used[text] / total * (math.log(used[text] / total) - others)
    is_character = np.array([len(text) == 1 for text in texts])
    characters = {text for text in texts if len(text) == 1}
    for number in range(1, len(losses) + 1):
        kept = unigram._pruned(corpus, edges, scores, np.ones(len(texts), bool), is_character, len(characters) + number)
        best = sorted(losses, key=lambda text: -losses[text])[:number]
        assert {texts[piece] for piece in np.flatnonzero(kept)} == characters | set(best)


def test_digamma():
    values = np.array([0.5, 1.0, 3.0, 1e6])
    known = [-1.9635100260214235, -0.5772156649015329, 0.9227843350984671, 13.815510057964191]
    assert unigram._digamma(values) == pytest.approx(known, abs=1e-10)


def test_all_characters_and_the_most_likely_pieces_remain():
    pieces = train_pieces(WORDS, 16)
    characters = {character for word in WORDS for character in word}
    assert len(pieces) == 16
    assert characters < {text for text, _ in pieces}
    assert {"▁the", "▁mill"} < {text for text, _ in pieces}
    scores = [score for _, score in pieces]
    assert scores == sorted(scores, reverse=True)
    assert [round(score, 6) for score in scores] == scores
    assert train_pieces({}, 5) == []
    assert train_pieces(dict(reversed(WORDS.items())), 16) == pieces


def test_more_training_makes_the_words_more_likely():
    def likelihood(pieces: dict[str, float]) -> float:
        return sum(count * scored(word, pieces)[-1][0] for word, count in WORDS.items())

    _, texts, _, scores = prepared(WORDS)
    characters = {text: score for text, score in zip(texts, scores.tolist(), strict=True) if len(text) == 1}
    assert (
        likelihood(dict(train_pieces(WORDS, 20))) > likelihood(dict(train_pieces(WORDS, 14))) > likelihood(characters)
    )


def test_a_text_becomes_its_most_likely_pieces():
    texts = ["mill stone, mill stones"] * 4
    kind = Unigram(vocabulary_size=120, alphabet_size=10, special_tokens="t5")
    described = kind.train(texts)
    assert described == kind.train(texts)
    encoder = Encoder(parse(described, "x"))
    assert encoder.decode(encoder.encode(["mills \n stone"])[0]) == "mills stone"
    tokenizer = Tokenizer.from_str(described)
    assert [tokenizer.token_to_id(token) for token in ("<pad>", "</s>", "<unk>")] == [0, 1, 2]
    assert "▁mill" in tokenizer.get_vocab()


def test_the_address_is_that_of_the_time_in_the_package(tmp_path):
    found = addresses(["tokenizer=unigram"], tmp_path)
    assert (found["tokenizer"], found["scores"]) == ("d94b2d9f2050", "1d4ac3180869")
