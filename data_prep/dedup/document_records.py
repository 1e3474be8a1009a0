"""Brings the sorted records about documents together with the documents, one document in memory at a time."""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from datatrove.data import Document

from headrace.data_prep.dedup.corpus import Corpus, Numbers, numbers_of, rows_of
from headrace.data_prep.document import read_documents
from headrace.data_prep.shuffle.records import Records, run_bounds
from headrace.pipeline.core.stage import Inputs

Numbered = tuple[int, Document]
"""The number of a document in the corpus, and the document."""


def kept_documents(corpus: Corpus, shard: int, inputs: Inputs) -> Iterator[Numbered]:
    """Yields the documents of ``shard`` that ``duplicates`` and, if it is in ``inputs``, ``contained`` keep."""
    rows = corpus.rows(shard)
    if shard < corpus.n_own_shards:
        rows = rows[np.load(inputs["duplicates"].shard("clusters", shard, "npy")) == numbers_of(shard, rows)]
        if "contained" in inputs:
            rows = np.setdiff1d(rows, np.load(inputs["contained"].shard("removed", shard, "npy"))["row"])
    return documents_at(corpus, shard, numbers_of(shard, rows))


def documents_at(corpus: Corpus, shard: int, numbers: Numbers) -> Iterator[Numbered]:
    """Yields the documents ``numbers`` of ``shard``, ascending."""
    wanted = dict(zip(rows_of(numbers).tolist(), numbers.tolist(), strict=True))
    for row, document in enumerate(read_documents(corpus.documents_file(shard))):
        if row in wanted:
            yield wanted[row], document


def by_document(blocks: Iterable[Records], field: str = "document") -> Iterator[tuple[int, Records]]:
    """Yields each document of ``blocks``, which are sorted by ``field`` and split none, with its records."""
    for block in blocks:
        for start, end in itertools.pairwise(run_bounds(block[field]).tolist()):
            yield int(block[field][start]), block[start:end]


def paired(
    documents: Iterable[Numbered], groups: Iterator[tuple[int, Records]]
) -> Iterator[tuple[int, Document, Records]]:
    """Yields the ``documents`` that have records in ``groups``, both ascending by number."""
    waiting = next(groups, None)
    for number, document in documents:
        if waiting is None:
            return
        if waiting[0] == number:
            yield number, document, waiting[1]
            waiting = next(groups, None)
