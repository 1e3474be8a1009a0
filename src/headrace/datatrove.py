"""Blocks for pipelines of datatrove: the engines of Headrace as steps beside its own.

    from headrace.datatrove import Clean, Pii, Signature, Text, Tokens, Unique

    LocalPipelineExecutor([WarcReader("crawl"), Text(), Clean("fineweb"), Pii(), JsonlWriter("clean")], tasks=8)
    LocalPipelineExecutor([JsonlReader("clean"), Signature("signatures")], tasks=8)   then MinhashDedupBuckets, …

They are used like datatrove's: they can be pickled, name their statistics and the rules that dropped documents; filters
take an ``exclusion_writer``. What is compiled is compiled where the pipeline is built, not in each task.
"""

import types
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from datatrove.data import Document, DocumentsPipeline
from datatrove.io import get_datafolder
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature
from datatrove.pipeline.filters.base_filter import BaseFilter
from datatrove.pipeline.formatters.base import BaseFormatter
from datatrove.pipeline.tokens.tokenizer import DocumentTokenizer
from datatrove.utils.logging import logger
from datatrove.utils.typeshelper import StatHints
from numpy.typing import NDArray

from headrace.data_prep.dedup.minhash import permutations, signature
from headrace.data_prep.dedup.shingles import shingle_hashes
from headrace.pipeline.api.cleaner import PII, Cleaner, Rule, mask_pii
from headrace.pipeline.api.near_duplicates import near_duplicates
from headrace.pipeline.api.ready import TEXTS, ready
from headrace.pipeline.api.text import page
from headrace.pipeline.api.tokenizer import Tokenizer
from headrace.pipeline.core.errors import ConfigError

HASH_BITS = 32
"""The bits of a hash of ours."""
MERSENNE_BITS = 61
"""datatrove divides hashes of 64 bits among tasks as numbers below 2^61 - 1."""


class Text(BaseFilter):
    """Replaces the HTML of a document by its main text; drops pages without one. No sandbox: no page times out.

    ``options`` are those of ``headrace.text``. With ``facts``, what the page states goes to ``metadata["page"]``.
    """

    type = "🛢 - EXTRAC"
    name = "⛲ Headrace text"

    def __init__(self, facts: bool = False, exclusion_writer: Any = None, **options: Any) -> None:
        super().__init__(exclusion_writer)
        self.facts, self.options = facts, options
        page("", **options)
        ready("text")

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        """Returns True, or False with the rule that decided, as all filters of datatrove do."""
        verdict = page(doc.text, **self.options)
        if verdict.rule is not None:
            return False, verdict.rule
        doc.text = verdict.text
        doc.metadata |= verdict.metadata if self.facts else {}
        return True


class Clean(BaseFilter):
    """Applies a preset or rules, those of ``headrace.Cleaner``. Metadata has what they noted.

    Rules that compare all documents are left out, because a task sees its own documents only; the log names them.
    """

    def __init__(self, rules: str | Sequence[Rule] = "c4", exclusion_writer: Any = None) -> None:
        self.cleaner = Cleaner(rules)
        self.name = f"🧹 Headrace {rules if isinstance(rules, str) else ', '.join(self.cleaner.rules)}"
        super().__init__(exclusion_writer)
        if left_out := self.cleaner.global_rules:
            logger.warning(f"{self.name}: left out, because they compare all documents: {', '.join(left_out)}")
        self.cleaner(TEXTS[0])

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        """Returns True, or False with the rule that decided."""
        verdict = self.cleaner(doc.text, metadata=doc.metadata)
        doc.text, doc.metadata = verdict.text, dict(verdict.metadata)
        return True if verdict.rule is None else (False, verdict.rule)


class Pii(BaseFormatter):
    """Masks personal data. ``options`` are those of ``headrace.mask_pii``."""

    name = "🕶 Headrace PII"

    def __init__(self, kinds: Sequence[str] = PII, **options: Any) -> None:
        super().__init__()
        self.kinds, self.options = tuple(kinds), options
        self.format("")

    def format(self, text: str) -> str:
        """Returns ``text`` with personal data masked."""
        return mask_pii(text, self.kinds, **self.options)


class Signature(MinhashDedupSignature):
    """Writes MinHash signatures in the files of datatrove, for its MinhashDedupBuckets and what follows.

    Shingles are the words of ``headrace.signatures``, hashed with its permutations, by ``config`` (FineWeb's 14 buckets
    of 8 hashes without it). All tasks must have the same config, and no file of another step.
    """

    name = "🎯 Headrace signatures"

    def __init__(
        self, output_folder: Any, config: MinhashConfig | None = None, skip_existing_sigs: bool = False
    ) -> None:
        PipelineStep.__init__(self)  # that of the base class needs the package of a word tokenizer, spacy
        self.output_folder, self.config = get_datafolder(output_folder), config or MinhashConfig()
        self.num_hashes = self.config.num_buckets * self.config.hashes_per_bucket
        self.skip_existing_sigs = skip_existing_sigs
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


class Unique(PipelineStep):
    """Drops exact and near duplicates among the documents of a task, which memory holds; ``options`` are those of
    ``headrace.near_duplicates``. For more than one task, ``Signature`` and datatrove's next steps."""

    type = "🫂 - DEDUP"
    name = "🔂 Headrace unique"

    def __init__(self, threshold: float = 0.8, **options: Any) -> None:
        super().__init__()
        self.threshold, self.options = threshold, options
        near_duplicates((), threshold, **options)
        ready("near_duplicates")

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        """Yields the documents that stay, in their order."""
        documents = list(data)
        with self.track_time("task"):
            texts = [document.text for document in documents]
            removed = {link.removed: link for link in near_duplicates(texts, self.threshold, **self.options)}
        for number, document in enumerate(documents):
            self.stat_update(StatHints.total)
            if link := removed.get(number):
                kind = "exact" if texts[number] == texts[link.kept] else "near"
                self.stat_update(StatHints.dropped, f"dropped_{kind}_duplicate")
            else:
                self.stat_update(StatHints.forwarded)
                self.update_doc_stats(document)
                yield document


class Tokens(DocumentTokenizer):
    """Writes tokens in the files of datatrove's DocumentTokenizer, whose further ``options`` it takes.

    ``tokenizer`` is a tokenizer.json or its folder; its end of text follows each document, unless ``eos_token`` names
    another token. A special token's name in a text is text.
    """

    name = "✍️ Headrace tokens"

    def __init__(self, output_folder: Any, tokenizer: str, eos_token: str | None = None, **options: Any) -> None:
        if options.get("save_loss_metadata"):
            raise ConfigError("Tokens.save_loss_metadata", "is not known here", "use datatrove's DocumentTokenizer")
        super().__init__(output_folder, tokenizer, eos_token=eos_token, **options)
        self.encoder = Tokenizer(tokenizer)
        end = self.encoder.token_id(eos_token) if eos_token else self.encoder.end_of_text
        if eos_token and end is None:
            raise ConfigError("Tokens.eos_token", f"there is no token {eos_token!r}", "name another token")
        self.end = [] if end is None else [end]

    @property
    def tokenizer(self) -> Any:
        """What DocumentTokenizer asks its tokenizer for."""
        size = self.encoder.vocabulary_size
        return types.SimpleNamespace(encode_batch=self._encoded, get_vocab_size=lambda: size)

    def _encoded(self, texts: list[str]) -> list[types.SimpleNamespace]:
        return [types.SimpleNamespace(ids=ids.tolist() + self.end) for ids in self.encoder.encode(texts)]
