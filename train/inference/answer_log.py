"""Answers that were given already, so that a scoring that was killed goes on from there.

    round of answers ── rank 0 ──> scratch/answers of the unfinished artifact: one line more, on the disk at once
    killed, and run again          scratch/answers ──> all ranks, which ask the model only what is not in it

    line    SHA-256 of what follows it, {"<key>": [-12.5, true], "<key>": [-3.25, false], …}

A line is taken whole or not at all: what was torn or has changed is asked again. A key is a hash of all that was asked,
down to the tokens; who was asked, and how, is in the address of the artifact: no answer can be taken for another. The
file goes with the artifact's scratch.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.train.distributed.processes import Ranks, on_first

SEAL_BYTES = 64
Plain = Any
"""What JSON can say; sequences come back from a file as lists."""


@dataclasses.dataclass(frozen=True)
class Kept:
    """Answers by their keys, of this process and of those before it."""

    answers: dict[str, Plain] = dataclasses.field(default_factory=dict)
    path: Path | None = None
    """Where new ones are written to."""

    @classmethod
    def before(cls, path: Path, ranks: Ranks) -> "Kept":
        """What was written to ``path``, on all ranks; the first one goes on writing."""
        return cls(on_first(ranks, lambda: read(path)), path if ranks.first else None)

    def add(self, answers: Mapping[str, Plain]) -> None:
        """Keep ``answers``; on return they are on the disk."""
        self.answers.update(answers)
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            body = json.dumps(answers).encode()
            with self.path.open("ab") as stream:
                stream.write(b"\n" + _seal(body) + body)  # the line before may have no end
                stream.flush()
                os.fsync(stream.fileno())


def read(path: Path) -> dict[str, Plain]:
    """The answers in the whole lines of ``path``; none where there is no such file."""
    found: dict[str, Plain] = {}
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        seal, body = line[:SEAL_BYTES], line[SEAL_BYTES:]
        if seal == _seal(body):
            found |= json.loads(body)
    return found


def key_of(*parts: bytes) -> str:
    """The key of what is asked by ``parts``."""
    whole = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.blake2b(whole, digest_size=16).hexdigest()


def _seal(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()
