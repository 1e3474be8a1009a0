"""Links: which document goes, and which one stays for it.

exact   copy → representative              one for each copy of a text
near    representative → survivor          from the walk down each component
        copy → survivor                    ``with_copies``: whoever says the same goes the same way
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.numbering import rows_of
from headrace.data_prep.shuffle.records import Records, records_of

COPY = np.dtype([("document", "<u8"), ("representative", "<u8")])
"""A document with the text of another one, and that one."""


def link_dtype(described: "np.dtype[Any]") -> "np.dtype[np.void]":
    """Of the links between documents that are ``described`` by records of this dtype (see ``links_of``)."""
    return np.dtype([("document", "<u8"), ("survivor", "<u8"), ("jaccard", "<f8"), ("survivor_id", described["id"])])


def links_of(described: Records, stays: NDArray[np.int64], similarity: NDArray[np.float64]) -> Records:
    """A link for each document that does not stay itself.

    Args:
        described: (n,) with ``document`` and ``id``.
        stays: (n,) the place of the one that stays for each, its own if it stays.
        similarity: (n,) of the two.
    """
    goes = np.flatnonzero(stays != np.arange(stays.size))
    survivors = described[stays[goes]]
    return records_of(
        document=described["document"][goes],
        survivor=survivors["document"],
        jaccard=similarity[goes],
        survivor_id=survivors["id"],
    )


def with_copies(links: Records, copies: Records) -> Records:
    """``links`` of near duplicates, and one like it for each document whose text is equal to one that goes.

    Args:
        links: of representatives.
        copies: COPY, of these and of other representatives.
    """
    if not links.size:
        return links
    links = links[np.argsort(links["document"])]
    places = np.minimum(np.searchsorted(links["document"], copies["representative"]), links.size - 1)
    goes_too = links["document"][places] == copies["representative"]
    followers = links[places[goes_too]]
    followers["document"] = copies["document"][goes_too]
    return np.concatenate([links, followers])


def removed_of(links: Records, exact: NDArray[np.bool_]) -> Records:
    """What stage ``duplicates`` says of the documents of one shard that go: (n,), as ``links``.

    Args:
        links: (n,) sorted by document.
        exact: (n,) whether the texts are equal.
    """
    ids = links["survivor_id"]
    return records_of(
        row=rows_of(links["document"]).astype(np.uint32),
        survivor=links["survivor"],
        jaccard=links["jaccard"],
        exact=exact,
        survivor_id=ids.astype(f"S{np.strings.str_len(ids).max(initial=1)}"),
    )
