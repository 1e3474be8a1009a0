"""Blocks for pipelines of datatrove: the engines of Headrace as steps beside its own.

    from headrace.datatrove import Clean, Pii, Signature, Text, Tokens, Unique

    LocalPipelineExecutor([WarcReader("crawl"), Text(), Clean("fineweb"), Pii(), JsonlWriter("clean")], tasks=8)
    LocalPipelineExecutor([JsonlReader("clean"), Signature("signatures")], tasks=8)   then MinhashDedupBuckets, …

They are used like datatrove's: they can be pickled, name their statistics and the rules that dropped documents; filters
take an ``exclusion_writer``. What is compiled is compiled where the pipeline is built, not in each task.
"""

import sys
import types
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from datatrove.data import Document
from datatrove.io import get_datafolder
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature
from datatrove.pipeline.filters.base_filter import BaseFilter
from datatrove.pipeline.tokens.tokenizer import DocumentTokenizer
from datatrove.utils.logging import logger
from numpy.typing import NDArray

from headrace.data_prep.dedup.minhash import permutations, signature
from headrace.data_prep.dedup.shingles import shingle_hashes
from headrace.pipeline.api.cleaner import PII, Cleaner, Rule
from headrace.pipeline.api.near_duplicates import near_duplicates
from headrace.pipeline.api.ready import TEXTS, ready
from headrace.pipeline.api.text import page
from headrace.pipeline.api.tokenizer import Tokenizer
from headrace.pipeline.api.verdict import Verdict
from headrace.pipeline.core.errors import ConfigError

HASH_BITS, MERSENNE_BITS = 32, 61
"""The bits of a hash of ours, and of datatrove's: it divides hashes among tasks as numbers below 2^61 - 1."""


Result = bool | tuple[bool, str]
"""What a filter of datatrove returns: True, or False with the rule that decided."""


def result_of(verdict: Verdict, doc: Document) -> Result:
    """Returns the ``verdict`` on ``doc``, which gets its text and notes if it stays."""
    if verdict.rule is not None:
        return False, verdict.rule
    doc.text, doc.metadata = verdict.text, {**doc.metadata, **verdict.metadata}
    return True


class Text(BaseFilter):
    """Replaces the HTML of a document by its main text; drops pages without one. No sandbox: no page times out.

    ``options`` are those of ``headrace.text``. ``metadata["page"]`` has what the page states.
    """

    type = "🛢 - EXTRAC"
    name = "⛲ Headrace text"

    def __init__(self, exclusion_writer: Any = None, **options: Any) -> None:
        super().__init__(exclusion_writer)
        self.options = options
        page("", **options)
        ready("text")

    def filter(self, doc: Document) -> Result:
        return result_of(page(doc.text, **self.options), doc)


class Clean(BaseFilter):
    """Applies a preset or rules, those of ``headrace.Cleaner``. Metadata has what they noted.

    Rules that compare all documents are left out, because a task sees its own documents only; the log names them.
    """

    def __init__(self, rules: str | Sequence[Rule] = "c4", exclusion_writer: Any = None) -> None:
        self.cleaner = Cleaner(rules)
        self.name = f"🧹 Headrace {rules if isinstance(rules, str) else ', '.join(self.cleaner.rules)}"
        super().__init__(exclusion_writer)  # names the statistics
        if left_out := self.cleaner.global_rules:
            logger.warning(f"{self.name}: left out, because they compare all documents: {', '.join(left_out)}")
        self.cleaner(TEXTS[0])

    def filter(self, doc: Document) -> Result:
        return result_of(self.cleaner._judged([Document(doc.text, doc.id, metadata={**doc.metadata})])[0], doc)


class Pii(Clean):
    """Masks personal data of ``kinds``, those of ``headrace.mask_pii``, and counts them."""

    def __init__(self, kinds: Sequence[str] = PII) -> None:
        super().__init__([{"type": "pii", "kinds": [{"type": kind} for kind in kinds]}])


class Signature(MinhashDedupSignature):
    """Writes MinHash signatures in the files of datatrove, for its MinhashDedupBuckets and what follows.

    Shingles are the words of ``headrace.signatures``, hashed with its permutations, by ``config`` (FineWeb's 14 buckets
    of 8 hashes without it). All tasks must have the same config, and no file of another step.
    """

    name = "🎯 Headrace signatures"

    def __init__(self, output_folder: Any, config: MinhashConfig | None = None) -> None:
        PipelineStep.__init__(self)  # that of the base class needs the package of a word tokenizer, spacy
        self.output_folder, self.config = get_datafolder(output_folder), config or MinhashConfig()
        self.num_hashes, self.skip_existing_sigs = self.config.num_buckets * self.config.hashes_per_bucket, False
        ready("signatures")

    @cached_property
    def hashers(self) -> NDArray[np.uint32]:
        """The multipliers and offsets of the hashes, (2, num_hashes)."""
        return permutations(self.num_hashes, self.config.seed)

    def get_shingles(self, text: str) -> NDArray[np.uint64]:
        """Returns the hashes of the shingles of ``text``, (n,); none for a text without words."""
        return shingle_hashes(text, self.config.n_grams)

    def get_signature(self, shingles: NDArray[np.uint64]) -> list[list[int]]:
        """Returns the hashes of each bucket, which keep their order and spread over the range of datatrove's."""
        spread = 0 if self.config.hash_config.precision == HASH_BITS else MERSENNE_BITS - HASH_BITS
        hashes = signature(shingles, self.hashers).astype(np.uint64) << np.uint64(spread)
        return hashes.reshape(self.config.num_buckets, -1).tolist()  # type: ignore[no-any-return]


class Unique(BaseFilter):
    """Drops exact and near duplicates among the documents of a task, which memory holds.

    ``options`` are those of ``headrace.near_duplicates``. For several tasks: ``Signature``, and datatrove's next steps.
    """

    type = "🫂 - DEDUP"
    name = "🔂 Headrace unique"

    def __init__(self, threshold: float = 0.8, exclusion_writer: Any = None, **options: Any) -> None:
        super().__init__(exclusion_writer, batch_size=sys.maxsize)
        self.options = {"threshold": threshold, **options}
        near_duplicates((), **self.options)
        ready("near_duplicates")

    def filter(self, doc: Document) -> Result:
        return self.filter_batch([doc])[0]

    def filter_batch(self, batch: list[Document]) -> list[Result]:
        results: list[Result] = [True] * len(batch)
        for removed, kept, _ in near_duplicates((document.text for document in batch), **self.options):
            is_exact = batch[removed].text == batch[kept].text
            results[removed] = False, "exact_duplicate" if is_exact else "near_duplicate"
        return results


class Tokens(DocumentTokenizer):
    """Writes tokens in the files of datatrove's DocumentTokenizer, whose further ``options`` it takes.

    ``tokenizer`` is a tokenizer.json or its folder; its end of text follows each document. A special token's name in a
    text is text.
    """

    name = "✍️ Headrace tokens"

    def __init__(self, output_folder: Any, tokenizer: str, **options: Any) -> None:
        if unknown := options.keys() & {"eos_token", "save_loss_metadata"}:
            raise ConfigError(f"Tokens.{min(unknown)}", "is not known here", "use datatrove's DocumentTokenizer")
        super().__init__(output_folder, tokenizer, **options)
        self.encoder = Tokenizer(tokenizer)

    @property
    def tokenizer(self) -> Any:
        """What DocumentTokenizer asks its tokenizer for."""
        size = self.encoder.vocabulary_size
        return types.SimpleNamespace(encode_batch=self._encoded, get_vocab_size=lambda: size)

    def _encoded(self, texts: list[str]) -> list[types.SimpleNamespace]:
        end = [] if self.encoder.end_of_text is None else [self.encoder.end_of_text]
        return [types.SimpleNamespace(ids=ids.tolist() + end) for ids in self.encoder.encode(texts)]
