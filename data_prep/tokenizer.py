"""The stage ``tokenizer``: one tokenizer.json, trained on the kept documents or a given file.

    unique/documents ── sample ──> BPE, WordPiece, words, characters ─┐
    256 bytes ────────────────────────────────────────────────────────┼──> tokenizer.json
    tokenizer.json ───────────────────────────────────────────────────┘

The kinds are in data_prep/tokenization. A tokenizer.json has a token that ends a document, as a special token.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, ClassVar

from headrace.data_prep.tokenization.encode import Encoder, parse
from headrace.data_prep.tokenization.given_tokenizer import GivenFile
from headrace.data_prep.tokenization.made_tokenizers import Made
from headrace.data_prep.tokenization.special_tokens import END_FIELD, TOKENIZER_CONFIG
from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.kinds import Kinds
from headrace.pipeline.core.stage import Inputs, Phase, RawFile, Stage

TOKENIZERS = Kinds(
    "tokenizer",
    Made | GivenFile,
    {
        "train": "headrace.data_prep.tokenization.made_tokenizers:Trained",
        "word": "headrace.data_prep.tokenization.made_tokenizers:Words",
        "character": "headrace.data_prep.tokenization.made_tokenizers:Characters",
        "byte": "headrace.data_prep.tokenization.made_tokenizers:Bytes",
        "bpe": "headrace.data_prep.tokenization.made_tokenizers:Bpe",
        "wordpiece": "headrace.data_prep.tokenization.made_tokenizers:WordPiece",
        "file": "headrace.data_prep.tokenization.given_tokenizer:GivenFile",
    },
)
TokenizerSettings = Annotated[Made | GivenFile, TOKENIZERS]
"""The kind and the origin of the tokenizer."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokenizer(Stage):
    """Makes ``tokenizer.json``; counts ``vocabulary`` and, if trained, ``sample_documents`` and ``sample_bytes``."""

    name: ClassVar[str] = "tokenizer"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[str, ...]] = ("unique",)
    headline: ClassVar[tuple[str, ...]] = ("vocabulary",)

    settings: TokenizerSettings
    special_tokens: tuple[str, ...] = ()
    """The tokens besides end of text that the objective of the run needs."""

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the given files and checks that they are a tokenizer with all ``special_tokens``.

        Raises:
            ConfigError: if a file is missing or has the wrong content.
        """
        files = self.settings.raw_files()
        if missing := self.settings.lacks(self.special_tokens):
            problem = f"tokenizer={self.settings.type} has no token {missing[0]!r}, which the objective needs"
            raise ConfigError("tokenizer", problem, "give one that has it, tokenizer=train, or another objective")
        return files

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("tokenizer", 1, self._run),)

    def _run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        counts: Counter[str] = Counter()
        text = self.settings.build(inputs["unique"], counts, self.special_tokens)
        with out.file("tokenizer.json") as path:
            path.write_text(text, encoding="utf-8")
        end = self.settings.named_end() if isinstance(self.settings, GivenFile) else None
        if end is not None:
            with out.file(TOKENIZER_CONFIG) as path:
                path.write_text(json.dumps({END_FIELD: end, "eos_token": end}, ensure_ascii=False), encoding="utf-8")
        counts["vocabulary"] = Encoder(parse(text, self.name, end), end=end).vocabulary_size
        return counts
