"""``headrace inspect``: a few documents of a stage to read, kept ones and dropped ones, out of several shards.

headrace inspect clean                        5 that were kept and 5 that were dropped
headrace inspect clean kept 20                20 that were kept
headrace inspect clean c4_lines.sentences 3   3 that this rule dropped; c4_lines: any rule of that filter
"""

import itertools
from collections.abc import Callable, Iterator, Sequence

from datatrove.data import Document

from data_prep.document import read_documents
from pipeline.core.artifact import Artifact
from pipeline.core.errors import ConfigError
from pipeline.core.settings import suggestion
from pipeline.facts import Fact, alternately
from pipeline.report_page.samples import names, spread
from pipeline.runner import Step
from pipeline.whereabouts import need
from pipeline.why import cleaning, decision

STAGES = ("clean", "unique")
"""The stages that keep documents and drop others."""
KEPT = "kept"
DROPPED = ("dropped:",)
REMOVED = ("removed_lines:", "removed_sentences:")
"""How the counts begin that tell what a rule did."""
NUMBER = 5
LINES = 8
LINE_CHARACTERS = 160

Accept = Callable[[Document], bool]


def documents(steps: Sequence[Step], stage: str, rule: str = "", number: str = "") -> Iterator[Fact]:
    """Up to ``number`` documents that ``stage`` kept (``rule`` is ``kept``) or dropped; without a rule, both.

    Of a rule that only removes lines or sentences, documents that were kept without them.

    Raises:
        ConfigError: when the stage has no documents, never dropped or removed a thing by ``rule``, or ``number`` is
            none.
        ArtifactError: when the stage is not finished.
    """
    if stage not in STAGES:
        raise ConfigError("STAGE", f"{stage!r} does not keep or drop documents", f"give one of {', '.join(STAGES)}")
    if not number and rule.isascii() and rule.isdigit():
        rule, number = "", rule
    wanted = _positive(number or str(NUMBER))
    artifact = need(stage, steps)
    found = [one for kind, accept in _choices(rule, artifact, stage) for one in sample(artifact, kind, accept, wanted)]
    for place, document in enumerate(found):
        if place:
            yield "", ""
        yield from facts_of(document)


def _choices(rule: str, artifact: Artifact, stage: str) -> list[tuple[str, Accept]]:
    """Which documents ``rule`` asks for: of which kind of shards, and which of those."""
    kept: tuple[str, Accept] = ("documents", lambda document: True)
    dropped: tuple[str, Accept] = ("dropped", lambda document: _is_by(rule, document))
    dropping, removing = _rules(artifact, DROPPED), _rules(artifact, REMOVED)
    dropping |= {name.partition(".")[0] for name in dropping}
    if not rule:
        return [kept, dropped]
    if rule == KEPT:
        return [kept]
    if rule in dropping:
        return [dropped]
    if rule in removing:
        return [("documents", lambda document: _lost_by(rule, document))]
    known = {KEPT, *dropping, *removing}
    raise ConfigError("RULE", f"{stage} dropped and removed nothing by {rule!r}", suggestion(rule, known))


def _rules(artifact: Artifact, beginnings: tuple[str, ...]) -> set[str]:
    """The rules that ``artifact`` has counts of under ``beginnings``."""
    return {key.partition(":")[2] for key in artifact.counts if key.startswith(beginnings)}


def sample(artifact: Artifact, kind: str, accept: Accept, number: int) -> list[Document]:
    """Up to ``number`` documents that ``accept`` takes, from shards at even distances; from the others where those do
    not hold enough."""
    chosen = spread(names(artifact, kind), number)
    groups: list[list[Document]] = []
    for place, name in enumerate([*chosen, *(name for name in names(artifact, kind) if name not in chosen)]):
        if place >= len(chosen) and sum(map(len, groups)) >= number:
            break
        groups.append(list(itertools.islice(filter(accept, read_documents(artifact.path(name))), number)))
    return alternately(groups)[:number]


def facts_of(document: Document) -> Iterator[Fact]:
    yield "id", document.id
    if url := document.metadata.get("url"):
        yield "url", str(url)
    if "drop" in document.metadata:
        yield from decision(document.metadata)
    yield from cleaning(document)
    lines = document.text.splitlines()
    for line in lines[:LINES]:
        yield "text", line[:LINE_CHARACTERS] + "…" * (len(line) > LINE_CHARACTERS)
    if len(lines) > LINES:
        yield "text", f"… {len(lines) - LINES:,} more lines"


def _is_by(rule: str, document: Document) -> bool:
    """Whether ``rule``, or a rule of the filter ``rule``, dropped the document."""
    by = str((document.metadata.get("drop") or {}).get("rule", ""))
    return not rule or by == rule or by.startswith(f"{rule}.")


def _lost_by(rule: str, document: Document) -> bool:
    """Whether ``rule`` removed lines or sentences of the document."""
    return any(rule in document.metadata.get(f"removed_{unit}", {}) for unit in ("lines", "sentences"))


def _positive(word: str) -> int:
    if not (word.isascii() and word.isdigit() and int(word)):
        raise ConfigError("NUMBER", f"{word!r} is not a number of documents", "give 1 or more")
    return int(word)
