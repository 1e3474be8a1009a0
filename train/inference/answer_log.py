"""The log of answers: a scoring that was killed resumes from it.

    round of answers ── rank 0 ──> scratch/answers of the unfinished artifact: one more line, synced to the disk
    killed, and run again          scratch/answers ──> all ranks, which ask the model only the rest

    line    SHA-256 of the rest of the line, {"<key>": [-12.5, true], "<key>": [-3.25, false], …}

A line is read whole or not at all: answers in a torn or changed line are computed again. A key is a hash of the whole
query, down to its tokens. The model and the settings are in the address of the artifact, so answers cannot be mixed up.
The file is removed with the artifact's scratch.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact_files import make
from headrace.train.distributed.processes import Ranks, on_first

SEAL_BYTES = 64
JsonValue = Any
"""A value that JSON can hold; sequences come back from a file as lists."""


@dataclasses.dataclass(frozen=True)
class AnswerLog:
    """Answers by their keys, of this process and of earlier ones."""

    answers: dict[str, JsonValue] = dataclasses.field(default_factory=dict)
    path: Path | None = None
    """The file that new answers are written to; None on all ranks but the first."""

    @classmethod
    def resumed(cls, path: Path, ranks: Ranks) -> "AnswerLog":
        """Returns the log in ``path`` on all ranks; the first rank writes new answers to it."""
        return cls(on_first(ranks, lambda: read(path)), path if ranks.first else None)

    def add(self, answers: Mapping[str, JsonValue]) -> None:
        """Adds ``answers``; on return they are on the disk."""
        self.answers.update(answers)
        if self.path:
            make(self.path.parent)
            body = json.dumps(answers).encode()
            with self.path.open("ab") as stream:
                stream.write(b"\n" + _seal(body) + body)  # the line before may be torn
                stream.flush()
                os.fsync(stream.fileno())


def read(path: Path) -> dict[str, JsonValue]:
    """Returns the answers in the whole lines of ``path``; none when there is no such file."""
    answers: dict[str, JsonValue] = {}
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        seal, body = line[:SEAL_BYTES], line[SEAL_BYTES:]
        if seal == _seal(body):
            answers |= json.loads(body)
    return answers


def key_of(*parts: bytes) -> str:
    """Returns the key of a query that ``parts`` describe."""
    whole = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.blake2b(whole, digest_size=16).hexdigest()


def _seal(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()
