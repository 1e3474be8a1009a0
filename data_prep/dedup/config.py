"""Settings of deduplication: conf group ``dedup``.

Two documents with Jaccard similarity s become a candidate pair with probability 1 - (1 - s^rows)^bands (see ``lsh``).
With 14 bands of 8 rows (FineWeb's choice):

    s            0.5    0.6    0.7    0.75   0.8    0.85   0.9    0.95
    candidate    0.053  0.211  0.565  0.772  0.924  0.988  0.9996 1.000

The user gives either ``bands`` and ``rows``, or ``recall``, from which they follow. Addresses of artifacts depend only
on the resulting bands and rows.
"""

from typing import Annotated, Any

from pydantic import Field

from headrace.data_prep.dedup.lsh import Banding, choose
from headrace.data_prep.dedup.preference import MOST_PREFERRED, Keep, Preference
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Buckets, FilePaths, Positive, TextList, settings, unhashed

MOST_HASHES = 4096
HashCount = Annotated[int, Field(ge=1, le=MOST_HASHES)]


@settings
class Dedup:
    """MinHash, LSH and exact verification."""

    shingle_words: Positive = 5
    """Words in a shingle. A document with fewer words has one shingle, all of its words."""
    bands: HashCount = 14
    """LSH bands: two documents that agree in a whole band are compared. Not used if ``recall`` is given."""
    rows: HashCount = 8
    """HashCount in a band. A signature has bands × rows hashes. Not used if ``recall`` is given."""
    recall: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Least share to find of the pairs with a similarity of exactly ``threshold``. Bands and rows follow from it."""
    most_hashes: HashCount = 256
    """Most hashes in a signature if ``recall`` is given. More cost time and disk, fewer cost false candidates."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """Seed of the permutations, as in datasketch's ``MinHash(seed=…)``."""
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Two documents are near duplicates when the exact Jaccard similarity of their shingle sets is at least this."""
    keep: Keep = "longest"
    """The copy that stays: the longest text, that with the most letters, the newest or oldest one by ``metadata.date``,
    or the one with the highest ``score``. Equal ones are decided by length (with the most letters the shortest stays),
    then by id. Documents of older runs always stay."""
    score: str | None = None
    """The number of a document's metadata that keep=highest compares, by its path: classifier.hq, language_score or
    extra.stars, say; null: none."""
    preferred: Annotated[TextList, Field(max_length=MOST_PREFERRED)] = ()
    """Documents that stay before all others, the best first: by the beginning of an id, a host or a domain."""
    repeated_words: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """Runs of at least this many words that occur before are cut out of a document, and the first copy stays; None:
    none. Lee et al. 2022 take 50."""
    keep_duplicates: bool = False
    """Whether duplicates are found and counted, and kept: to compare with a run that removes them."""
    buckets: Buckets = 16
    """Number of tasks of each phase that works on buckets. A task holds its edges between duplicates, about
    100 bytes an edge."""
    window_documents: Positive = 1000
    """In an LSH group larger than this, a document is compared only with this many of the next larger documents."""
    against: FilePaths = ()
    """Folders of older runs' artifacts of stage ``unique``. Documents equal or similar to one there are removed."""
    memory_gb: Annotated[float, Field(ge=1e-5, le=1e9)] = unhashed(2.0)
    """Gigabytes (10^9 bytes) of memory in which a task sorts and compares, also for cleaning's global filters. The rest
    spills to disk."""

    def __post_init__(self) -> None:
        if self.recall is None and self.bands * self.rows > MOST_HASHES:
            problem = f"{self.bands:,} bands of {self.rows:,} rows are {self.bands * self.rows:,} hashes"
            raise ConfigError("dedup.bands", problem, f"give at most {MOST_HASHES:,} in all")
        if self.keep == "highest" and self.score is None:
            remedy = "name a number of metadata, such as dedup.score=language_score"
            raise ConfigError("dedup.score", "is null, and dedup.keep=highest compares scores", remedy)
        if self.score is not None and self.keep != "highest":
            problem = f"is {self.score!r}, and dedup.keep={self.keep} compares no scores"
            raise ConfigError("dedup.score", problem, "give dedup.keep=highest, too")
        if self.repeated_words is not None and self.keep_duplicates:
            problem = f"is {self.repeated_words}, and dedup.keep_duplicates keeps the documents that repeat others"
            raise ConfigError("dedup.repeated_words", problem, "give one of them")

    @property
    def banding(self) -> Banding:
        """The bands and rows to use: as given, or chosen by ``recall``.

        Raises:
            ConfigError: if no banding of at most ``most_hashes`` hashes reaches ``recall``.
        """
        if self.recall is None:
            return Banding(self.bands, self.rows)
        return choose(self.threshold, self.recall, self.most_hashes)

    @property
    def preference(self) -> Preference:
        """The settings that decide which copy stays."""
        shortest = self.keep == "most_letters"
        return Preference(keep=self.keep, score=self.score, preferred=self.preferred, shortest=shortest)

    @property
    def of_unique(self) -> dict[str, Any]:
        """The settings of stage ``unique``."""
        return {"keep_duplicates": self.keep_duplicates, "repeated_words": self.repeated_words}

    @property
    def memory_bytes(self) -> int:
        """``memory_gb`` in bytes."""
        return int(self.memory_gb * 10**9)

    @property
    def expected_recall(self) -> str:
        """The recall of the banding, in one sentence."""
        return self.banding.expected_recall(self.threshold)
