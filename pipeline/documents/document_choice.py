"""Chooses kept and dropped documents of a stage to look at: the first ones, random ones, or those near a threshold.

clean, rule c4_lines.end_mark, number 3 ──> Pages: 3 kept documents that lost lines by the rule, 3 dropped ones
"""

import dataclasses
import functools
import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import xxhash
from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.filter import REMOVED_UNITS, removed_parts
from headrace.data_prep.selection_rules.value_rules import Limit
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import Seed, value_of
from headrace.pipeline.documents.column_documents import COLUMNS_FIELD, nearest
from headrace.pipeline.documents.document_columns import column_named
from headrace.pipeline.documents.lookup import (
    KINDS,
    cleaning_of,
    counted_rules,
    document_stage,
    dropping_rules,
    need,
    rule_of,
)
from headrace.pipeline.documents.marking import Located, Page, matches, pages
from headrace.pipeline.documents.rule_numbers import limits_of, number_of
from headrace.pipeline.documents.samples import alternately, located, names, shard_of, spread
from headrace.pipeline.run.planned_stage import PlannedStage

KEPT = "kept"
REMOVED = tuple(f"removed_{unit}:" for unit in REMOVED_UNITS)
"""The beginnings of the names of counts of a rule."""
NUMBER = 5

Accept = Callable[[Document], bool]
Choose = Callable[[Artifact, str, Accept, int], list[Located]]
"""Chooses a number of accepted documents of a kind."""


@dataclasses.dataclass(frozen=True)
class Pages:
    """Kept pages, dropped pages, the rule that was given, and how they were chosen (empty: the first ones)."""

    kept: list[Page]
    dropped: list[Page]
    rule: str
    choice: str = ""


def chosen_documents(
    stages: Sequence[PlannedStage],
    stage: str,
    rule: str = "",
    number: str = "",
    seed: str = "",
    extreme: str | None = None,
    only: str | None = None,
) -> Pages:
    """Returns up to ``number`` documents that ``stage`` kept and up to ``number`` that it dropped, or one kind.

    A ``rule`` selects the documents that it dropped, and kept documents that lost lines or sentences by it; if it
    removes none, kept documents are chosen with ``only`` alone. The rule ``kept`` leaves the dropped ones out. The
    documents are the first ones of evenly spaced shards, or random ones for a ``seed``, or the dropped ones that are
    ``extreme``.

    Raises:
        ConfigError: when the stage has no documents, dropped and removed nothing by ``rule``, ``number`` or ``seed`` is
            not a number, or an ``extreme`` is asked for that needs a threshold.
        ArtifactError: when the stage, or texts before it, is not finished.
    """
    wanted = _positive(number or str(NUMBER))
    artifact, texts = document_stage(stage, stages), None if stage == "texts" else need("texts", stages)
    rules = cleaning_of(stages)
    choose, choice = _way(artifact, rules, rule, seed, extreme)
    kinds = {"kept": KINDS[:1], "dropped": KINDS[1:]}.get(only or ("dropped" if extreme else ""), KINDS)
    kept, dropped = (
        pages(choose(artifact, kind, accept, wanted), texts, rules) if kind in kinds and accept else []
        for kind, accept in zip(KINDS, _choices(rule, artifact, stage, only == KEPT), strict=True)
    )
    return Pages(kept, dropped, "" if rule == KEPT else rule, choice)


def near_value(stages: Sequence[PlannedStage], stage: str, score: str, around: str, number: str) -> Pages:
    """Returns up to ``number`` documents of each kind whose values of ``score`` are nearest to ``around``.

    Of unique it is a column; of another stage a number that a filter stored with its documents (``stored_near``).

    Raises:
        ConfigError: when the stage has no documents, there is no such column of numbers or stored number, or a number
            is none.
        ArtifactError: when the stage, the column, or texts, is not finished.
    """
    if not (score and around):
        raise ConfigError("--score", "and --around belong together", "give both: --score COLUMN --around NUMBER")
    value, wanted = float(value_of(Limit, around, "--around")), _positive(number or str(NUMBER))
    choice = f"{score} near {value:g}"
    if stage != "unique":
        artifact, texts = document_stage(stage, stages), None if stage == "texts" else need("texts", stages)
        kept, dropped = (
            pages(stored_near(score, artifact, kind, value, wanted), texts, cleaning_of(stages)) for kind in KINDS
        )
        if not kept and not dropped:
            problem = f"no filter stored a number {score!r} with the documents of {stage}"
            remedy = "give one that a filter stores, such as language_score or classifier.LABEL, or a column of unique"
            raise ConfigError("--score", problem, remedy)
        return Pages(kept, dropped, "", choice)
    column = column_named(score, stages)
    located_near = nearest(score, column, need(stage, stages), value, wanted)
    return Pages(pages(located_near, need("texts", stages), cleaning_of(stages)), [], "", choice)


def stored_near(score: str, artifact: Artifact, kind: str, value: float, number: int) -> list[Located]:
    """Returns the ``number`` documents whose stored numbers ``score`` are nearest to ``value``, by rising numbers.

    ``score`` is a field of the metadata, or FIELD.LABEL of one that holds a number for each label. Each document has it
    in the metadata as the value of a column.
    """
    measured = (
        (stored, candidate)
        for candidate in located(artifact, kind)
        if (stored := _stored_number(candidate[1], score)) is not None
    )
    near = sorted(heapq.nsmallest(number, measured, key=lambda pair: abs(pair[0] - value)), key=lambda pair: pair[0])
    for stored, (_, document) in near:
        document.metadata[COLUMNS_FIELD] = {score: stored}
    return [candidate for _, candidate in near]


def _stored_number(document: Document, score: str) -> float | None:
    field, _, label = score.partition(".")
    stored = document.metadata.get(field)
    if label:
        stored = stored.get(label) if isinstance(stored, dict) else None
    is_number = isinstance(stored, int | float) and not isinstance(stored, bool) and math.isfinite(stored)
    return float(stored) if is_number else None


def _way(artifact: Artifact, rules: Cleaning, rule: str, seed: str, extreme: str | None) -> tuple[Choose, str]:
    """Returns how documents are chosen: as a function, and in words for the reader."""
    if extreme is None:
        return (
            (functools.partial(at_random, int(value_of(Seed, seed, "--seed"))), f"random, seed {seed}")
            if seed
            else (sample, "")
        )
    if not rule:
        raise ConfigError("--extreme", "needs the rule whose threshold is meant", "give --rule RULE")
    limits = limits_of(artifact, rules, rule)
    shown = ", ".join(f"{name}={limit:g}" for name, limit in limits.items())
    choose = functools.partial(at_distance, rule, list(limits.values()), extreme == "farthest")
    return choose, f"{extreme} {'to' if extreme == 'nearest' else 'from'} {shown}"


def _choices(rule: str, artifact: Artifact, stage: str, only_kept: bool) -> tuple[Accept | None, Accept | None]:
    """Returns the conditions for kept and for dropped documents that ``rule`` selects; None: it selects none."""
    dropping, removing = dropping_rules(artifact), counted_rules(artifact, *REMOVED)
    if rule == KEPT:
        return lambda document: True, None
    if rule in removing:
        by = rule if rule in dropping else _filter(rule)
        return lambda document: _lost_by(rule, document), lambda document: matches(by, rule_of(document))
    if not rule or rule in dropping:
        kept = None if rule and not only_kept else lambda document: True
        return kept, lambda document: matches(rule, rule_of(document))
    known = {KEPT, *dropping, *removing}
    raise ConfigError("RULE", f"{stage} dropped and removed nothing by {rule!r}", suggestion(rule, known))


def sample(artifact: Artifact, kind: str, accept: Accept, number: int) -> list[Located]:
    """Returns up to ``number`` documents that ``accept`` takes, from evenly spaced shards, then from the others."""
    chosen = spread(names(artifact, kind), number)
    groups: list[list[Located]] = []
    for index, name in enumerate([*chosen, *(name for name in names(artifact, kind) if name not in chosen)]):
        if index >= len(chosen) and sum(map(len, groups)) >= number:
            break
        accepted = itertools.islice(filter(accept, read_documents(artifact.path(name))), number)
        groups.append([(shard_of(name), document) for document in accepted])
    return alternately(groups)[:number]


def at_random(seed: int, artifact: Artifact, kind: str, accept: Accept, number: int) -> list[Located]:
    """Returns ``number`` random documents that ``accept`` takes: those with the smallest hashes of seed and id."""
    accepted = (candidate for candidate in located(artifact, kind) if accept(candidate[1]))
    return lowest(seed, number, accepted, lambda document: "").get("", [])


def lowest(
    seed: int, number: int, candidates: Iterable[Located], group_of: Callable[[Document], str]
) -> dict[str, list[Located]]:
    """Returns the ``number`` documents of each group with the smallest hashes of seed and id, the smallest first.

    One pass, which holds no more documents than it returns. Neither the order of ``candidates`` nor other documents
    change which of two is drawn first.
    """
    heaps: dict[str, list[tuple[int, str, Located]]] = defaultdict(list)
    for candidate in candidates:
        identity = candidate[1].id
        entry = (-xxhash.xxh64_intdigest(identity, seed), identity, candidate)
        heap = heaps[group_of(candidate[1])]
        if len(heap) < number:
            heapq.heappush(heap, entry)
        elif entry[0] > heap[0][0]:
            heapq.heapreplace(heap, entry)
    return {group: [candidate for *_, candidate in sorted(heap, reverse=True)] for group, heap in heaps.items()}


def at_distance(
    rule: str, limits: Sequence[float], is_far: bool, artifact: Artifact, kind: str, accept: Accept, number: int
) -> list[Located]:
    """Returns the documents that ``rule`` dropped with numbers nearest to one of ``limits``, or farthest from all."""

    def distance(candidate: Located) -> float:
        measured = number_of(candidate[1], rule)
        assert measured is not None
        return min(abs(measured - limit) for limit in limits)

    measured = (
        candidate
        for candidate in located(artifact, kind)
        if accept(candidate[1]) and number_of(candidate[1], rule) is not None
    )
    return (heapq.nlargest if is_far else heapq.nsmallest)(number, measured, key=distance)


def _filter(rule: str) -> str:
    return rule.partition(".")[0]


def _lost_by(rule: str, document: Document) -> bool:
    """Whether ``rule`` removed lines or sentences of the document."""
    return any(name == rule for _, name, _ in removed_parts(document))


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ConfigError("NUMBER", f"{text!r} is not a number of documents", "give 1 or more")
    return int(text)
