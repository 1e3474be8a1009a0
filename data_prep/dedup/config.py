"""The settings of deduplication: conf group ``dedup``.

Two documents with Jaccard similarity s become a candidate pair with probability 1 - (1 - s^rows)^bands (Leskovec,
Rajaraman, Ullman, Mining of Massive Datasets, 3.4.2). With 14 bands of 8 rows (FineWeb's choice):

    s            0.5    0.6    0.7    0.75   0.8    0.85   0.9    0.95
    candidate    0.053  0.211  0.565  0.772  0.924  0.988  0.9996 1.000
"""

from typing import Annotated

from pydantic import Field

from pipeline.core.settings import settings

AtLeastOne = Annotated[int, Field(ge=1)]


@settings
class Dedup:
    """MinHash, LSH and exact verification."""

    shingle_words: AtLeastOne = 5
    """Words in a shingle. A document with fewer words has one shingle: all of them."""
    bands: AtLeastOne = 14
    """LSH bands: two documents that agree in a whole band are compared."""
    rows: AtLeastOne = 8
    """Hashes in a band; a signature has bands × rows of them."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """Seed of the permutations, as in datasketch's ``MinHash(seed=…)``."""
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Two documents are near duplicates when the exact Jaccard similarity of their shingle sets is at least this."""
    buckets: Annotated[int, Field(ge=1, le=65536)] = 16
    """Tasks that share the search for candidates. One has to fit in memory: about 700 bytes × documents / buckets."""
    window_documents: AtLeastOne = 1000
    """In an LSH group larger than this, a document is compared with this many of the next larger ones only."""
