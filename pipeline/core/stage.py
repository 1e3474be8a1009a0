"""A stage: settings that know how to turn input artifacts into one output artifact.

    Stage ── phases ──> Phase, Phase, ...        each phase starts when the one before it is whole
    Phase ── tasks  ──> run(0), run(1), ...      independent, in any order, anywhere

A stage is a frozen, keyword-only dataclass: its fields are its settings. Its address is a hash of its name, version,
settings, the addresses of its inputs and the checksums of the raw files that it reads.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from pipeline.core.artifact import Artifact, Balance, TaskOutput
from pipeline.core.settings import canonical, digest

Inputs = Mapping[str, Artifact]
"""The finished artifacts a stage reads, by stage name."""

Run = Callable[[int, Inputs, TaskOutput], "Counter[str]"]
"""What one task does: (task number, inputs, where to write) -> counts. Writes only files that carry its number."""


@dataclasses.dataclass(frozen=True)
class Phase:
    """``tasks`` independent pieces of work, numbered from 0."""

    name: str
    tasks: int
    run: Run


def counted(counts: "Counter[str]", prefix: str) -> int:
    """The sum of the counts whose names begin with ``prefix``."""
    return sum(number for name, number in counts.items() if name.startswith(prefix))


@dataclasses.dataclass(frozen=True)
class RawFile:
    """One file from outside the pipeline: its name (part of document ids), size in bytes and SHA-256."""

    name: str
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """One step of the line. Subclasses set the class variables and ``phases``."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[str, ...]] = ()
    distributed: ClassVar[bool] = False
    """True when many ranks enter the stage's single task together (training)."""

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        """The work, given the number of shards of each input. Known before any input exists: a cluster needs it."""
        raise TypeError(f"{type(self).__name__} does not say what its phases are")

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        """What must add up before the artifact with these ``counts`` is finished, by itself and with its inputs."""
        return ()

    def raw_files(self) -> tuple[RawFile, ...]:
        """The files from outside the pipeline whose content decides the result."""
        return ()

    def description(self, addresses: Mapping[str, str]) -> dict[str, object]:
        """Everything that decides the result, in plain values."""
        return {
            "stage": self.name,
            "version": self.version,
            "settings": canonical(self),
            "inputs": {name: addresses[name] for name in self.inputs},
            "raw_files": [dataclasses.asdict(file) for file in self.raw_files()],
        }

    def address(self, addresses: Mapping[str, str]) -> str:
        """The name of the artifact's folder: a hash of ``description``."""
        return digest(self.description(addresses))
