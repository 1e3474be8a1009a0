"""A stage: settings, and the code that makes one output artifact from input artifacts.

    Stage ── phases ──> Phase, Phase, ...        each phase starts when the one before it is whole
    Phase ── tasks  ──> run(0), run(1), ...      independent, in any order, anywhere

A stage is a frozen, keyword-only dataclass: its fields are its settings. Its address is a hash of its name, version,
settings, the addresses of its inputs and the checksums of the raw files that it reads.

Raw files may change during a run. A task compares them with those that the run was planned with (``planned``), and
fails when one differs. So the artifact at an address is always made from the files that the address hashes.

A stage states its facts as class variables. Those of all stages are read by name from a file that is generated from
them, because to import the stages would take longer than a fast command may; a test fails when the file is old:

class Clean(Stage): name, headline, document_counts, … ── tests/pipeline/test_stage_facts.py ──> stage_facts.json
stage_facts.json ──> FACTS["clean"]                        storage, status, why, the funnel, warnings
"""

import dataclasses
import functools
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import Self

from headrace.pipeline.core.artifact import Artifact, Balance, TaskOutput
from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.progress import TRAIL, follow_trail
from headrace.pipeline.core.settings import canonical, digest, plain, unhashed
from headrace.pipeline.core.user_classes import code_files

FACTS_JSON = Path(__file__).with_name("stage_facts.json")
OF_KIND = "."
"""The mark before the part of a name that distinguishes stages of one class in a run: ``column.quality``."""


def kind_of(stage: str) -> str:
    """Returns the name of the class of ``stage``, which is the name of its folder: ``column`` of ``column.quality``."""
    return stage.partition(OF_KIND)[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentCounts:
    """The counts of a stage that keeps documents and drops others (``kept``, ``dropped:RULE``), and their names."""

    read: str
    """The count of what it reads."""
    unit: str
    """The name of what it reads: records or documents."""
    text_bytes: str
    """The count of the UTF-8 bytes of the texts that it keeps."""
    dropped_title: str
    """The name of what it drops, in the funnel."""
    kept_title: str
    """The name of what it keeps, in the funnel."""
    kept_short: str
    """The same in a terminal."""
    stores_documents: bool = True
    """Whether its artifact holds the documents, not only an index of them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageFacts:
    """The facts of one stage; see the class variables of ``Stage``."""

    name: str
    module: str
    """The module of its class."""
    class_name: str
    distributed: bool
    is_of_run: bool
    headline: tuple[str, ...]
    describes_documents: bool
    document_counts: DocumentCounts | None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "StageFacts":
        """Returns the facts that the JSON ``values`` hold."""
        counts = values["document_counts"] and DocumentCounts(**values["document_counts"])
        return cls(**{**values, "headline": tuple(values["headline"]), "document_counts": counts})


FACTS: Mapping[str, StageFacts] = {
    values["name"]: StageFacts.read(values) for values in json.loads(FACTS_JSON.read_text(encoding="utf-8"))
}
"""The facts of each stage: those of a run in the order of the line, then others."""
DOCUMENT_COUNTS: Mapping[str, DocumentCounts] = {
    name: facts.document_counts for name, facts in FACTS.items() if facts.document_counts is not None
}
"""The stages that keep documents and drop others, in the order of the line."""
STORING = tuple(name for name, counts in DOCUMENT_COUNTS.items() if counts.stores_documents)
"""The stages of ``DOCUMENT_COUNTS`` whose artifacts hold the documents."""


Inputs = Mapping[str, Artifact]
"""The finished artifacts a stage reads, by stage name."""

PhaseWork = Callable[[int, Inputs, TaskOutput], "Counter[str]"]
"""The work of one task: (task number, inputs, output) -> counts. Its number is in the names of its files."""


@dataclasses.dataclass(frozen=True)
class Phase:
    """``tasks`` independent pieces of work, numbered from 0."""

    name: str
    tasks: int
    run: PhaseWork
    raw_bytes: int = 0
    """Bytes of the raw files that the tasks read, for the display of progress."""


def counted(counts: "Counter[str]", prefix: str) -> int:
    """Returns the sum of the counts whose names begin with ``prefix``."""
    return sum(number for name, number in counts.items() if name.startswith(prefix))


@dataclasses.dataclass(frozen=True)
class RawFile:
    """One file from outside the pipeline: its name (part of document ids), size in bytes and SHA-256."""

    name: str
    bytes: int
    sha256: str


def raw_file(name: str, path: Path) -> RawFile:
    """Returns the record of the local file ``path`` under ``name``. A process hashes each state once."""
    record = _record(path, file_state(path))
    return RawFile(name, record.bytes, record.sha256)


def file_state(path: str | Path) -> tuple[int, int, int]:
    """Returns size, modification time and change time of a local file. Every write changes one of them, even when the
    writer resets the modification time. The file is opened, because only then an NFS client asks the server."""
    with open(path, "rb") as stream:
        state = os.fstat(stream.fileno())
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns


@functools.cache
def _record(path: Path, state: tuple[int, int, int]) -> FileRecord:
    return FileRecord.of(path)


def changed(where: str, change: str) -> RetryableError:
    """Returns the error for a raw file that changed after the run was planned."""
    return RetryableError(
        where, f"{change} since the run was planned", "run again: new content has an address of its own"
    )


def refuse_changes(planned: Sequence[RawFile], present: Sequence[RawFile]) -> None:
    """Compares the raw files of the plan with the present ones.

    Raises:
        RetryableError: naming the first difference.
    """
    for before, now in itertools.zip_longest(planned, present):
        if before is None or now is None:
            raise changed((before or now).name, "was added" if before is None else "was removed")
        if before != now:
            raise changed(now.name, f"has changed (SHA-256 {now.sha256[:12]}, it was {before.sha256[:12]})")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of the line. Subclasses set the class variables, ``inputs`` and ``phases``.

    A change of ``name``, ``distributed``, ``headline``, ``document_counts``, ``describes_documents`` or ``is_of_run``
    is written to stage_facts.json with ``python tests/pipeline/test_stage_facts.py``.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    distributed: ClassVar[bool] = False
    """True when many ranks enter the stage's single task together (training)."""
    accepts_empty: ClassVar[bool] = False
    """True when the stage has a result for inputs without any document, too."""
    remedy: ClassVar[str] = "run again"
    """The remedy in the message when a rank of a distributed stage was killed."""
    headline: ClassVar[tuple[str, ...]] = ()
    """The main counts of its result, for ``headrace status``."""
    document_counts: ClassVar[DocumentCounts | None] = None
    """The names of its counts, if it keeps documents and drops others."""
    card_counts: ClassVar[Mapping[str, str]] = {}
    """Its counts on the model card, with their names there."""
    describes_documents: ClassVar[bool] = False
    """True when its artifact holds facts about single documents, which ``headrace why`` prints."""
    is_of_run: ClassVar[bool] = True
    """False when a command makes its artifact for its user, not for a run."""
    progress_file: ClassVar[str] = TRAIL
    """The file below the artifact's folder in which the ranks of a distributed stage write their progress."""

    planned: tuple[RawFile, ...] | None = unhashed(None)
    """The raw files at the time of planning; None for a stage outside a run."""

    @property
    def device(self) -> str:
        """The device of its ranks: ``cpu``, ``cuda``, or ``auto``, a GPU if there is one."""
        return "cpu"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the stages whose artifacts it reads. Most subclasses name them in a class variable."""
        return ()

    @classmethod
    def facts(cls) -> StageFacts:
        """Returns what others have to know about it without importing it."""
        return StageFacts(
            name=cls.name,
            module=cls.__module__,
            class_name=cls.__name__,
            distributed=cls.distributed,
            is_of_run=cls.is_of_run,
            headline=cls.headline,
            describes_documents=cls.describes_documents,
            document_counts=cls.document_counts,
        )

    def planned_as(self, description: Mapping[str, Any]) -> Self:
        """Returns this stage with the raw files of ``description``, which was made when the run was planned."""
        return dataclasses.replace(self, planned=tuple(RawFile(**file) for file in description["raw_files"]))

    def check_raw_files(self) -> None:
        """Compares the raw files with the planned ones, before and after each task.

        Raises:
            RetryableError: naming the first that differs.
        """
        if self.planned:
            refuse_changes(self.planned, self.raw_files())

    def check_start(self) -> None:
        """Refuses, before a run starts, settings with which the stage cannot succeed."""

    def check_after(self, stage: str, artifact: Artifact) -> None:
        """Refuses the ``artifact`` of an earlier ``stage`` with which this one cannot succeed, before others run."""

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        """Returns the phases for the number of shards of each input. A cluster needs them before any input exists."""
        raise TypeError(f"{type(self).__name__} does not define its phases")

    def show_progress(self, looks: Iterable[Sequence[Mapping[str, Any]]]) -> None:
        """Shows the progress of the ranks: each of ``looks`` has the new rows of ``progress_file`` or of the starts."""
        follow_trail(self.name, looks)

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        """Returns the equations that ``counts`` must satisfy, some with the inputs, before the artifact is finished.

        Raises:
            TaskError: when the counts show that the result is wrong.
        """
        return ()

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the files from outside the pipeline whose content decides the result."""
        return ()

    def description(self, addresses: Mapping[str, str]) -> dict[str, object]:
        """Returns everything that decides the result, as JSON values. ``address_of`` hashes it."""
        files = [dataclasses.asdict(file) for file in self.raw_files()]
        return {**self.without_raw_files(addresses), "raw_files": files}

    def planned_description(self, addresses: Mapping[str, str]) -> dict[str, object]:
        """Returns ``description`` with the raw files of the plan. Without a plan they are read."""
        files = self.raw_files() if self.planned is None else self.planned
        return {**self.without_raw_files(addresses), "raw_files": [dataclasses.asdict(file) for file in files]}

    def without_raw_files(self, addresses: Mapping[str, str]) -> dict[str, object]:
        """Returns the part of ``description`` for which no raw file is read.

        ``settings`` are for readers: a manifest can be read without the code that wrote it. ``hashed`` are the same
        settings without those at their default: a new field with a default changes no address. Where classes of the
        user's own are among them, ``code`` has the checksums of their files.
        """
        code = {file.name: raw_file(file.name, file).sha256 for file in code_files(self)}
        return {
            "stage": self.name,
            "version": self.version,
            "settings": plain(self),
            "hashed": canonical(self) | ({"code": code} if code else {}),
            "inputs": {name: addresses[name] for name in self.inputs},
        }

    def address(self, addresses: Mapping[str, str]) -> str:
        """Returns the name of the artifact's folder."""
        return address_of(self.description(addresses))


def address_of(description: Mapping[str, Any]) -> str:
    """Returns the address of the artifact that ``description`` describes: a hash of all of it but ``settings``."""
    return digest({name: value for name, value in description.items() if name != "settings"})


def label_of_manifest(manifest: Mapping[str, Any]) -> str:
    """Returns ``<stage>/<address>`` of the artifact that ``manifest`` describes, whatever its folder is."""
    described = {name: manifest[name] for name in ("stage", "version", "hashed", "inputs", "raw_files")}
    return f"{kind_of(manifest['stage'])}/{address_of(described)}"
