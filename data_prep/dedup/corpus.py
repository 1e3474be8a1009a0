"""All documents among which duplicates are looked for: those of this run, and those of older runs that stay.

    shards    0 … 3                 4 … 6                      7 …
              this run's clean      of against[0]: an older    of against[1]
              and signatures        run's clean, signatures

Of an older run the documents that its own stage ``duplicates`` kept take part; their signatures, digests and lengths
are read as that run left them, their texts only where they are candidates.

    <root>/unique/b8e44e9d7440   what ``dedup.against`` names; its manifest leads to its inputs below <root>
        └─ duplicates ── clean, signatures
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.numbering import Numbers, numbers_of, shards_of
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import canonical, plain, unhashed
from headrace.pipeline.core.stage import Inputs, Stage

SETTING = "dedup.against"

BY_PRIORITY = ("precedence", "id", "document")
"""The order in which documents stay: those of older runs, then the longest text, then the smallest id (by UTF-8 bytes;
equal ones, which only older runs can have, by number). ``precedence`` is one number for the first two."""
FIRST_OF_OURS = 2**32
"""The least precedence of a document that is not an older one."""


def first_words(digests: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The first 8 bytes of digests (n, 32), as numbers that compare like them: (n,)."""
    words: NDArray[np.uint64] = np.ascontiguousarray(digests[:, :8]).view(">u8").ravel().astype(np.uint64)
    return words


@dataclasses.dataclass(frozen=True)
class Older:
    """A finished run whose documents are not to be repeated."""

    address: str
    """Of its artifact of stage ``unique``, which decides what its documents are."""
    shards: int
    root: str = unhashed("")
    """The folder below which its artifacts lie."""

    @classmethod
    def at(cls, folder: str, signatures: Stage) -> "Older":
        """The older run whose artifact of stage ``unique`` is ``folder``.

        Args:
            folder: as ``dedup.against`` names it.
            signatures: the stage that makes this run's signatures; the older ones must have been made alike.

        Raises:
            ConfigError: when ``folder`` is no such artifact, or its signatures were made in another way.
            ArtifactError: when artifacts that it was made from are gone.
        """
        path = Path(folder).resolve()
        if not (path / "manifest.json").is_file() or Artifact(path).manifest["stage"] != "unique":
            remedy = "give the folder of an older run's artifact, like runs/unique/b8e44e9d7440"
            raise ConfigError(SETTING, f"{folder!r} is no finished artifact of stage unique", remedy)
        older = cls(path.name, Artifact(path).shard_count, str(path.parents[1]))
        _compare(folder, older.open()["signatures"].manifest, signatures)
        return older

    def open(self) -> Inputs:
        """Its artifacts of stages ``clean``, ``signatures`` and ``duplicates``.

        Raises:
            ArtifactError: when one of them is gone.
        """
        unique = Artifact(Path(self.root, "unique", self.address))
        duplicates = self._input(unique, "duplicates")
        return {name: self._input(duplicates, name) for name in ("clean", "signatures")} | {"duplicates": duplicates}

    def _input(self, artifact: Artifact, name: str) -> Artifact:
        folder = Path(self.root, name, artifact.manifest["inputs"][name])
        if not (folder / "manifest.json").is_file():
            wrong = f"{artifact.folder} was made from {folder}, which is not there"
            raise ArtifactError(SETTING, wrong, "keep what an older run's unique was made from below the same root")
        return Artifact(folder)


def _compare(folder: str, manifest: dict[str, Any], signatures: Stage) -> None:
    """Refuses signatures that were not made as ``signatures`` makes them."""
    hashed, their_hashed = canonical(signatures), manifest["hashed"]
    differ = [name for name in sorted(hashed | their_hashed) if hashed.get(name) != their_hashed.get(name)]
    ours, theirs = plain(signatures), manifest["settings"]
    if differ:
        old, new = (", ".join(f"{name}={one.get(name)}" for name in differ) for one in (theirs, ours))
        remedy = "use the older run's dedup settings, or make it anew with ours"
        raise ConfigError(SETTING, f"signatures of {folder!r} were made with {old}, ours with {new}", remedy)
    if manifest["version"] != signatures.version:
        wrong = f"signatures of {folder!r} are of version {manifest['version']}, ours of {signatures.version}"
        raise ConfigError(SETTING, wrong, "make the older run anew with this version of headrace")


class Corpus:
    """The documents of this run and of older ones, by number."""

    def __init__(self, inputs: Inputs, against: Sequence[Older]) -> None:
        """``inputs`` are this run's artifacts of stages ``clean`` and ``signatures``."""
        self.n_own_shards = inputs["clean"].shard_count
        self._places = [(inputs, shard) for shard in range(self.n_own_shards)]
        for older in against:
            artifacts = older.open()
            self._places += [(artifacts, shard) for shard in range(older.shards)]

    @property
    def n_shards(self) -> int:
        return len(self._places)

    def is_older(self, documents: Numbers) -> NDArray[np.bool_]:
        """Which of ``documents`` are of older runs."""
        older: NDArray[np.bool_] = shards_of(documents) >= self.n_own_shards
        return older

    def texts(self, shard: int) -> Path:
        """The file with the documents of ``shard``."""
        artifacts, own = self._places[shard]
        return artifacts["clean"].shard("documents", own, "jsonl.zst")

    def array(self, kind: str, shard: int) -> NDArray[Any]:
        """What stage ``signatures`` left of ``shard``, mapped: one row a document."""
        artifacts, own = self._places[shard]
        values: NDArray[Any] = np.load(artifacts["signatures"].shard(kind, own, "npy"), mmap_mode="r")
        return values

    def rows(self, shard: int) -> NDArray[np.int64]:
        """The rows of ``shard`` that take part: all of this run, those that stayed of an older one."""
        artifacts, own = self._places[shard]
        rows = np.arange(len(self.array("characters", shard)))
        if shard < self.n_own_shards:
            return rows
        survivors = np.load(artifacts["duplicates"].shard("clusters", own, "npy"))
        stays: NDArray[np.int64] = rows[survivors == numbers_of(own, rows)]
        return stays

    def described(self, shard: int, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """The columns of ``BY_PRIORITY`` for these rows of ``shard``: (rows.size,) each."""
        documents = numbers_of(shard, rows)
        longest = np.uint64(2**32 - 1) - self.array("characters", shard)[rows].astype(np.uint64)
        precedence = longest + np.where(self.is_older(documents), 0, FIRST_OF_OURS).astype(np.uint64)
        return {"precedence": precedence, "id": self.array("ids", shard)[rows], "document": documents}
