"""The stage ``tokens``: writes each shard of ``unique`` as a flat shard of token ids, with the bounds of its documents.

    documents/00007.jsonl.zst      doc 0          doc 1     doc 2
    tokens/00007.bin            E  t t t t t   E  t t    E  t t t   E        E = end of text
    bounds/00007.npy            0              6         9          13       index of the E before each document
    text_bytes/00007.npy           21             8         12               UTF-8 bytes of each text
    keys/00007.npy                 key            key       key              hash of each id, which decides its split
    token_bytes/00007.bin       0  4 3 5 2 7   0  …                          UTF-8 bytes of each token, up to 255
    long_tokens/00007.npy          (offset, rest), …                         the rest of those that have more

The last two are written only for a tokenizer whose tokens do not always stand for the same bytes (encode.py).

One E ends a document and begins the next. So document i is predicted at ``bounds[i+1] - bounds[i]`` positions, from its
first token to the E after it. Only E separates documents, and no text encodes to E.
"""

import contextlib
import dataclasses
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.document import read_documents
from headrace.data_prep.shuffle.records import save_array
from headrace.data_prep.tokenization.encode import Encoder, batches
from headrace.data_prep.tokenization.shards import LONG_TOKEN, MOST_BYTES, key_of
from headrace.pipeline.core.artifact import Balance, TaskOutput
from headrace.pipeline.core.stage import Inputs, Phase, Stage


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokens(Stage):
    """Encodes the documents of each shard.

    Counts ``documents``, ``tokens`` (all stored ones) and ``text_bytes``; ``unknown_tokens`` if there are any.
    ``slowly_encoded`` counts the documents that the tokenizers library encoded, if gigatoken cannot be used with this
    tokenizer.
    """

    name: ClassVar[str] = "tokens"
    inputs: ClassVar[tuple[str, ...]] = ("unique", "tokenizer")
    headline: ClassVar[tuple[str, ...]] = ("documents", "tokens")
    card_counts: ClassVar[Mapping[str, str]] = {"tokens": "tokens"}
    describes_documents: ClassVar[bool] = True

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("tokens", shards["unique"], self._run),)

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        unique = inputs["unique"].counts
        yield "documents = kept of unique", counts["documents"], unique["kept"]
        yield "text_bytes = bytes of unique", counts["text_bytes"], unique["bytes"]

    def _run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        encoder = Encoder.load(inputs["tokenizer"].path("tokenizer.json"))
        if encoder.slow_because is not None:
            print(f"tokens: encoding with the slow tokenizers library: {encoder.slow_because}", file=sys.stderr)
        keys: list[int] = []
        text_bytes: list[int] = []

        def texts(path: Path) -> Iterator[str]:
            for document in read_documents(path):
                keys.append(key_of("split", document.id))
                text_bytes.append(len(document.text.encode()))
                yield document.text

        documents = texts(inputs["unique"].shard("documents", task, "jsonl.zst"))
        with contextlib.ExitStack() as files:
            kinds = ["tokens"] if encoder.token_bytes is not None else ["tokens", "token_bytes"]
            paths = [files.enter_context(out.shard(kind, "bin")) for kind in kinds]
            written = write_tokens(encoder, documents, *(files.enter_context(path.open("wb")) for path in paths))
        columns = {
            "bounds": np.array(written.bounds, dtype="<u8"),
            "text_bytes": np.array(text_bytes, dtype="<u4"),
            "keys": np.array(keys, dtype="<u8"),
        }
        if encoder.token_bytes is None:
            columns["long_tokens"] = np.array(written.long_tokens, dtype=LONG_TOKEN)
        for kind, values in columns.items():
            with out.shard(kind, "npy") as path:
                save_array(path, values)
        counts = Counter(documents=len(keys), tokens=written.bounds[-1] + 1, text_bytes=sum(text_bytes))
        if written.unknown_tokens:
            counts["unknown_tokens"] = written.unknown_tokens
        if encoder.slow_because is not None:
            counts["slowly_encoded"] = len(keys)
        return counts


@dataclasses.dataclass
class WrittenShard:
    """A shard of tokens after it was written."""

    bounds: list[int]
    """The index of each end of text, (documents + 1)."""
    long_tokens: list[tuple[int, int]]
    """Index of each token of more than MOST_BYTES bytes, and its number of bytes beyond them."""
    unknown_tokens: int


def write_tokens(
    encoder: Encoder, texts: Iterator[str], stream: BinaryIO, bytes_stream: BinaryIO | None = None
) -> WrittenShard:
    """Writes the ids of ``texts`` with end of text before, between and after them.

    Args:
        encoder: makes the ids.
        texts: the documents.
        stream: receives the ids.
        bytes_stream: receives the number of UTF-8 bytes of each token, as uint8. None if the encoder has a table.
    """
    end_of_text = np.array([encoder.end_of_text], dtype=encoder.dtype).tobytes()
    stream.write(end_of_text)
    if bytes_stream is not None:
        bytes_stream.write(bytes(1))
    written = WrittenShard(bounds=[0], long_tokens=[], unknown_tokens=0)
    for batch in batches(texts):
        for ids, bytes_of in _encoded(encoder, batch, bytes_stream is not None):
            first = written.bounds[-1] + 1
            stream.write(ids.tobytes() + end_of_text)
            written.bounds.append(first + len(ids))
            written.unknown_tokens += 0 if encoder.unknown is None else int((ids == encoder.unknown).sum())
            if bytes_stream is not None and bytes_of is not None:
                bytes_stream.write(np.minimum(bytes_of, MOST_BYTES).astype(np.uint8).tobytes())
                long = np.flatnonzero(bytes_of > MOST_BYTES)
                written.long_tokens += zip((first + long).tolist(), (bytes_of[long] - MOST_BYTES).tolist(), strict=True)
    return written


def _encoded(
    encoder: Encoder, texts: list[str], with_bytes: bool
) -> Iterable[tuple[NDArray[Any], NDArray[np.int64] | None]]:
    """Returns the ids of each text, and the bytes of its tokens if they are asked for."""
    return encoder.encode_with_bytes(texts) if with_bytes else ((ids, None) for ids in encoder.encode(texts))
