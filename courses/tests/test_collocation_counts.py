"""Collocations by PMI: counts and ranks of a brute force over all documents and all divisions."""

import collections
import itertools
import json
import math
import random

import numpy as np
import pytest

from headrace_courses import collocation_counts
from headrace_courses.collocation_counts import WordRule, lines, ranked

END, SPECIAL, SIZE = 0, 1, 40
CONTINUES = np.arange(SIZE) % 4 == 3
CONTINUES[[END, SPECIAL]] = False
RULE = WordRule(CONTINUES, np.array([END, SPECIAL]))


class Shards:
    """Token shards in memory, each a list of documents."""

    def __init__(self, documents: list[list[list[int]]]) -> None:
        self._tokens, self._bounds = [], []
        for shard in documents:
            tokens, bounds = [END], [0]
            for document in shard:
                tokens += [*document, END]
                bounds.append(len(tokens) - 1)
            self._tokens.append(np.array(tokens, np.uint16))
            self._bounds.append(np.array(bounds, np.uint64))

    def __len__(self) -> int:
        return len(self._tokens)

    def bounds(self, shard: int) -> np.ndarray:
        return self._bounds[shard]

    def slice(self, shard: int, start: int, stop: int) -> np.ndarray:
        return self._tokens[shard][start:stop]


def corpus() -> list[list[list[int]]]:
    """Documents of random words with phrases in them, one with a special token, one empty."""
    generator = random.Random(3)
    phrases = [[8, 9, 11], [12, 20, 23, 24], [5, 3], [30, 31, 33, 34, 36, 38]]
    shards = []
    for _ in range(3):
        documents = []
        for _ in range(25):
            document = []
            for _ in range(generator.randrange(30)):
                document += generator.choice(phrases) if generator.random() < 0.4 else [generator.randrange(2, SIZE)]
            documents.append(document)
        shards.append(documents)
    shards[1][2][3:3] = [SPECIAL]
    shards[2][0] = []
    return shards


def texts(shards) -> list[list[tuple[int, ...]]]:
    """The words of each text without special tokens, by a loop over tokens."""
    found = []
    for document in itertools.chain.from_iterable(shards):
        words: list[tuple[int, ...]] = []
        for token in document:
            if token == SPECIAL:
                found.append(words)
                words = []
            elif words and CONTINUES[token]:
                words[-1] = (*words[-1], token)
            else:
                words.append((token,))
        found.append(words)
    return found


def divisions(words: tuple) -> list[list[tuple]]:
    """All ways to divide ``words`` in two or more parts."""
    places = range(1, len(words))
    cuts = itertools.chain.from_iterable(itertools.combinations(places, number) for number in places)
    return [[words[a:b] for a, b in itertools.pairwise((0, *cut, len(words)))] for cut in cuts]


def brute_force(shards, least: int) -> dict[tuple, tuple[int, float]]:
    counts = collections.Counter(
        tuple(text[first : first + number])
        for text in texts(shards)
        for number in range(1, 6)
        for first in range(len(text) - number + 1)
    )
    totals = collections.Counter()
    for words, count in counts.items():
        totals[len(words)] += count
    p = {words: count / totals[len(words)] for words, count in counts.items()}
    return {
        words: (count, min(math.log(p[words] / math.prod(map(p.get, parts))) for parts in divisions(words)))
        for words, count in counts.items()
        if len(words) > 1 and count >= least
    }


@pytest.mark.parametrize(("least", "memory_bytes", "block_tokens"), [(1, 10**8, 1 << 20), (3, 10**8, 50), (1, 9000, 1)])
def test_counts_and_pmi_are_those_of_a_brute_force(least, memory_bytes, block_tokens, tmp_path, monkeypatch):
    monkeypatch.setattr(collocation_counts, "BLOCK_TOKENS", block_tokens)
    found = ranked(Shards(corpus()), RULE, least, memory_bytes, tmp_path)
    expected = brute_force(corpus(), least)
    assert len(expected) > 30
    assert {collocation.words: collocation.count for collocation in found} == {
        words: count for words, (count, _) in expected.items()
    }
    for collocation in found:
        assert collocation.pmi == pytest.approx(expected[collocation.words][1], rel=1e-9, abs=1e-9)
    assert [collocation.pmi for collocation in found] == sorted((one.pmi for one in found), reverse=True)
    assert not list(tmp_path.iterdir())


def test_the_order_does_not_depend_on_memory(tmp_path, monkeypatch):
    whole = ranked(Shards(corpus()), RULE, 2, 10**8, tmp_path)
    monkeypatch.setattr(collocation_counts, "BLOCK_TOKENS", 7)
    assert ranked(Shards(corpus()), RULE, 2, 9000, tmp_path) == whole


def test_lines_have_the_spelling_of_each_word(tmp_path):
    found = ranked(Shards([[[8, 11, 9, 8, 11, 9]]]), RULE, 2, 10**8, tmp_path)
    line = next(iter(lines(found, {8: "mill", 11: "##er", 9: "'s"})))
    assert line["words"] == [["mill", "##er"], ["'s"]]
    assert json.dumps(line)


def test_without_text_there_are_none(tmp_path):
    assert ranked(Shards([[], [[]]]), RULE, 1, 10**8, tmp_path) == []
