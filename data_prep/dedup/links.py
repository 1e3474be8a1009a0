"""Links: which document goes, and which one stays for it.

exact   copy → representative              one for each copy of a text
near    representative → survivor          from the walk down each component
        copy → survivor                    ``with_copies``: whoever says the same goes the same way
"""

import numpy as np
from numpy.typing import NDArray

from data_prep.dedup.numbering import Numbers, shards_of
from data_prep.dedup.shuffle import save
from pipeline.core.artifact import TaskOutput

LINK = np.dtype([("document", "<u8"), ("survivor", "<u8"), ("jaccard", "<f8")])
"""A document that goes, the one that stays for it and their similarity."""

Links = NDArray[np.void]


def links_of(documents: Numbers, stays: Numbers, similarity: NDArray[np.float64]) -> Links:
    """A LINK for each document that does not stay itself."""
    goes = documents != stays
    links = np.empty(int(goes.sum()), dtype=LINK)
    links["document"], links["survivor"], links["jaccard"] = documents[goes], stays[goes], similarity[goes]
    return links


def write_copies(out: TaskOutput, copies: Links) -> None:
    """Leave for ``with_copies`` the links to documents of this task's shard."""
    with out.scratch(_copies_of(out.task)) as path:
        save(path, copies)


def with_copies(out: TaskOutput, links: Links) -> Links:
    """``links`` of near duplicates, and one like it for each document whose text is equal to one that goes."""
    links = links[np.argsort(links["document"])]
    found = [links]
    shards, starts = np.unique(shards_of(links["document"]), return_index=True)
    for shard, own in zip(shards, np.split(links, starts[1:]), strict=False):
        copies = np.load(out.scratch_path(_copies_of(int(shard))))
        places = np.minimum(np.searchsorted(own["document"], copies["survivor"]), own.size - 1)
        goes_too = own["document"][places] == copies["survivor"]
        followers = own[places[goes_too]]
        followers["document"] = copies["document"][goes_too]
        found.append(followers)
    return np.concatenate(found)


def _copies_of(shard: int) -> str:
    return f"copies-of/{shard:05d}.npy"
