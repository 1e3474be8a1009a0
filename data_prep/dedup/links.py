"""Links: a document to remove, and the survivor that is kept for it.

exact   copy → representative              for each copy of a text but one
near    representative → survivor          found by ``selection`` in each component
        copy → survivor                    ``with_copies``: exact copies share their representative's fate
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.numbering import rows_of
from headrace.data_prep.shuffle.records import Records, records_of

COPY = np.dtype([("document", "<u8"), ("representative", "<u8")])
"""A document, and its representative: the document with the same text that takes part in the search."""


def link_dtype(described: "np.dtype[Any]") -> "np.dtype[np.void]":
    """Returns the dtype of links between documents whose records have the dtype ``described`` (see ``links_of``)."""
    return np.dtype([("document", "<u8"), ("survivor", "<u8"), ("jaccard", "<f8"), ("survivor_id", described["id"])])


def links_of(described: Records, survivors: NDArray[np.int64], similarity: NDArray[np.float64]) -> Records:
    """Returns a link for each document to remove.

    Args:
        described: records with ``document`` and ``id``, (n,).
        survivors: index in ``described`` of each document's survivor, its own index if it is kept, (n,).
        similarity: similarity of the document and its survivor, (n,).
    """
    removed = np.flatnonzero(survivors != np.arange(survivors.size))
    kept = described[survivors[removed]]
    return records_of(
        document=described["document"][removed],
        survivor=kept["document"],
        jaccard=similarity[removed],
        survivor_id=kept["id"],
    )


def with_copies(links: Records, copies: Records) -> Records:
    """Returns ``links`` of near duplicates, and the same link for each exact copy of a document to remove.

    Args:
        links: links of representatives.
        copies: COPY of these and of other representatives.
    """
    if not links.size:
        return links
    links = links[np.argsort(links["document"])]
    indices = np.minimum(np.searchsorted(links["document"], copies["representative"]), links.size - 1)
    is_removed = links["document"][indices] == copies["representative"]
    links_of_copies = links[indices[is_removed]]
    links_of_copies["document"] = copies["document"][is_removed]
    return np.concatenate([links, links_of_copies])


def removed_records(links: Records, exact: NDArray[np.bool_]) -> Records:
    """Returns the records in removed/*.npy of one shard, one for each link: (n,).

    Args:
        links: links of the shard's documents, sorted by document, (n,).
        exact: whether the texts are equal, (n,).
    """
    ids = links["survivor_id"]
    return records_of(
        row=rows_of(links["document"]).astype(np.uint32),
        survivor=links["survivor"],
        jaccard=links["jaccard"],
        exact=exact,
        survivor_id=ids.astype(f"S{np.strings.str_len(ids).max(initial=1)}"),
    )
