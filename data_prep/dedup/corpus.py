"""The corpus in which duplicates are searched: the documents of this run, and those that older runs kept.

    shards    0 … 3                 4 … 6                      7 …
              this run's clean      of against[0]: an older    of against[1]
              and signatures        run's clean, signatures

Of an older run, the documents that its own stage ``duplicates`` kept take part. Their signatures, digests and lengths
are read from that run's artifacts. Their texts are read only if they are candidates.

    <root>/unique/b8e44e9d7440   the folder in ``dedup.against``; its manifest leads to its inputs below <root>
        └─ duplicates ── clean, signatures

The shard and the row of a document are one integer, its number. Numbers need no table of shard sizes and sort like
(shard, row). They locate a document but do not identify it: another sharding gives other numbers. So no result may
depend on their order. The shards of older runs are numbered after this run's own shards.

    number = shard · 2^32 + row        7 · 2^32 + 41  is the 42nd document of documents/00007.jsonl.zst
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import canonical, differing, plain, unhashed
from headrace.pipeline.core.stage import Inputs, Stage

Numbers = NDArray[np.uint64]

SHARD_SHIFT = np.uint64(32)
ROW_MASK = np.uint64(0xFFFFFFFF)


def numbers_of(shard: int, rows: NDArray[np.integer]) -> Numbers:
    """Returns the numbers of the documents at ``rows`` of ``shard``."""
    return (np.uint64(shard) << SHARD_SHIFT) | rows.astype(np.uint64)


def shards_of(numbers: Numbers) -> NDArray[np.int64]:
    """Returns the shard of each document."""
    return (numbers >> SHARD_SHIFT).astype(np.int64)


def rows_of(numbers: Numbers) -> NDArray[np.int64]:
    """Returns the row of each document in its shard."""
    return (numbers & ROW_MASK).astype(np.int64)


def look_up(load: Callable[[int], NDArray[Any]], numbers: Numbers) -> NDArray[Any]:
    """Returns the rows of the documents ``numbers``, in this order. ``load(shard)`` gives the array of a shard."""
    if not numbers.size:
        return load(0)[:0]
    order = np.argsort(numbers, kind="stable")
    shards, starts = np.unique(shards_of(numbers[order]), return_index=True)
    pieces = [
        load(int(shard))[rows_of(numbers[piece])]
        for shard, piece in zip(shards, np.split(order, starts[1:]), strict=True)
    ]
    loaded: NDArray[Any] = np.concatenate(pieces)
    values = np.empty_like(loaded)
    values[order] = loaded
    return values


SETTING = "dedup.against"

BY_PRIORITY = ("precedence", "id", "document")
"""The order of priority: documents of older runs, then the lowest rank (preference.py), then the longest text, then the
smallest id (by UTF-8 bytes; equal ids, which are possible only in older runs, by number). ``precedence`` is one number
for the first three."""
FIRST_OF_OURS = 2**32
"""The least precedence of a document of this run."""
RANK_SHIFT = np.uint64(33)
"""Precedence of this run's documents: the rank, one bit, and the length, which counts backwards."""


def digest_prefixes(digests: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Returns the first 8 bytes of digests (n, 32) as big-endian numbers, which sort like the bytes: (n,)."""
    prefixes: NDArray[np.uint64] = np.ascontiguousarray(digests[:, :8]).view(">u8").ravel().astype(np.uint64)
    return prefixes


@dataclasses.dataclass(frozen=True)
class OlderRun:
    """A finished run. This run removes documents that are duplicates of its documents."""

    address: str
    """Address of its artifact of stage ``unique``, which determines its documents."""
    shards: int
    root: str = unhashed("")
    """The root folder of its artifacts."""

    @classmethod
    def at(cls, folder: str, signatures: Stage) -> "OlderRun":
        """Returns the older run whose artifact of stage ``unique`` is ``folder``.

        Args:
            folder: as given in ``dedup.against``.
            signatures: the stage that makes this run's signatures. The older run must have used the same settings.

        Raises:
            ConfigError: if ``folder`` is no such artifact, or its signatures were made with other settings.
            ArtifactError: if an artifact from which it was made is missing.
        """
        path = Path(folder).resolve()
        if not (path / "manifest.json").is_file() or Artifact(path).manifest["stage"] != "unique":
            remedy = "give the folder of an older run's artifact, like runs/unique/b8e44e9d7440"
            raise ConfigError(SETTING, f"{folder!r} is no finished artifact of stage unique", remedy)
        older = cls(path.name, Artifact(path).shard_count, str(path.parents[1]))
        _compare(folder, older.open()["signatures"].manifest, signatures)
        return older

    def open(self) -> Inputs:
        """Opens its artifacts of stages ``clean``, ``signatures`` and ``duplicates``.

        Raises:
            ArtifactError: if one of them is missing.
        """
        unique = Artifact(Path(self.root, "unique", self.address))
        duplicates = self._input(unique, "duplicates")
        return {name: self._input(duplicates, name) for name in ("clean", "signatures")} | {"duplicates": duplicates}

    def _input(self, artifact: Artifact, name: str) -> Artifact:
        folder = Path(self.root, name, artifact.manifest["inputs"][name])
        if not (folder / "manifest.json").is_file():
            problem = f"{artifact.folder} was made from {folder}, which does not exist"
            raise ArtifactError(SETTING, problem, "keep the inputs of an older run's unique below the same root")
        return Artifact(folder)


def _compare(folder: str, manifest: dict[str, Any], signatures: Stage) -> None:
    """Raises ConfigError if the older signatures were made with other settings or by another version of the stage."""
    differ = differing(canonical(signatures), manifest["hashed"])
    ours, theirs = plain(signatures), manifest["settings"]
    if differ:
        old, new = (
            ", ".join(f"{name}={settings.get(name, '(absent)')}" for name in differ) for settings in (theirs, ours)
        )
        remedy = "use the older run's dedup settings, or run it again with these"
        raise ConfigError(SETTING, f"signatures of {folder!r} were made with {old}, ours with {new}", remedy)
    if manifest["version"] != signatures.version:
        problem = f"signatures of {folder!r} have version {manifest['version']}, ours version {signatures.version}"
        raise ConfigError(SETTING, problem, "run the older run again with this version of headrace")


class Corpus:
    """The documents of this run and of older ones, by number."""

    def __init__(self, inputs: Inputs, against: Sequence[OlderRun]) -> None:
        """Opens the corpus. ``inputs`` are this run's artifacts of stages ``clean`` and ``signatures``."""
        self.n_own_shards = inputs["clean"].shard_count
        self._shards = [(inputs, shard) for shard in range(self.n_own_shards)]
        for older in against:
            artifacts = older.open()
            self._shards += [(artifacts, shard) for shard in range(older.shards)]

    @property
    def n_shards(self) -> int:
        return len(self._shards)

    def is_older(self, documents: Numbers) -> NDArray[np.bool_]:
        """Returns for each document whether it belongs to an older run."""
        older: NDArray[np.bool_] = shards_of(documents) >= self.n_own_shards
        return older

    def documents_file(self, shard: int) -> Path:
        """Returns the file with the documents of ``shard``."""
        artifacts, own = self._shards[shard]
        return artifacts["clean"].shard("documents", own, "jsonl.zst")

    def array(self, kind: str, shard: int) -> NDArray[Any]:
        """Returns an array of stage ``signatures`` for ``shard``, memory-mapped, with one row a document."""
        artifacts, own = self._shards[shard]
        values: NDArray[Any] = np.load(artifacts["signatures"].shard(kind, own, "npy"), mmap_mode="r")
        return values

    def rows(self, shard: int) -> NDArray[np.int64]:
        """Returns the rows of ``shard`` that take part: all rows of this run, the kept rows of an older run."""
        artifacts, own = self._shards[shard]
        rows = np.arange(len(self.array("characters", shard)))
        if shard < self.n_own_shards:
            return rows
        survivors = np.load(artifacts["duplicates"].shard("clusters", own, "npy"))
        kept: NDArray[np.int64] = rows[survivors == numbers_of(own, rows)]
        return kept

    def priority_columns(
        self, shard: int, rows: NDArray[np.int64], ranks: Numbers, shortest: bool = False
    ) -> dict[str, NDArray[Any]]:
        """Returns the columns of ``BY_PRIORITY`` for ``rows`` of ``shard``: (rows.size,) each. ``ranks`` are those of
        all its documents; empty: all are 0. With ``shortest``, the shortest of equal rank comes first."""
        documents = numbers_of(shard, rows)
        characters = self.array("characters", shard)[rows].astype(np.uint64)
        precedence = characters if shortest else np.uint64(2**32 - 1) - characters
        precedence = precedence + np.where(self.is_older(documents), 0, FIRST_OF_OURS).astype(np.uint64)
        if ranks.size:
            precedence += ranks[rows] << RANK_SHIFT
        return {"precedence": precedence, "id": self.array("ids", shard)[rows], "document": documents}
