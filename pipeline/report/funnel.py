"""The funnel of a run: how many documents each stage read, dropped and kept. Page, terminal, wandb and API show it.

records read    55,303
readable        51,877   unreadable   3,426
kept            20,875   dropped     31,002
unique          17,665   duplicates   3,210

A stage is a step of the funnel when its class names its counts of documents (``Stage.document_counts``). Counts of an
artifact become ranked rows, whose bars have one scale: a full bar is the whole total.

{"dropped:few_words": 30, "dropped:curly_bracket": 10, "kept": 60} ── count_rows("dropped:", total=100) ──>
    few_words        30   30 %   ███░░░░░░░
    curly_bracket    10   10 %   █░░░░░░░░░
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.stage import DOCUMENT_COUNTS, DocumentCounts
from headrace.pipeline.report.formatting import count, percent, short

DROPPED = "dropped:"
"""The beginning of the names of counts of a rule that drops documents."""
ROUTED = "routed:"
"""The beginning of the names of counts of the funnel of one language."""
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


@dataclasses.dataclass(frozen=True)
class CountRow:
    """A name with its count. ``share`` is the count divided by a total, 0 to 1, and the length of the bar."""

    name: str
    count: int
    share: float | None


def count_rows(counts: Mapping[str, int], prefix: str, total: int) -> list[CountRow]:
    """Returns the counts whose keys begin with ``prefix``, largest first.

    Shares are of ``total``; None when it is 0.
    """
    numbers = {key.removeprefix(prefix): n for key, n in counts.items() if key.startswith(prefix) and n > 0}
    ranked = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return [CountRow(name, n, n / total if total else None) for name, n in ranked]


def shortened(ranked: list[CountRow], shown: int) -> list[CountRow]:
    """Returns the first ``shown`` of ``ranked``; two or more others are summed up in one row."""
    if len(ranked) <= shown + 1:
        return ranked
    rest = ranked[shown:]
    share = None if rest[0].share is None else sum(row.share or 0 for row in rest)
    return [*ranked[:shown], CountRow(f"{len(rest)} others", sum(row.count for row in rest), share)]


@dataclasses.dataclass(frozen=True)
class LanguageFunnel:
    """The documents of one language and script that the filter ``by_language`` judged."""

    name: str
    kept: int
    dropped: "Counter[str]"
    """The number of documents that each rule dropped, also a rule of a later filter."""

    @property
    def read(self) -> int:
        return self.kept + self.dropped.total()


def language_funnels(counts: Mapping[str, int]) -> list[LanguageFunnel]:
    """Returns the funnel of each language of the counts ``routed:<language>:<rule or kept>``, the largest first."""
    languages: dict[str, Counter[str]] = {}
    for key, number in counts.items():
        if key.startswith(ROUTED):
            name, _, rule = key.removeprefix(ROUTED).partition(":")
            languages.setdefault(name, Counter())[rule] += number
    funnels = [LanguageFunnel(name, rules.pop(KEPT, 0), rules) for name, rules in languages.items()]
    return sorted(funnels, key=lambda language: (-language.read, language.name))


def histogram(counts: Mapping[str, int], prefix: str) -> list[tuple[int, int]]:
    """Returns (lower bound, count) of the keys ``<prefix><power of two>``, ascending; empty powers between are 0."""
    numbers = {int(key.removeprefix(prefix)): n for key, n in counts.items() if key.startswith(prefix)}
    if not numbers:
        return []
    first, last = min(numbers).bit_length(), max(numbers).bit_length()
    bounds = [1 << (bits - 1) if bits else 0 for bits in range(first, last + 1)]
    return [(bound, numbers.get(bound, 0)) for bound in bounds]


def kept_sentence(inputs: Mapping[str, Artifact]) -> Iterator[str]:
    """Yields the sentence on what of the records was kept; none before two stages have finished."""
    stages = funnel(inputs)
    if len(stages) > 1:
        first, last = stages[0], stages[-1]
        tokens = f": {short(inputs['tokens'].counts['tokens'])} tokens" if "tokens" in inputs else ""
        yield f"Of {count(first.read)} {first.names.unit}, {count(last.kept)} were kept{tokens}."
