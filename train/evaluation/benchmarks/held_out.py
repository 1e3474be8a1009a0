"""Three benchmarks made from the run's own held-out documents; no file is needed.

    held_out_words       like LAMBADA: the last word of a passage that holds the word earlier, too
    held_out_sentences   like HellaSwag: the true next sentence against three of other documents, of similar length
    held_out_order       like BLiMP: a sentence against the same one with two neighbouring words exchanged

Rules make them from the documents' text. Items are sampled by SHA-256, so the same documents give the same items.
"""

import bisect
import dataclasses
import itertools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Literal

from headrace.pipeline.core.settings import Natural, Positive, settings
from headrace.train.evaluation.benchmarks.base import Benchmark, Item, Outcome, Sources
from headrace.train.evaluation.benchmarks.choices import (
    ChoiceScores,
    choice_item,
    word_metrics,
    word_outcome,
)
from headrace.train.evaluation.benchmarks.minimal_pairs import PairScores
from headrace.train.evaluation.held_out_documents import HeldOutDocument, sample, shuffle_key
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, Text

SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s+(?=[\"'(\[]?[A-Z])|\n+")
"""An end mark before a capital, or a line break."""
LAST_WORD = re.compile(r"(?P<before>.*\S) (?P<word>[A-Za-z]{4,})[.!?]", re.DOTALL)
EXCHANGEABLE = re.compile(r"[a-z]+")
"""Words without capitals and punctuation, which would show their position in the sentence."""
CANDIDATES = 64
"""Sentences drawn from other documents, of which the three nearest in length become the wrong choices."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeldOutBenchmark(Benchmark):
    """A benchmark of passages of held-out documents."""

    needs_run: ClassVar[bool] = True
    limit: Positive | None = 500
    """At most this many items."""
    context_words: Natural
    """The least number of words of a passage before the sentence in question."""
    per_document: Positive = 4
    """At most this many items from one document."""
    documents: Positive = 5000
    """At most this many documents are used."""

    def items(self, sources: Sources) -> list[Item]:
        candidates = [
            item
            for document in sample(sources.held_out_documents, self.documents)
            for item in self._first(self.items_of(document, sources.seed), self.per_document)
        ]
        return self._first(candidates, self.limit, sources.seed)

    def items_of(self, document: HeldOutDocument, seed: str) -> Iterator[Item]:
        """Yields the items that ``document`` has."""
        raise NotImplementedError

    def _first(self, items: Iterable[Item], limit: int | None, *seed: str) -> list[Item]:
        return sorted(items, key=lambda item: shuffle_key(*seed, *_texts(item)))[:limit]


@settings
class HeldOutWords(HeldOutBenchmark):
    """The prediction of a sentence's last word, which the passage holds earlier, too."""

    type: Literal["held_out_words"] = "held_out_words"
    sentence: ClassVar[str] = "The last word of a held-out passage that holds the word earlier, too."
    context_words: Natural = 40
    """The least number of words of a passage before the last sentence."""

    def items_of(self, document: HeldOutDocument, seed: str) -> Iterator[Item]:
        for start, context, sentence in passages(document.text, self.context_words):
            match = LAST_WORD.fullmatch(sentence)
            if match is not None and match["word"] in re.findall(r"\w+", context):
                query = Text(context + match["before"], " " + match["word"])
                yield Item(f"{document.name}@{start}", (query,), (match["word"],))

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        return word_outcome(answers)

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        return word_metrics(outcomes, vocabulary)


@settings
class HeldOutSentences(ChoiceScores, HeldOutBenchmark):
    """The choice of the true next sentence among four."""

    type: Literal["held_out_sentences"] = "held_out_sentences"
    sentence: ClassVar[str] = "The true next sentence of a held-out passage, of four."
    context_words: Natural = 30
    """The least number of words of a passage before the sentence in question."""

    def items(self, sources: Sources) -> list[Item]:
        pool: list[Passage] = []
        for document in sample(sources.held_out_documents, self.documents):
            of_document = [
                Passage(document.name, start, context, sentence)
                for start, context, sentence in passages(document.text, self.context_words)
                if 5 <= len(sentence.split()) <= 40 and sentence[-1] in ".!?"
            ]
            pool += sorted(of_document, key=lambda passage: passage.key())[: self.per_document]
        pool.sort(key=lambda passage: passage.key(sources.seed))
        items = (self._item(passage, pool, sources.seed) for passage in pool[: self.limit])
        return [item for item in items if item is not None]

    def _item(self, passage: "Passage", pool: Sequence["Passage"], seed: str) -> Item | None:
        generator, right = random.Random(passage.key(seed)), passage.sentence
        drawn = generator.sample(pool, min(CANDIDATES, len(pool)))
        others = sorted({other.sentence for other in drawn if other.document != passage.document} - {right})
        nearest = sorted(others, key=lambda text: abs(len(text.encode()) - len(right.encode())))[:3]
        if len(nearest) < 3:
            return None
        choices = generator.sample([right, *nearest], 4)
        name = f"{passage.document}@{passage.start}"
        return choice_item(name, passage.context.rstrip(), choices, choices.index(right), " ")


@settings
class HeldOutOrder(PairScores, HeldOutBenchmark):
    """The choice of a sentence over the same sentence with two neighbouring words exchanged."""

    type: Literal["held_out_order"] = "held_out_order"
    sentence: ClassVar[str] = "The held-out sentence as it was written, not with two neighbouring words exchanged."
    context_words: Natural = 10
    """The least number of words of a passage before the sentence in question."""
    sentence_words: Positive = 6
    """The least number of words of a sentence."""

    def items_of(self, document: HeldOutDocument, seed: str) -> Iterator[Item]:
        for start, context, sentence in passages(document.text, self.context_words):
            words = sentence.split(" ")
            if len(words) < self.sentence_words or sentence[-1] not in ".!?":
                continue
            if other := exchanged(words, random.Random(shuffle_key(seed, context, sentence))):
                queries = (Text(context.rstrip(), f" {sentence}"), Text(context.rstrip(), f" {other}"))
                yield Item(f"{document.name}@{start}", queries, (sentence, other))


@dataclasses.dataclass(frozen=True)
class Passage:
    """A sentence of a document, from character ``start``, and the context before it."""

    document: str
    start: int
    context: str
    sentence: str

    def key(self, seed: str = "") -> bytes:
        return shuffle_key(seed, self.context, self.sentence)


def passages(text: str, context_words: int) -> Iterator[tuple[int, str, str]]:
    """Yields (start, context, sentence) for each sentence of ``text`` that has a context.

    The context is the fewest preceding sentences with ``context_words`` words, and the white space after them; the
    sentence has no white space at its ends.
    """
    starts = [0, *(match.end() for match in SENTENCE_END.finditer(text))]
    ends = [*starts[1:], len(text)]
    words = [0]
    for start, end in zip(starts, ends, strict=True):
        words.append(words[-1] + len(text[start:end].split()))
    for number in range(1, len(starts)):
        first = bisect.bisect_right(words, words[number] - context_words) - 1
        sentence = text[starts[number] : ends[number]].strip()
        if first >= 0 and sentence:
            yield starts[number], text[starts[first] : starts[number]], sentence


def exchanged(words: Sequence[str], generator: random.Random) -> str:
    """Returns the sentence of ``words`` with two neighbours exchanged; empty when it has no two that differ."""
    pairs = [
        index
        for index, (first, second) in enumerate(itertools.pairwise(words))
        if first != second and EXCHANGEABLE.fullmatch(first) and EXCHANGEABLE.fullmatch(second)
    ]
    if not pairs:
        return ""
    index = generator.choice(pairs)
    return " ".join([*words[:index], words[index + 1], words[index], *words[index + 2 :]])


def _texts(item: Item) -> Iterator[str]:
    for query in item.queries:
        if isinstance(query, Text):
            yield from (query.context, query.continuation)
