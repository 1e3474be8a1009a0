"""A sample of documents by a hash of their ids, so that neither shards nor their order decide which ones are in it."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from headrace.data_prep.document import read_documents
from headrace.data_prep.tokenization.shards import key_of

READ_FACTOR = 4
"""Compressed bytes of the document shards from which a sample is drawn, as a multiple of the sample's bytes."""


def text_sample(shards: Sequence[Path], sample_bytes: int, counts: "Counter[str]") -> Iterator[str]:
    """Yields the texts whose ids have the smallest keys, up to ``sample_bytes``; counts documents and bytes."""
    chosen = shards_to_read(shards, sample_bytes)
    documents = (document for shard in chosen for document in read_documents(shard))
    sizes = ((key_of("sample", document.id), len(document.text.encode())) for document in documents)
    table = np.sort(np.fromiter(sizes, dtype=[("key", "<u8"), ("bytes", "<i8")]))
    wanted = int(np.searchsorted(np.cumsum(table["bytes"]), sample_bytes)) + 1
    last_key = int(table["key"][:wanted].max(initial=0))
    for document in (document for shard in chosen for document in read_documents(shard)):
        if key_of("sample", document.id) <= last_key:
            counts["sample_documents"] += 1
            counts["sample_bytes"] += len(document.text.encode())
            yield document.text


def shards_to_read(shards: Sequence[Path], sample_bytes: int) -> list[Path]:
    """Returns as many of the ``shards`` as a sample of ``sample_bytes`` is drawn from, in the order of a hash."""
    ordered = sorted(shards, key=lambda path: key_of("sample", path.name))
    before = itertools.accumulate((shard.stat().st_size for shard in ordered), initial=0)
    return [shard for shard, size in zip(ordered, before, strict=False) if size < READ_FACTOR * sample_bytes]
