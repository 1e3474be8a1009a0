"""Near duplicates among texts in memory, as the stages ``signatures`` and ``duplicates`` find them."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.held_texts import links_among, signatures_of
from headrace.pipeline.api.verdict import text_of_caller, texts_of_caller
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode_within


class Duplicate(NamedTuple):
    """A text to remove: ``texts[removed]``, the copy ``texts[kept]`` that stays for it, and their ``similarity``."""

    removed: int
    kept: int
    similarity: float


def near_duplicates(
    texts: Iterable[str],
    threshold: float = 0.8,
    *,
    bands: int = 14,
    rows: int = 8,
    shingle_words: int = 5,
    seed: int = 1,
    ids: Iterable[str] | None = None,
) -> list[Duplicate]:
    """Returns the exact and near duplicates among ``texts``, each with the copy that stays and their exact similarity.

        removed = {duplicate.removed for duplicate in headrace.near_duplicates(texts)}

    The longest of similar texts stays, of equally long ones the first. A text is removed only for a kept one that is
    equal to it (similarity 1) or reaches the threshold. Memory holds the texts, ``4 · bands · rows`` bytes for each,
    and the shingles of those that are compared.

    Args:
        texts: the texts; an iterator is read to its end.
        threshold: least Jaccard similarity of the sets of ``shingle_words`` words, in (0, 1].
        bands: bands of the signature; texts that agree in one are compared (Leskovec, Rajaraman, Ullman, Mining of
            Massive Datasets, 3.4). With the defaults, FineWeb's, 92 % of pairs of similarity 0.8 are, 99.96 % of 0.9.
        rows: hashes in a band.
        shingle_words: words in a shingle.
        seed: seed of the hashes, as in datasketch's ``MinHash(seed=…)``.
        ids: of equally long texts, the one with the smallest id stays, as in a run; without them, the first.

    Raises:
        ConfigError: when an argument is not valid.
    """
    dedup = _dedup("near_duplicates", threshold=threshold, bands=bands, rows=rows, words=shingle_words, seed=seed)
    held, names = texts_of_caller("near_duplicates", texts), None if ids is None else texts_of_caller("ids", ids)
    if names is not None and len(names) != len(held):
        raise ConfigError("near_duplicates", f"{len(held):,} texts, and {len(names):,} ids", "give as many of both")
    links = links_among(held, dedup, names)
    columns = (links[name].tolist() for name in ("document", "survivor", "jaccard"))
    return [*map(Duplicate, *columns)]


def signatures(
    texts: Iterable[str], *, bands: int = 14, rows: int = 8, shingle_words: int = 5, seed: int = 1
) -> NDArray[np.uint32]:
    """Returns the MinHash signatures of ``texts``, (n, bands · rows) uint32, bit for bit those of datasketch 2.0.

    The share of equal values in two rows estimates the Jaccard similarity of the two texts' sets of shingles. The
    arguments are those of ``near_duplicates``. An iterator is read one text after the other, and none is kept.

    Raises:
        ConfigError: when an argument is not valid.
    """
    dedup = _dedup("signatures", bands=bands, rows=rows, words=shingle_words, seed=seed)
    if isinstance(texts, str | bytes):
        texts = texts_of_caller("signatures", texts)
    return signatures_of((text_of_caller("signatures", text) for text in texts), dedup)


def _dedup(where: str, *, words: int, **values: float) -> Dedup:
    return decode_within(Dedup, {**values, "shingle_words": words}, where)
