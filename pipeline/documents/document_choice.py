"""Chooses kept and dropped documents of a stage to look at: the first of each rule, random ones, those near a number.

first_of_rules   {rule: how many} ── evenly spaced shards, each as far as needed ──> documents by rule
lowest           a number of each document ── one pass ──> those with the smallest ones of each group:
                     hash of seed and id      random documents, the same for the same seed
                     distance to a threshold  those nearest to it, or farthest from it
nearest          the values of a column ──> the documents with those nearest to a value
chosen_documents, near_value                what ``headrace inspect`` shows
"""

import bisect
import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xxhash
from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.columns.scorer import read_values
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.filter import REMOVED_UNITS, removed_parts
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import Positive, Seed, value_of
from headrace.pipeline.documents.marking import Page, pages
from headrace.pipeline.documents.stored_documents import (
    COLUMNS_FIELD,
    KINDS,
    Located,
    counted_rules,
    dropping_rules,
    in_rows,
    limits_of,
    located,
    matches,
    names,
    number_of,
    rule_of,
    shard_of,
)

T = TypeVar("T")
SHARDS = 8
"""The number of shards that the report's samples are taken from."""
DOCUMENTS_PER_SHARD = 5_000
"""The number of documents of a shard that are searched for rules that seldom apply."""
KEPT = "kept"
REMOVED = tuple(f"removed_{unit}:" for unit in REMOVED_UNITS)
"""The beginnings of the names of counts of a rule."""
NUMBER = "5"

Accept = Callable[[Document], bool]
RankOf = Callable[[Document], "tuple[Any, ...] | float | None"]
"""The rank of a document; None leaves it out."""


def spread(items: Sequence[T], wanted: int) -> list[T]:
    """Returns at most ``wanted`` of the ``items``, evenly spaced, beginning with the first."""
    step = max(1.0, len(items) / wanted)
    return [items[int(i * step)] for i in range(min(wanted, len(items)))]


def alternately(groups: Iterable[Sequence[T]]) -> list[T]:
    """Returns the first item of each group, then the second of each, and so on."""
    rounds = itertools.zip_longest(*groups)
    return [item for group_round in rounds for item in group_round if item is not None]


def first_of_rules(
    artifact: Artifact, kind: str, wanted: Mapping[str, int], rules_of: Callable[[Document], Collection[str]]
) -> dict[str, list[Located]]:
    """Returns up to the ``wanted`` number of documents of ``kind`` for each rule, from several shards."""
    shards_by_rule: dict[str, list[list[Located]]] = defaultdict(list)
    for name in spread(names(artifact, kind), SHARDS) if wanted else []:
        for rule, documents in _of_shard(artifact.path(name), wanted, rules_of).items():
            shards_by_rule[rule].append([(shard_of(name), document) for document in documents])
    return {rule: alternately(shards)[: wanted[rule]] for rule, shards in sorted(shards_by_rule.items())}


def _of_shard(
    path: Path, wanted: Mapping[str, int], rules_of: Callable[[Document], Collection[str]]
) -> dict[str, list[Document]]:
    """Returns the first documents of a shard for each rule; stops reading when all are found."""
    documents_by_rule: dict[str, list[Document]] = defaultdict(list)
    missing = dict(wanted)
    for document in itertools.islice(read_documents(path), DOCUMENTS_PER_SHARD):
        for rule in missing.keys() & rules_of(document):
            documents_by_rule[rule].append(document)
            missing[rule] -= 1
            if not missing[rule]:
                del missing[rule]
        if not missing:
            break
    return documents_by_rule


def first_accepted(artifact: Artifact, kind: str, accept: Accept, number: int) -> list[Located]:
    """Returns up to ``number`` documents that ``accept`` takes, from evenly spaced shards, then from the others."""
    chosen = spread(names(artifact, kind), number)
    groups: list[list[Located]] = []
    for index, name in enumerate([*chosen, *(name for name in names(artifact, kind) if name not in chosen)]):
        if index >= len(chosen) and sum(map(len, groups)) >= number:
            break
        accepted = itertools.islice(filter(accept, read_documents(artifact.path(name))), number)
        groups.append([(shard_of(name), document) for document in accepted])
    return alternately(groups)[:number]


def lowest(
    number: int, candidates: Iterable[Located], key: RankOf, group_of: Callable[[Document], str] = lambda document: ""
) -> dict[str, list[Located]]:
    """Returns the ``number`` documents of each group with the smallest ``key``, the smallest first.

    One pass, which holds no more documents than it returns; of equal keys the first document is taken.
    """
    groups: dict[str, list[tuple[Any, int, Located]]] = defaultdict(list)
    for position, candidate in enumerate(candidates):
        rank, group = key(candidate[1]), groups[group_of(candidate[1])]
        if rank is not None and (len(group) < number or rank < group[-1][0]):
            bisect.insort(group, (rank, position, candidate))
            del group[number:]
    return {name: [candidate for *_, candidate in group] for name, group in groups.items()}


def by_hash(seed: int) -> RankOf:
    """Returns the key of random documents, a hash of ``seed`` and id: no other document changes what is drawn."""
    return lambda document: (xxhash.xxh64_intdigest(document.id, seed), document.id)


def at_random(seed: int, artifact: Artifact, kind: str, number: int, accept: Accept | None = None) -> list[Located]:
    """Returns ``number`` random documents of ``kind``, of those that ``accept`` takes."""
    candidates = (candidate for candidate in located(artifact, kind) if accept is None or accept(candidate[1]))
    return lowest(number, candidates, by_hash(seed)).get("", [])


def nearest(
    name: str, column: Artifact, unique: Artifact, value: float, number: int, shards: Iterable[int] | None = None
) -> list[Located]:
    """Returns up to ``number`` documents of ``unique`` whose values are nearest to ``value``, in ascending order of
    these. Each has its value in the metadata. Only ``shards`` are looked at, if they are given."""
    candidates = list[tuple[float, float, int, int]]()
    for shard in range(column.shard_count) if shards is None else shards:
        values = read_values(column, shard)
        distances = np.abs(values - value)
        rows = np.argsort(distances, kind="stable")[:number].tolist()
        candidates += [
            (float(distances[row]), float(values[row]), shard, row) for row in rows if not math.isnan(distances[row])
        ]
    best = sorted((measured, shard, row) for _, measured, shard, row in sorted(candidates)[:number])
    documents = in_rows(unique, [(shard, row) for _, shard, row in best])
    for measured, shard, row in best:
        documents[shard, row].metadata[COLUMNS_FIELD] = {name: measured}
    return [(shard, documents[shard, row]) for _, shard, row in best]


@dataclasses.dataclass(frozen=True)
class Pages:
    """Kept pages, dropped pages, the rule that was given, and how they were chosen (empty: the first ones)."""

    kept: list[Page]
    dropped: list[Page]
    rule: str = ""
    choice: str = ""


def chosen_documents(
    artifact: Artifact,
    texts: Artifact | None,
    cleaning: Cleaning,
    rule: str = "",
    number: str = "",
    seed: str = "",
    extreme: str | None = None,
    only: str | None = None,
) -> Pages:
    """Returns up to ``number`` documents that ``artifact`` keeps and up to ``number`` that it dropped, or one kind.

    A ``rule`` selects the documents that it dropped, and kept documents that lost lines or sentences by it; if it
    removes none, kept documents are chosen with ``only`` alone. The rule ``kept`` leaves the dropped ones out. The
    documents are the first ones of evenly spaced shards, or random ones for a ``seed``, or the dropped ones that are
    ``extreme``. ``texts`` has the documents before ``cleaning``; None: ``artifact`` does.

    Raises:
        ConfigError: when nothing was dropped or removed by ``rule``, ``number`` or ``seed`` is not a number, or an
            ``extreme`` is asked for that needs a threshold.
    """
    wanted, choice = value_of(Positive, number or NUMBER, "--sample"), ""
    drawn = int(value_of(Seed, seed, "--seed")) if seed else None
    key: RankOf | None = None
    if extreme:
        key, choice = _distance(artifact, cleaning, rule, extreme)
    elif seed:
        choice = f"random, seed {seed}"

    def choose(kind: str, accept: Accept) -> list[Located]:
        if key is not None:
            return lowest(wanted, located(artifact, kind), key).get("", [])
        if drawn is not None:
            return at_random(drawn, artifact, kind, wanted, accept)
        return first_accepted(artifact, kind, accept, wanted)

    kinds = {KEPT: KINDS[:1], "dropped": KINDS[1:]}.get(only or ("dropped" if extreme else ""), KINDS)
    kept, dropped = (
        pages(choose(kind, accept), texts, cleaning) if kind in kinds and accept else []
        for kind, accept in zip(KINDS, _conditions(rule, artifact, only == KEPT), strict=True)
    )
    return Pages(kept, dropped, "" if rule == KEPT else rule, choice)


def _distance(artifact: Artifact, cleaning: Cleaning, rule: str, extreme: str) -> tuple[RankOf, str]:
    """Returns the distance of a dropped document's number to the thresholds of ``rule``, negative for the farthest
    ones, and the choice in words."""
    if not rule:
        raise ConfigError("--extreme", "needs the rule whose threshold is meant", "give --rule RULE")
    limits = limits_of(artifact, cleaning, rule)
    shown = ", ".join(f"{name}={limit:g}" for name, limit in limits.items())
    sign = 1 if extreme == "nearest" else -1

    def distance(document: Document) -> float | None:
        number = number_of(document, rule)
        return None if number is None else sign * min(abs(number - limit) for limit in limits.values())

    return distance, f"{extreme} {'to' if extreme == 'nearest' else 'from'} {shown}"


def _conditions(rule: str, artifact: Artifact, only_kept: bool) -> tuple[Accept | None, Accept | None]:
    """Returns the conditions for kept and for dropped documents that ``rule`` selects; None: it selects none."""
    dropping, removing = dropping_rules(artifact), counted_rules(artifact, *REMOVED)
    if rule == KEPT:
        return lambda document: True, None
    if rule in removing:
        by = rule if rule in dropping else rule.partition(".")[0]

        def lost_parts(document: Document) -> bool:
            return any(name == rule for _, name, _ in removed_parts(document))

        return lost_parts, lambda document: matches(by, rule_of(document))
    if not rule or rule in dropping:
        kept = None if rule and not only_kept else lambda document: True
        return kept, lambda document: matches(rule, rule_of(document))
    problem = f"{artifact.folder.parent.name} dropped and removed nothing by {rule!r}"
    raise ConfigError("RULE", problem, suggestion(rule, {KEPT, *dropping, *removing}))


def near_value(
    score: str,
    value: float,
    artifact: Artifact,
    column: Artifact | None,
    texts: Artifact | None,
    cleaning: Cleaning,
    number: str,
) -> Pages:
    """Returns up to ``number`` documents of each kind whose values of ``score`` are nearest to ``value``.

    They are those of ``column``, a column of ``artifact``; without it numbers that a filter stored with the documents.

    Raises:
        ConfigError: when no document has such a number.
    """
    wanted, choice = value_of(Positive, number or NUMBER, "--sample"), f"{score} near {value:g}"
    if column is not None:
        return Pages(pages(nearest(score, column, artifact, value, wanted), texts, cleaning), [], choice=choice)
    kept, dropped = (pages(near_stored(score, artifact, kind, value, wanted), texts, cleaning) for kind in KINDS)
    if not kept and not dropped:
        problem = f"no filter stored a number {score!r} with the documents of {artifact.folder.parent.name}"
        remedy = "give one that a filter stores, such as language_score or classifier.LABEL, or a column of unique"
        raise ConfigError("--score", problem, remedy)
    return Pages(kept, dropped, choice=choice)


def near_stored(score: str, artifact: Artifact, kind: str, value: float, number: int) -> list[Located]:
    """Returns the ``number`` documents whose stored numbers ``score`` are nearest to ``value``, by rising numbers.

    ``score`` is a field of the metadata, or FIELD.LABEL of one that holds a number for each label. Each document has it
    in the metadata as the value of a column.
    """

    def distance(document: Document) -> float | None:
        stored = _stored_number(document, score)
        return None if stored is None else abs(stored - value)

    near = lowest(number, located(artifact, kind), distance).get("", [])
    for _, document in near:
        document.metadata[COLUMNS_FIELD] = {score: _stored_number(document, score)}
    return sorted(near, key=lambda candidate: candidate[1].metadata[COLUMNS_FIELD][score])


def _stored_number(document: Document, score: str) -> float | None:
    field, _, label = score.partition(".")
    stored = document.metadata.get(field)
    if label:
        stored = stored.get(label) if isinstance(stored, dict) else None
    is_number = isinstance(stored, int | float) and not isinstance(stored, bool) and math.isfinite(stored)
    return float(stored) if is_number else None
