"""The share of documents that are removed as duplicates, for each source file and each host.

    clean/documents     a:1 www.x.org   a:2 www.x.org   b:1 y.net   …     the first documents of a few shards
    unique/dropped      a:2 near_duplicate   …
                        ──> source a 1 of 2, host www.x.org 1 of 2

Few shards are read, each only as far as needed, so the cost of a report does not grow with the data.
"""

import itertools
from collections import Counter
from collections.abc import Iterator

from datatrove.data import Document

from headrace.data_prep.decontamination.removal import RULE
from headrace.data_prep.dedup.preference import host_of
from headrace.data_prep.document import DOCUMENTS, read_documents, split_id
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.documents.samples import DOCUMENTS_PER_SHARD, SHARDS, names, shard_of, spread
from headrace.pipeline.report.funnel import CountRow

ORIGINS_SHOWN = 12
"""Rows of a table: the origins that lost most documents."""


def origins(clean: Artifact, unique: Artifact) -> dict[str, list[CountRow]]:
    """Returns the source files and the hosts that lost most documents: how many, and the share of their own."""
    documents, removed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for name in spread(names(unique, "dropped"), SHARDS):
        dropped = {document.id for document in _first(unique, shard_of(name), "dropped") if _is_duplicate(document)}
        for document in _first(clean, shard_of(name), "documents"):
            own = _origins(document)
            documents.update(own)
            removed.update(own if document.id in dropped else ())
    return {kind: _rows(kind, documents, removed) for kind in ("source", "host")}


def _first(artifact: Artifact, shard: int, kind: str) -> Iterator[Document]:
    return itertools.islice(read_documents(artifact.shard(kind, shard, DOCUMENTS)), DOCUMENTS_PER_SHARD)


def _is_duplicate(document: Document) -> bool:
    return bool(document.metadata["drop"]["rule"] != RULE)


def _origins(document: Document) -> list[tuple[str, str]]:
    """Returns the source file of ``document``, and its host if it has one."""
    host = host_of(str(document.metadata.get("url") or ""))
    return [("source", split_id(document.id)[0]), *([("host", host)] if host else [])]


def _rows(kind: str, documents: "Counter[tuple[str, str]]", removed: "Counter[tuple[str, str]]") -> list[CountRow]:
    numbers = [(origin, number) for origin, number in removed.items() if origin[0] == kind]
    ranked = sorted(numbers, key=lambda row: (-row[1], row[0]))[:ORIGINS_SHOWN]
    return [CountRow(origin[1], number, number / documents[origin]) for origin, number in ranked]
