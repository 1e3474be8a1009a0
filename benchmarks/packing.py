"""How fast documents are packed, how many of them are split, and how much of the rows is padding.

    python benchmarks/packing.py DOCUMENTS.jsonl.zst [row_tokens [documents [tokenizer.json]]]

Reads the field ``text`` of JSON lines (zstd), takes the length of each in tokens of the tokenizer.json, or a quarter of
its UTF-8 bytes without one, draws ``documents`` lengths from them with replacement (seed 0), packs them by both methods
and prints one line of JSON.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import orjson

from data_prep.document import read_lines
from data_prep.packed import METHODS
from data_prep.tokenization.encode import Encoder, batches
from data_prep.tokenization.packing import SPAN, split_documents


def main(path: str, row_tokens: str = "2048", documents: str = "1000000", tokenizer: str | None = None) -> None:
    texts = (orjson.loads(line)["text"] for line in read_lines(Path(path)))
    if tokenizer:
        encoder = Encoder.load(Path(tokenizer))
        lengths = [len(ids) + 1 for batch in batches(texts) for ids in encoder.encode(batch)]
    else:
        lengths = [len(text.encode()) // 4 + 1 for text in texts]
    drawn = np.random.default_rng(0).choice(np.array(lengths), int(documents))
    whole = np.zeros(len(drawn), dtype=SPAN)
    whole["length"] = drawn
    whole["start"] = np.cumsum(drawn) - drawn
    longer = float((drawn > int(row_tokens)).mean())
    result = {"documents": len(drawn), "row_tokens": int(row_tokens), "longer_than_a_row_fraction": round(longer, 4)}
    print(json.dumps(result | {method: measure(method, whole, int(row_tokens)) for method in METHODS}))


def measure(method: str, whole: np.ndarray, row_tokens: int) -> dict[str, float]:
    begin = time.perf_counter()
    spans, offsets = METHODS[method](whole, row_tokens)
    seconds = time.perf_counter() - begin
    return {
        "documents_per_second": round(len(whole) / seconds),
        "split_documents_fraction": round(split_documents(whole, spans) / len(whole), 4),
        "padding_fraction": 1 - int(whole["length"].sum(dtype=np.int64)) / (row_tokens * (len(offsets) - 1)),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
