"""The documents that the run held out from training, stored as spans of its own tokens.

    packed/spans/validation-00000.npy   (shard, start, length), ...
    tokens/bounds/00007.npy             where each document of a token shard begins
    tokens/tokens/00007.bin             EOT d d d EOT d d EOT …

A document is its spans in order. Each span's first token is given and all others are predicted, so each held-out token
is predicted exactly once, the end-of-text token after each document included.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.shards import TokenShards
from headrace.pipeline.core.artifact import Artifact


@dataclasses.dataclass(frozen=True, eq=False)
class HeldOutDocument:
    """One held-out document."""

    name: str
    """``<token shard>:<document>``, both from 0: the document with this number in this shard of ``unique``."""
    spans: tuple[np.ndarray, ...]
    """Tokens of each span: its inputs, and its last target."""
    text_bytes: int
    encoder: Encoder

    @property
    def tokens(self) -> np.ndarray:
        """All tokens, with the end-of-text tokens before and after the document."""
        return np.concatenate([self.spans[0][:1], *(span[1:] for span in self.spans)])

    @property
    def text(self) -> str:
        """The text, decoded from its tokens: byte-level BPE restores every byte."""
        return self.encoder.decode(self.tokens[1:-1])

    @property
    def key(self) -> bytes:
        """A pseudo-random sort key that depends on the tokens alone."""
        return hashlib.sha256(b"".join(span.tobytes() for span in self.spans)).digest()


class HeldOut:
    """The held-out documents of one run, read once."""

    def __init__(self, tokens: Artifact, packed: Artifact, encoder: Encoder) -> None:
        self.tokens, self.packed, self._encoder = tokens, packed, encoder
        self._shards = TokenShards(tokens)

    @functools.cached_property
    def documents(self) -> list[HeldOutDocument]:
        """All documents, in the order of their shards and numbers."""
        files = [path for path in self.packed.shards("spans") if path.name.startswith("validation-")]
        spans = np.concatenate([np.load(path) for path in files])
        spans = spans[np.lexsort((spans["start"], spans["shard"]))]
        return [
            document
            for shard in np.unique(spans["shard"]).tolist()
            for document in self._shard(shard, spans[spans["shard"] == shard])
        ]

    def _shard(self, shard: int, spans: np.ndarray) -> Iterator[HeldOutDocument]:
        bounds, text_bytes = self._shards.bounds(shard).astype(np.int64), self._shards.text_bytes(shard)
        owners = np.searchsorted(bounds, spans["start"].astype(np.int64), side="right") - 1
        for number in np.unique(owners).tolist():
            of_document = spans[owners == number].tolist()
            yield HeldOutDocument(
                name=f"{shard:05d}:{number}",
                spans=tuple(self._shards.slice(shard, start, start + length + 1) for _, start, length in of_document),
                text_bytes=int(text_bytes[number]),
                encoder=self._encoder,
            )


def sample(documents: Sequence[HeldOutDocument], limit: int | None) -> list[HeldOutDocument]:
    """Returns the ``limit`` documents with the smallest keys; sharding does not change the choice."""
    if limit is None or limit >= len(documents):
        return list(documents)
    return sorted(documents, key=lambda document: document.key)[:limit]


def shuffle_key(*parts: str) -> bytes:
    """Returns a pseudo-random sort key: SHA-256 of ``parts``."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
