"""How well does the model predict a text? WikiText, Penn Treebank, enwik8, text8, One Billion Words: files as they are.

    file ── documents ── de-tokenizer ── tokens ──> windows, each token predicted once:

    non-overlapping       | E a b c d | d e f g h | h i       E: end of text; predicted: a b c d, e f g h, i
    stride_tokens: 2      | E a b c d | c d e f | e f g h     as much as fits before the next two

perplexity per unit = exp(nats of all tokens / units), bits per unit = nats / ln 2 / units. The units are counted in the
file as it is, whatever was de-tokenized and however it was cut into tokens: "scaled before exponentiation" (Radford et
al. 2019, §3.1; openai/gpt-2 issue 78). docs/gpt2_table.md says which choices give which published numbers.
"""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Natural, Positive, settings
from headrace.train.evaluation.benchmarks.base import FileBenchmark, Item, Outcome, Sources
from headrace.train.evaluation.detokenizers import DETOKENIZERS
from headrace.train.evaluation.metrics import exponential, ratio
from headrace.train.evaluation.records import read_text
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, Tokens

Score = Literal["word_perplexity", "token_perplexity", "byte_perplexity", "bits_per_byte", "bits_per_character"]
UNITS = {
    "word_perplexity": "words",
    "token_perplexity": "tokens",
    "byte_perplexity": "bytes",
    "bits_per_byte": "bytes",
    "bits_per_character": "characters",
}
WHERE = "evaluation.benchmarks"
DIRTY_SHARE = 0.2
"""So much of an article's n-grams may be in training documents, and it is clean: the bound that LLaMA 2 has for tokens
(Touvron et al. 2023, §A.6), over the rate that GPT-2 has for whole sets (Radford et al. 2019, §4)."""


@settings
class LanguageModelling(FileBenchmark[str]):
    """Perplexity, or bits per byte, of raw text."""

    type: Literal["language_modelling"] = "language_modelling"
    scores: tuple[Score, ...] = ("word_perplexity", "token_perplexity", "bits_per_byte")
    """What is told, the main one first."""
    documents: Literal["file", "article", "line"] = "file"
    """What follows an end-of-text token of its own: a file, an article of WikiText, a line."""
    detokenizer: Literal["none", "wikitext", "penn_treebank", "one_billion_words", "lm_eval_wikitext"] = "none"
    """How words that were cut apart become text; all but lm_eval_wikitext can be undone."""
    words: Literal["with_line_ends", "lm_eval"] = "with_line_ends"
    """What a word is: between white space, each line's end being one more, as papers count WikiText and Penn Treebank;
    or every part between white space, empty ones at the ends of a document too (lm-evaluation-harness's wikitext)."""
    stride_tokens: Positive | None = None
    """So many tokens are predicted by each window but a document's first; None: as many as the window has."""
    from_byte: Natural = 0
    """Where the text begins in each file."""
    to_byte: Positive | None = None
    """Where it ends; None takes the rest."""

    def __post_init__(self) -> None:
        if not self.scores:
            raise ConfigError(WHERE, "scores is empty", f"name some of {', '.join(UNITS)}")
        if self.to_byte is not None and self.to_byte <= self.from_byte:
            wrong = f"bytes {self.from_byte} to {self.to_byte} are no part of a file"
            raise ConfigError(WHERE, wrong, "give a to_byte above from_byte")

    @property
    def reading(self) -> str:
        """A file that is not cut into documents is not searched for: its windows depend on the tokenizer."""
        cut = f"{self.documents}, {self.detokenizer}, bytes {self.from_byte} to {self.to_byte}"
        return "" if self.documents == "file" else f"{self.type} ({cut})"

    @property
    def dirty_share(self) -> float:
        """Of an article; a line is dirty by one n-gram."""
        return DIRTY_SHARE if self.documents == "article" else 0.0

    def texts(self, parsed: Sequence[str]) -> list[tuple[str, ...]]:
        """Each document, de-tokenized: as it would stand elsewhere."""
        return [(DETOKENIZERS[self.detokenizer](document),) for document in parsed]

    def read(self, data: Path) -> list[tuple[str, str]]:
        """(name, text as it is in the file) of each document."""
        return [
            (f"{Path(path).name}:{number}", document)
            for path in self.paths
            for number, document in enumerate(self._documents(data / path), start=1)
            if document.strip()
        ]

    def _documents(self, path: Path) -> list[str]:
        text = read_text(path, self.from_byte, self.to_byte)
        if self.documents == "article":
            return articles(text)
        return re.findall(".*\n|.+", text) if self.documents == "line" else [text]

    def items(self, sources: Sources) -> list[Item]:
        """One for each document; where a file is one, for each window."""
        named = self.read(sources.data)
        texts = self.texts([document for _, document in named])
        encoded = sources.text_encoder.encode([text for (text,) in texts])
        items = (
            item
            for (name, document), ids in zip(named, encoded, strict=True)
            for item in self._items(name, document, ids, sources)
        )
        return list(items)[: self.limit]

    def _items(self, name: str, document: str, ids: np.ndarray, sources: Sources) -> Iterator[Item]:
        sizes = {"words": self._words(document), "bytes": len(document.encode()), "characters": len(document)}
        queries = windows(ids, sources.text_encoder.end_of_text, sources.window_tokens, self.stride_tokens)
        if self.documents != "file":
            yield Item(name, tuple(queries), sizes=sizes)
            return
        start = 0
        for query in queries:
            share = len(query.continuation) / len(ids)
            yield Item(f"{name}@{start}", (query,), sizes={unit: size * share for unit, size in sizes.items()})
            start += len(query.continuation)

    def _words(self, document: str) -> int:
        if self.words == "lm_eval":
            return len(re.split(r"\s+", document))
        return len(document.split()) + document.count("\n")

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        nats = -math.fsum(answer.log_likelihood for answer in answers)
        return {"nats": nats, "tokens": sum(answer.tokens for answer in answers), **item.sizes}

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """``scores``; documents, or the windows of files, are the unit of the errors."""
        return [_metric(name, outcomes, vocabulary) for name in self.scores]


def _metric(name: Score, outcomes: Sequence[Outcome], vocabulary: int) -> Metric:
    units = [outcome[UNITS[name]] for outcome in outcomes]
    uniform_nats = math.log(vocabulary) * math.fsum(outcome["tokens"] for outcome in outcomes) / math.fsum(units)
    nats = [outcome["nats"] for outcome in outcomes]
    if name.startswith("bits"):
        return ratio(name, [value / math.log(2) for value in nats], units, uniform_nats / math.log(2))
    return exponential(ratio(name, nats, units, None), name, math.exp(min(uniform_nats, 709.0)))


def articles(text: str) -> list[str]:
    """The articles of WikiText, which begin with a line ``= Title =``, as lm-evaluation-harness's wikitext has them."""
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _is_title(line)]
    bounds = [0, *(start for start in starts if start), len(lines)]
    return ["\n".join(lines[start:end]) for start, end in pairwise(bounds)]


def _is_title(line: str) -> bool:
    """One = at each end: ``= = Section = =`` is none."""
    return bool(re.fullmatch(r"\s*= (?!= ).* =\s*", line))


def windows(ids: np.ndarray, end_of_text: int, window_tokens: int, stride_tokens: int | None) -> Iterator[Tokens]:
    """Queries that predict each of ``ids`` once, the first of them after ``end_of_text``.

    The windows of lm-evaluation-harness (lm_eval/utils.py, get_rolling_token_windows): the first predicts as much as
    fits, each other one ``stride_tokens`` after as much as fits before them; for None the window's, after one token.
    """
    whole = np.concatenate([[end_of_text], ids])
    stride = min(stride_tokens or window_tokens, window_tokens)
    starts = [1, *range(1 + window_tokens, len(whole), stride)]
    for start, end in pairwise([*starts, len(whole)]):
        yield Tokens(whole[max(0, end - window_tokens - 1) : start], whole[start:end])
