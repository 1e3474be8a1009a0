"""The funnel of a run: how many documents each stage read, dropped and kept. Page, terminal, wandb and API show it.

records read    55,303
readable        51,877   unreadable   3,426
kept            20,875   dropped     31,002
unique          17,665   duplicates   3,210

A stage is a step of the funnel when its class names its counts of documents (``Stage.document_counts``).
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.stage_facts import DOCUMENT_COUNTS, DocumentCounts
from headrace.pipeline.report.formatting import count, percent, short

DROPPED = "dropped:"
"""The beginning of the names of counts of a rule that drops documents."""
KEPT = "kept"
"""The count of documents that a stage kept; it is missing when there are none."""


def dropped(counts: Mapping[str, int]) -> "Counter[str]":
    """Returns the number of dropped documents for each rule."""
    return Counter({key.removeprefix(DROPPED): n for key, n in counts.items() if key.startswith(DROPPED)})


@dataclasses.dataclass(frozen=True)
class RuleDrops:
    """The documents that one rule of a stage dropped; ``share`` is of the ``documents`` that the stage read."""

    stage: str
    rule: str
    dropped: int
    documents: int
    share: float


@dataclasses.dataclass(frozen=True)
class StageFunnel:
    """The documents that one finished stage read, dropped and kept."""

    stage: str
    counts: "Counter[str]"
    names: DocumentCounts

    @classmethod
    def of(cls, stage: str, artifact: Artifact) -> "StageFunnel":
        return cls(stage, artifact.counts, DOCUMENT_COUNTS[stage])

    @property
    def is_first(self) -> bool:
        """Whether it reads what no other stage has read."""
        return self.stage == next(iter(DOCUMENT_COUNTS))

    @property
    def read(self) -> int:
        return self.counts[self.names.read]

    @property
    def kept(self) -> int:
        return self.counts[KEPT]

    @property
    def text_bytes(self) -> int | None:
        """The bytes of UTF-8 of what it kept; None when they were not counted."""
        return self.counts.get(self.names.text_bytes)

    @property
    def dropped(self) -> "Counter[str]":
        """The number of documents that each rule dropped."""
        return dropped(self.counts)

    @property
    def rules(self) -> Iterator[RuleDrops]:
        """The documents that each rule dropped, the most frequent rule first."""
        numbers = {rule: number for rule, number in self.dropped.items() if number}
        documents = self.kept + sum(numbers.values())
        for rule, number in sorted(numbers.items(), key=lambda item: (-item[1], item[0])):
            yield RuleDrops(self.stage, rule, number, documents, number / documents)


def funnel(artifacts: Mapping[str, Artifact]) -> list[StageFunnel]:
    """Returns what each stage of ``artifacts`` that drops documents kept, in the order of the line."""
    return [StageFunnel.of(stage, artifacts[stage]) for stage in DOCUMENT_COUNTS if stage in artifacts]


@dataclasses.dataclass(frozen=True)
class FunnelStep:
    """The documents after one step of the funnel."""

    name: str
    documents: int
    share: float | None
    """The part of all records; None without any."""
    bytes: int | None
    """The bytes of UTF-8 of their texts; None when they are not known."""


@dataclasses.dataclass(frozen=True)
class FunnelColumn:
    """A column of the steps: its name in wandb and on the page, its value, and how the page shows a value."""

    name: str
    title: str
    value: Callable[[FunnelStep], float | None]
    text: Callable[[float | None], str]
    is_optional: bool = False
    """Whether the page leaves it out when no step has a value."""


def _bytes(number: float | None) -> str:
    return "" if number is None else short(number)


COLUMNS = (
    FunnelColumn("documents", "documents", lambda step: step.documents, count),
    FunnelColumn("share", "of all records", lambda step: step.share, percent),
    FunnelColumn("bytes", "bytes of text", lambda step: step.bytes, _bytes, is_optional=True),
)


def steps(stages: Sequence[StageFunnel]) -> list[FunnelStep]:
    """Returns the steps of the funnel of ``stages``: what the first one read, then what each one kept."""
    if not stages:
        return []
    first = stages[0]
    sizes: list[tuple[str, int, int | None]] = [(f"{first.names.unit} read", first.read, None)]
    sizes += [(stage.names.kept_title, stage.kept, stage.text_bytes) for stage in stages]
    return [
        FunnelStep(name, documents, documents / first.read if first.read else None, size)
        for name, documents, size in sizes
    ]
