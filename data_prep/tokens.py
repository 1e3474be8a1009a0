"""The stage ``tokens``: writes each shard of ``unique`` as a flat shard of token ids, with the bounds of its documents.

    documents/00007.jsonl.zst      doc 0          doc 1     doc 2
    tokens/00007.bin            E  t t t t t   E  t t    E  t t t   E        E = end of text
    bounds/00007.npy            0              6         9          13       index of the E before each document
    text_bytes/00007.npy           21             8         12               UTF-8 bytes of each text
    keys/00007.npy                 key            key       key              hash of each id, which decides its split

One E ends a document and begins the next. So document i is predicted at ``bounds[i+1] - bounds[i]`` positions, from its
first token to the E after it. Only E separates documents, and no text encodes to E.
"""

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, ClassVar

import numpy as np

from headrace.data_prep.document import read_documents
from headrace.data_prep.shuffle.records import save_array
from headrace.data_prep.tokenization.encode import Encoder, batches
from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.core.artifact import Balance, TaskOutput
from headrace.pipeline.core.stage import Inputs, Phase, Stage


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokens(Stage):
    """Encodes the documents of each shard.

    Counts ``documents``, ``tokens`` (all stored ones) and ``text_bytes``. ``slowly_encoded`` counts the documents that
    the tokenizers library encoded, if gigatoken cannot be used with this tokenizer.
    """

    name: ClassVar[str] = "tokens"
    inputs: ClassVar[tuple[str, ...]] = ("unique", "tokenizer")

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

        with out.shard("tokens", "bin") as path, path.open("wb") as stream:
            bounds = write_tokens(stream, encoder, texts(inputs["unique"].shard("documents", task, "jsonl.zst")))
        columns = {"bounds": (bounds, "<u8"), "text_bytes": (text_bytes, "<u4"), "keys": (keys, "<u8")}
        for kind, (values, dtype) in columns.items():
            with out.shard(kind, "npy") as path:
                save_array(path, np.array(values, dtype=dtype))
        counts = Counter(documents=len(keys), tokens=bounds[-1] + 1, text_bytes=sum(text_bytes))
        if encoder.slow_because is not None:
            counts["slowly_encoded"] = len(keys)
        return counts


def write_tokens(stream: BinaryIO, encoder: Encoder, texts: Iterator[str]) -> list[int]:
    """Writes the ids of ``texts`` with end of text before, between and after them.

    Returns:
        The index of each end of text, (number of texts + 1,).
    """
    end_of_text = np.array([encoder.end_of_text], dtype=encoder.dtype).tobytes()
    stream.write(end_of_text)
    bounds = [0]
    for batch in batches(texts):
        for ids in encoder.encode(batch):
            stream.write(ids.tobytes() + end_of_text)
            bounds.append(bounds[-1] + len(ids) + 1)
    return bounds
