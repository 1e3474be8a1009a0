"""Text that the model writes after a few beginnings, to be read.

    beginning of a held-out document ── greedily, and sampled with a fixed seed ──> two texts; the document's own text
    prompt                           ── greedily, and sampled with a fixed seed ──> two texts

The one number is the share of word 4-grams that a text repeats: seq-rep-4 of Welleck et al. 2020 ("Neural Text
Generation with Unlikelihood Training"), with words in place of tokens, so that models with different tokenizers
compare. Greedy text of a small model often repeats one phrase to its end.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.pipeline.core.settings import Natural, Positive, PositiveNumber, Seed, TextList, settings
from headrace.train.evaluation.benchmarks.base import Benchmark, Item, Outcome, Sources, column
from headrace.train.evaluation.held_out_documents import HeldOutDocument
from headrace.train.evaluation.metrics import mean, within_shares
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.growing_text import UNKNOWN
from headrace.train.inference.queries import Generate, TextEncoder, Written
from headrace.train.inference.settings import Sampling

GREEDY, SAMPLED = "repeated_4grams (greedy)", "repeated_4grams (sampled)"
NGRAM_WORDS = 4


@settings
class Continuations(Benchmark):
    """Text that the model writes after held-out beginnings and plain prompts."""

    revision: ClassVar[int] = 1
    """1 since special tokens are no part of what is written."""
    type: Literal["continuations"] = "continuations"
    documents: Natural = 4
    """Beginnings of this many held-out documents; a model that no run made gets the prompts only."""
    beginning_tokens: Positive = 40
    """The model reads this many tokens of a document at most, up to the end of a word."""
    prompts: TextList = ("Once upon a time", "The most important")
    """Texts of one's own to continue."""
    max_tokens: Positive = 40
    """The most tokens of a text that the model writes."""
    temperature: PositiveNumber = 0.8
    """Divides the logits of the sampled text."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    """The sampled text takes only the fewest tokens whose probabilities sum to at least this."""
    seed: Seed = 0
    """Decides the sampled text: ``headrace generate --seed`` with the same prompt and settings writes the same text."""

    def items(self, sources: Sources) -> list[Item]:
        documents = [
            self._item(document, sources.text_encoder) for document in self._long_enough(sources)[: self.documents]
        ]
        prompts = [Item(f"prompt:{number}", self._queries(text)) for number, text in enumerate(self.prompts, 1)]
        return [*documents, *prompts][: self.limit]

    def _long_enough(self, sources: Sources) -> list[HeldOutDocument]:
        """Returns the held-out documents that have a beginning and as much text after it as the model writes."""
        least = self.beginning_tokens + self.max_tokens
        documents = sources.held_out.documents if sources.held_out else []
        return sorted(
            (document for document in documents if len(document.tokens) >= least + 2), key=lambda document: document.key
        )

    def _item(self, document: HeldOutDocument, encoder: TextEncoder) -> Item:
        """Returns the item of ``document``. Its only choice is the document's own text, of the model's length."""
        text, read = document.text, document.encoder.decode(document.tokens[1 : 1 + self.beginning_tokens])
        words = re.match(r"(.*\S)\s", read, re.DOTALL)
        beginning = words[1] if words else read.rstrip(UNKNOWN)
        ids = encoder.encode([text[len(beginning) :]])[0][: self.max_tokens].tolist()
        return Item(document.name, self._queries(beginning), (encoder.decode(ids).rstrip(UNKNOWN),))

    def _queries(self, beginning: str) -> tuple[Generate, Generate]:
        greedy = Sampling(max_tokens=self.max_tokens)
        sampled = dataclasses.replace(greedy, temperature=self.temperature, top_p=self.top_p, seed=self.seed)
        return Generate(beginning, greedy), Generate(beginning, sampled)

    def outcome(self, item: Item, answers: Sequence[Written]) -> Outcome:
        greedy, sampled = answers
        return {GREEDY: repeated_share(greedy.text), SAMPLED: repeated_share(sampled.text)}

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the mean share of repeated 4-grams of greedy and of sampled texts."""
        shares = {name: column(outcomes, name) for name in (GREEDY, SAMPLED)}
        return [within_shares(mean(name, values, None)) for name, values in shares.items()]


def repeated_share(text: str) -> float:
    """Returns the share of the word 4-grams of ``text`` that came earlier in it; 0 for a text of fewer words."""
    words = text.split()
    ngrams = [tuple(words[start : start + NGRAM_WORDS]) for start in range(len(words) - NGRAM_WORDS + 1)]
    return 1 - len(set(ngrams)) / len(ngrams) if ngrams else 0.0
