"""A small tokenizer of each kind, trained on real text in 75 languages. Each is trained once in a process."""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

from headrace.data_prep.tokenization.made_tokenizers import Bpe, Bytes, Characters, Sampled, Trained, WordPiece, Words
from tests.unique_documents import json_texts

KINDS: dict[str, Sampled | Bytes] = {
    "train": Trained(vocabulary_size=600, special_tokens="roberta"),
    "byte": Bytes(special_tokens="t5"),
    "word": Words(vocabulary_size=1000),
    "character": Characters(vocabulary_size=400, special_tokens="bert"),
    "bpe": Bpe(vocabulary_size=1000, alphabet_size=300),
    "bpe without bytes": Bpe(vocabulary_size=1000, alphabet_size=300, byte_fallback=False, special_tokens="t5"),
    "wordpiece": WordPiece(vocabulary_size=1000, alphabet_size=300, special_tokens="bert"),
    "wordpiece cased": WordPiece(vocabulary_size=1000, alphabet_size=300, lower_case=False),
}


@functools.cache
def sentences(folder: Path) -> list[str]:
    """Returns real sentences in many languages."""
    return json_texts(folder / "sentences_75_languages.jsonl.zst", 74_141)[::150]


@functools.cache
def _trained(name: str, folder: Path) -> str:
    kind = KINDS[name]
    if isinstance(kind, Sampled):
        return kind.train(sentences(folder))
    return kind.make()


def trained(name: str, data_folder: Callable[[str], Path]) -> str:
    """Returns the tokenizer.json of the kind ``name``; ``data_folder`` is the fixture."""
    return _trained(name, data_folder("language"))


def digests(data_folder: Callable[[str], Path]) -> dict[str, str]:
    """Returns the SHA-256 of the tokenizer.json of each kind."""
    return {name: hashlib.sha256(trained(name, data_folder).encode()).hexdigest() for name in KINDS}
