"""Stage ``signatures``: MinHash signature, digest, length and id of each document of ``clean``, to find duplicates.

signatures/00007.npy    (n_docs, bands · rows) uint32   MinHash, datasketch's affine32 scheme (see dedup.minhash)
digests/00007.npy       (n_docs, 32) uint8              SHA-256 of the text
characters/00007.npy    (n_docs,) uint32                length of the text in characters (code points)
ids/00007.npy           (n_docs,) S…                    document ids, UTF-8, zero-padded to the longest of the shard
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.minhash import permutations, signature
from headrace.data_prep.dedup.shingles import shingle_hashes
from headrace.data_prep.document import digest_of, read_documents
from headrace.data_prep.shuffle.records import save_array
from headrace.pipeline.core.artifact import Balance, TaskOutput
from headrace.pipeline.core.stage import Inputs, Phase, Stage


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signatures(Stage):
    """MinHash signature, digest, length and id of each document. Fields: see ``Dedup``."""

    name: ClassVar[str] = "signatures"
    inputs: ClassVar[tuple[str, ...]] = ("clean",)
    headline: ClassVar[tuple[str, ...]] = ("documents", "shingles")
    describes_documents: ClassVar[bool] = True

    shingle_words: int
    bands: int
    rows: int
    seed: int

    @classmethod
    def of(cls, dedup: Dedup) -> "Signatures":
        """Returns the stage for the settings ``dedup``.

        Its address depends only on the settings that decide signatures, so a new threshold reuses them.
        """
        banding = dedup.banding
        return cls(shingle_words=dedup.shingle_words, bands=banding.bands, rows=banding.rows, seed=dedup.seed)

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("signatures", shards["clean"], self._run),)

    def balances(self, counts: Counter[str], inputs: Inputs) -> Iterable[Balance]:
        yield "documents = kept of clean", counts["documents"], inputs["clean"].counts["kept"]

    def _run(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        hashers = permutations(self.bands * self.rows, self.seed)
        signatures, digests, characters, ids = [], [], [], []
        counts: Counter[str] = Counter()
        for document in read_documents(inputs["clean"].shard("documents", task, "jsonl.zst")):
            hashes = shingle_hashes(document.text, self.shingle_words)
            signatures.append(signature(hashes, hashers))
            digests.append(digest_of(document.text))
            characters.append(len(document.text))
            ids.append(document.id.encode())
            counts.update(documents=1, shingles=hashes.size, without_words=int(not hashes.size))
        arrays: dict[str, NDArray[Any]] = {
            "signatures": np.array(signatures, dtype=np.uint32).reshape(-1, self.bands * self.rows),
            "digests": np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, 32),
            "characters": np.array(characters, dtype=np.uint32),
            "ids": np.array(ids, dtype=f"S{max(map(len, ids), default=1)}"),
        }
        for kind, array in arrays.items():
            with out.shard(kind, "npy") as path:
                save_array(path, array)
        return counts
