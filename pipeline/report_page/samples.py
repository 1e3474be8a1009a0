"""A few documents to look at: what each rule dropped, and what was taken for a near duplicate.

Only a few shards, spread evenly, are opened, and each only as far as needed: a report costs the same for a terabyte.
"""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from data_prep.document import read_documents
from pipeline.core.artifact import Artifact
from pipeline.facts import alternately
from pipeline.report_page.formatting import visible

T = TypeVar("T")

SHARDS = 8
"""Shards that samples are taken from."""
DOCUMENTS_PER_SHARD = 5_000
"""How far a shard is read in search of rules that seldom decide."""
PER_RULE = 3
CHARACTERS = 300
VALUE_CHARACTERS = 150


@dataclasses.dataclass(frozen=True)
class Sample:
    """The beginning of a dropped document, and the value that decided."""

    id: str
    url: str
    value: str
    text: str


def dropped(artifact: Artifact, rules: Iterable[str]) -> dict[str, list[Sample]]:
    """Up to ``PER_RULE`` documents that ``artifact`` dropped, for each of ``rules``, out of several shards."""
    wanted = frozenset(rules)
    found: dict[str, list[list[Sample]]] = defaultdict(list)
    for name in spread(names(artifact, "dropped"), SHARDS) if wanted else []:
        for rule, samples in _of_shard(artifact.path(name), wanted).items():
            found[rule].append(samples)
    return {rule: alternately(shards)[:PER_RULE] for rule, shards in sorted(found.items())}


def _of_shard(path: Path, rules: frozenset[str]) -> dict[str, list[Sample]]:
    """Up to ``PER_RULE`` of the first documents of a shard for each rule; stops when all rules have theirs."""
    found: dict[str, list[Sample]] = defaultdict(list)
    full = 0
    for document in itertools.islice(read_documents(path), DOCUMENTS_PER_SHARD):
        drop = document.metadata.get("drop") or {}
        rule = str(drop.get("rule", ""))
        if rule not in rules or len(found[rule]) == PER_RULE:
            continue
        url = visible(str(document.metadata.get("url") or ""), CHARACTERS)
        value = visible(str(drop.get("value", "")), VALUE_CHARACTERS)
        found[rule].append(Sample(visible(document.id, CHARACTERS), url, value, visible(document.text, CHARACTERS)))
        full += len(found[rule]) == PER_RULE
        if full == len(rules):
            break
    return found


def names(artifact: Artifact, kind: str) -> list[str]:
    """The shards of ``kind`` by name: unlike ``Artifact.shards``, none is opened."""
    return sorted(name for name in artifact.manifest["files"] if name.startswith(f"{kind}/"))


def spread(items: Sequence[T], wanted: int) -> list[T]:
    """At most ``wanted`` of the ``items``, at even distances, the first among them."""
    step = max(1.0, len(items) / wanted)
    return [items[int(i * step)] for i in range(min(wanted, len(items)))]
