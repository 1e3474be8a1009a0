"""Measures packing: speed, documents that are split although they fit a row, padding. Prints one JSON line.

    python -m benchmarks.data.packing DOCUMENTS.jsonl.zst [row_tokens [documents [tokenizer.json]]]

Reads the field ``text`` of JSON lines (zstd), takes the length of each in tokens of the tokenizer.json, or a quarter of
its UTF-8 bytes without one, draws ``documents`` lengths from them with replacement (seed 0) and packs them:

    best_fit               the stage's, by counting lengths: best fit decreasing
    concatenate            the stage's other method, GPT's: one after the other, cut wherever a row ends
    padded                 the stage's third method: one document in a row, the rest is padding
    one_by_one             best fit decreasing as in "Fewer Truncations" (Ding et al., ICML 2024): one piece after
                           another into the row with the least free space that holds it; plain Python
    cut_in_a_loop          concatenate and cut as scripts do it, one document after another; plain Python

The plain ones only count; ours make the index. Rates: documents a second of CPU time. ``avoidable_splits``: documents
no longer than a row that lie in several.
"""

import json
import sys
import time
from bisect import bisect_left, insort
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson

from headrace.data_prep.packed import METHODS
from headrace.data_prep.tokenization.encode import Encoder, batches
from headrace.data_prep.tokenization.packing import SPAN, split_documents
from headrace.pipeline.core.text_files import read_lines


def main(path: str, row_tokens: str = "2048", documents: str = "1000000", tokenizer: str | None = None) -> None:
    texts = (orjson.loads(line)["text"] for line in read_lines(Path(path)))
    if tokenizer:
        encoder = Encoder.load(Path(tokenizer))
        lengths = [len(ids) + 1 for batch in batches(texts) for ids in encoder.encode(batch)]
    else:
        lengths = [len(text.encode()) // 4 + 1 for text in texts]
    drawn = np.random.default_rng(0).choice(np.array(lengths), int(documents))
    longer = float((drawn > int(row_tokens)).mean())
    result = {"documents": len(drawn), "row_tokens": int(row_tokens), "longer_than_a_row_fraction": round(longer, 4)}
    result |= {method: measure(method, drawn, int(row_tokens)) for method in METHODS}
    result |= {plain.__name__: measure_plain(plain, drawn, int(row_tokens)) for plain in (one_by_one, cut_in_a_loop)}
    print(json.dumps({"benchmark": "packing"} | result))


def measure(method: str, lengths: np.ndarray, row_tokens: int) -> dict[str, float]:
    whole = np.zeros(len(lengths), dtype=SPAN)
    whole["length"] = lengths
    whole["start"] = np.cumsum(lengths) - lengths
    start = time.process_time()
    spans, offsets = METHODS[method](whole, row_tokens)
    seconds = time.process_time() - start
    split = split_documents(whole, spans)
    return summary(lengths, row_tokens, seconds, split, len(offsets) - 1)


def measure_plain(
    pack: Callable[[list[int], int], tuple[int, int]], lengths: np.ndarray, row_tokens: int
) -> dict[str, float]:
    start = time.process_time()
    split, rows = pack(lengths.tolist(), row_tokens)
    return summary(lengths, row_tokens, time.process_time() - start, split, rows)


def summary(lengths: np.ndarray, row_tokens: int, seconds: float, split: int, rows: int) -> dict[str, float]:
    return {
        "documents_per_cpu_second": round(len(lengths) / seconds),
        "split_documents_fraction": round(split / len(lengths), 4),
        "avoidable_splits": split - int((lengths > row_tokens).sum()),
        "padding_fraction": 1 - int(lengths.sum()) / (row_tokens * rows),
    }


def one_by_one(lengths: list[int], row_tokens: int) -> tuple[int, int]:
    """The number of split documents and of rows."""
    pieces = [length % row_tokens for length in lengths if length % row_tokens]
    rows = sum(length // row_tokens for length in lengths)
    free_spaces: list[int] = []
    for piece in sorted(pieces, reverse=True):
        at = bisect_left(free_spaces, piece)
        if at == len(free_spaces):
            rows += 1
            free = row_tokens
        else:
            free = free_spaces.pop(at)
        insort(free_spaces, free - piece)
    return sum(length > row_tokens for length in lengths), rows


def cut_in_a_loop(lengths: list[int], row_tokens: int) -> tuple[int, int]:
    """The number of split documents and of rows."""
    split, end = 0, 0
    for length in lengths:
        split += end // row_tokens != (end + length - 1) // row_tokens
        end += length
    return split, -(-end // row_tokens)


if __name__ == "__main__":
    main(*sys.argv[1:])
