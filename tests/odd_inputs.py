"""Marks, classifiers and settings with damage or odd values, each given to its reader.

A trial raises HeadraceError when the reader refuses its input, and AssertionError when it reads what is not there.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from datatrove.data import Document

from headrace.data_prep.classifiers.linear_classifier import HEAD, parsed
from headrace.data_prep.column import Columns
from headrace.data_prep.columns.scorer import ScoreKind, has_value
from headrace.data_prep.selected import SelectionRules
from headrace.data_prep.selection_rules.rules import Share, sorted_ranks
from headrace.pipeline.core.settings import decode
from headrace.pipeline.documents.audit_sheet import MARKS, AuditedPage, AuditSheet, read_marks
from tests.data_prep.adversarial import hostile_text
from tests.data_prep.small_classifier import small_classifier
from tests.data_prep.sources.malformed import damage

LARGE = (0, 1, -1, 2, 255, 2**15, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, 2**63 - 2, -(2**63), 2**64 - 1)
ODD = (
    None, True, False, "", "x", "\ud800", "\0", "1e999", "nan", "9" * 400, *LARGE, 1e308, -1e308, 5e-324, -0.0, 0.1,
    float("nan"), float("inf"), -float("inf"), 10**400, [], {}, [[]], [None], {"": None}, [1, 2, 3], ["a", "b"],
    "a" * 70_000,
)  # fmt: skip
SHEET = AuditSheet(
    "key", "first", 0, 2, {"clean": "a"}, (), tuple(AuditedPage(name, "", "text", "kept") for name in ("p:1", "p:2"))
)
TEXTS = ("", "The wheel of the old mill.", "水車", "\ud800".encode("utf-8", "replace").decode(), "word " * 3000)


def changed(chance: Random, value: Any) -> Any:
    """Returns ``value``, JSON values, with an odd one somewhere, or without an entry, or with one more."""
    if isinstance(value, Mapping) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        kind = chance.random()
        if kind < 0.1:
            return {name: item for name, item in value.items() if name != key}
        if kind < 0.2:
            return {**value, chance.choice([f"{key}x", "", "\ud800", "type"]): chance.choice(ODD)}
        return {**value, key: changed(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        return [
            *value[:place],
            *([] if chance.random() < 0.2 else [changed(chance, value[place])]),
            *value[place + 1 :],
        ]
    return chance.choice(ODD)


def several_changes(chance: Random, value: Any) -> Any:
    for _ in range(chance.choice([0, 1, 1, 1, 2, 4])):
        value = changed(chance, value)
    return value


def marks(folder: Path, chance: Random) -> None:
    page = {"sheet": SHEET.key, "id": "p:1", "mark": chance.choice(MARKS), "text": hostile_text(chance, 100)}
    lines = [several_changes(chance, page | {"id": identity}) for identity in ("p:1", "p:2")]
    data = b"\n".join(map(_json, lines)) + chance.choice([b"", b"\n", b"\r\n\r\n"])
    if chance.random() < 0.4:
        data = damage(chance, data)[0]
    elif chance.random() < 0.02:
        data = chance.choice([b"[" * 100_000, b'{"marks":' * 100_000, b'{"id": "p:1", "sheet": ' + b"9" * 5000 + b"}"])
    path = folder / "marks.jsonl"
    path.write_bytes(data)
    given = read_marks(path, SHEET)
    known = {page.id for page in SHEET.pages}
    assert all(identity in known and mark in MARKS for identity, mark in given.items()), given


def classifier(folder: Path, chance: Random) -> None:
    whole = small_classifier_bytes()
    header, _, arrays = whole[len(HEAD) : -32].partition(b"\n")
    if chance.random() < 0.5:
        data = damage(chance, whole)[0]
    else:
        values = json.loads(header)
        changes = chance.choice(
            [
                several_changes(chance, values),
                {**values, **{key: changed(chance, values[key]) for key in chance.sample(sorted(values), 1)}},
            ]
        )
        head = _json(changes) if chance.random() < 0.98 else b'{"about": ' + b"[" * 100_000
        numbers = arrays if chance.random() < 0.7 else damage(chance, arrays)[0]
        body = HEAD + head + b"\n" + numbers
        data = body + hashlib.sha256(body).digest()
    model = parsed(data, "a.model")
    for text in TEXTS:
        scores = model.scores(text)
        assert all(isinstance(name, str) for name in scores), scores
        assert len(scores) == len(model.classes), scores
        assert abs(sum(scores.values()) - 1) < 1e-6, scores
        assert all(0 <= score <= 1 for score in scores.values()), scores


@functools.cache
def small_classifier_bytes() -> bytes:
    """The file of a small classifier, which is trained once."""
    return small_classifier().to_bytes()


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


COLUMNS = (
    {"scorers": {"words": {"type": "length", "unit": "words"}, "size": {"type": "length"}}},
    {"scorers": {"a": {"type": "filter", "filter": {"type": "gopher_repetition"}, "value": "top_ngram_2"}}},
    {"scorers": {"a": {"type": "filter", "filter": {"type": "gopher_quality", "rules": [
        {"type": "word_count", "min_words": 50, "max_words": 100}]}}}},
    {"scorers": {"a": {"type": "filter", "filter": {"type": "fineweb_quality"}, "value": "line_punctuation"}}},
)  # fmt: skip
SELECTIONS = (
    {"type": "threshold", "column": "n", "min": 0.1, "max": 5.0},
    {"type": "any_of", "column": "t", "texts": ["en", "de"]},
    {"type": "share", "column": "n", "share": 0.3, "best": "lowest"},
    {
        "type": "copies",
        "column": "n",
        "steps": [{"at_least": 0.1, "copies": 0.5}, {"at_least": 2, "copies": 2.5}],
        "otherwise": 0.1,
        "seed": 1,
    },
    {"type": "copies", "column": "t", "texts": {"en": 2.5, "de": 0}, "otherwise": 1},
)
VALUES = {
    "n": np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, 0.1, 0.5, 1, 2, 3, 1e15]),
    "t": np.array(["", "en", "de", "\ud7ff", "x" * 64]),
}
KINDS_OF_VALUES: dict[str, ScoreKind] = {"n": float, "t": str}


def settings(folder: Path, chance: Random) -> None:
    if chance.random() < 0.5:
        columns = decode(Columns, several_changes(chance, chance.choice(COLUMNS)), "columns")
        for stage in columns.stages():
            stage.check_start()
            if not stage.scorer.learns:
                score, document = stage.scorer.scoring(None), Document(hostile_text(chance, 300), "a:0")
                assert isinstance(score(document), int | float | str | None)
        return
    rules = several_changes(chance, {"rules": chance.sample(SELECTIONS, chance.choice([1, 2, 3]))})
    selection = decode(SelectionRules, rules, "selection")
    selection.check_columns(KINDS_OF_VALUES)
    for rule in selection.rules:
        values = VALUES[rule.column]
        values = values if rule.takes_missing else values[has_value(values)]
        ids = [f"a:{number}" for number in range(len(values))]
        if isinstance(rule, Share):
            ranks = rule.ranks(values, ids)
            np.save(folder / "ranks.npy", sorted_ranks(ranks))
            factors = rule.kept(ranks, rule.limit([folder / "ranks.npy"]))
            assert factors.sum() == -(-len(values) * Fraction(repr(rule.share)) // 1)
        else:
            factors = rule.factors(values)
        copies = rule.drawn(factors, ids)
        assert copies.dtype == np.uint32
        assert (np.abs(copies - factors) < 1).all(), (factors, copies)


TRIALS: dict[str, Callable[[Path, Random], None]] = {
    "marks": marks, "classifier": classifier, "settings": settings,
}  # fmt: skip
KINDS = tuple(TRIALS)
