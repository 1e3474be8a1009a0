"""Token files, marks, classifiers and settings with damage or odd values, each given to its reader.

A trial raises HeadraceError when the reader refuses its input, and AssertionError when it reads what is not there.
"""

import contextlib
import functools
import hashlib
import itertools
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow
from datatrove.data import Document
from pyarrow import parquet

from headrace.data_prep.classifiers.linear_classifier import HEAD, parsed
from headrace.data_prep.column import Columns
from headrace.data_prep.columns.scorer import ScoreKind, has_value
from headrace.data_prep.selected import SelectionRules
from headrace.data_prep.selection_rules.rules import Share, sorted_ranks
from headrace.data_prep.sources.token_files import TokenFiles
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.documents.audit_sheet import MARKS, AuditedPage, AuditSheet, read_marks
from tests.data_prep.adversarial import hostile_text
from tests.data_prep.small_classifier import small_classifier
from tests.data_prep.sources.malformed import damage

WIDTHS = {1: "B", 2: "b", 3: "h", 4: "i", 5: "q", 8: "H"}
"""The codes of struct for the dtypes of Megatron-LM's indexes."""
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


@contextlib.contextmanager
def refused_only(is_damaged: bool) -> Iterator[None]:
    """Turns a refusal of what is whole into an AssertionError."""
    try:
        yield
    except HeadraceError as error:
        if is_damaged:
            raise
        raise AssertionError(error) from error


def megatron(folder: Path, chance: Random) -> None:
    code = chance.choice(sorted(WIDTHS))
    letter, size = WIDTHS[code], struct.calcsize(WIDTHS[code])
    counts = [chance.choice([0, 0, 1, 2]) for _ in range(chance.choice([0, 1, 3, 8]))]
    lengths = [chance.choice([0, 1, 2, 50]) for _ in range(sum(counts))]
    tokens = struct.pack(f"<{sum(lengths)}{letter}", *(chance.randrange(100) for _ in range(sum(lengths))))
    offsets, bounds = [sum(lengths[:place]) * size for place in range(len(lengths))], [0]
    for count in counts:
        bounds.append(bounds[-1] + count)
    header = [1, code, len(lengths), len(bounds)]
    kind = chance.random()
    if kind < 0.6:
        for _ in range(chance.choice([1, 1, 2])):
            part = chance.choice([header, lengths, offsets, offsets, bounds])
            if part:
                place = chance.randrange(len(part))
                part[place] = chance.choice([*LARGE, part[place] + 1, part[place] - 1, len(tokens), size])
    index = b"MMIDIDX\0\0"
    for width, value in zip((8, 1, 8, 8), header, strict=True):
        index += (value % (1 << 8 * width)).to_bytes(width, "little")
    for width, values in ((4, lengths), (8, offsets), (8, bounds)):
        index += b"".join((value % (1 << 8 * width)).to_bytes(width, "little") for value in values)
    index += chance.choice([b"", b"", bytes(len(lengths))])
    if 0.6 <= kind < 0.9:
        index, tokens = (
            (damage(chance, index)[0], tokens) if chance.random() < 0.8 else (index, damage(chance, tokens)[0])
        )
    (folder / "a.idx").write_bytes(index)
    (folder / "a.bin").write_bytes(tokens)
    with refused_only(kind < 0.9):
        documents = [ids.tolist() for _, ids in TokenFiles(paths=(str(folder),)).documents("a.idx")]
    assert documents == named_tokens(index, tokens), (index, tokens)


def named_tokens(index: bytes, tokens: bytes) -> list[list[int]]:
    """Returns the tokens of each document that ``index`` names, one sequence after the other, by struct alone."""
    _, code, count, ends = struct.unpack_from("<QBQQ", index, 9)
    lengths = struct.unpack_from(f"<{count}i", index, 34)
    offsets = struct.unpack_from(f"<{count}q", index, 34 + 4 * count)
    bounds = struct.unpack_from(f"<{ends}q", index, 34 + 12 * count)
    sequences = [
        struct.unpack_from(f"<{length}{WIDTHS[code]}", tokens, at) for length, at in zip(lengths, offsets, strict=True)
    ]
    pairs = itertools.pairwise(bounds)
    return [[token for part in sequences[first:last] for token in part] for first, last in pairs]


def token_rows(folder: Path, chance: Random) -> None:
    kind = chance.choice([pyarrow.uint8(), pyarrow.uint16(), pyarrow.int32(), pyarrow.int64(), pyarrow.uint64()])
    rows = [
        None if chance.random() < 0.1 else [chance.randrange(100) for _ in range(chance.choice([0, 1, 5, 300]))]
        for _ in range(chance.choice([0, 1, 3, 40]))
    ]
    of = chance.choice([pyarrow.list_, pyarrow.large_list])
    table = pyarrow.table({"input_ids": pyarrow.array(rows, of(kind)), "text": ["x"] * len(rows)})
    path = folder / "a.parquet"
    options = {"compression": chance.choice(["NONE", "snappy", "gzip", "zstd", "lz4"])}
    options |= {"data_page_version": chance.choice(["1.0", "2.0"]), "use_dictionary": chance.random() < 0.5}
    options |= {"row_group_size": chance.choice([1, 10, 1000])}
    parquet.write_table(table, path, **options)
    whole = path.read_bytes()
    is_damaged = chance.random() < 0.9
    path.write_bytes(damage(chance, whole)[0] if is_damaged else whole)
    with refused_only(is_damaged):
        read_rows = [ids.tolist() for _, ids in TokenFiles(paths=(str(folder),)).documents("a.parquet")]
    assert is_damaged or read_rows == [row or [] for row in rows]
    assert len(read_rows) == parquet.read_metadata(path).num_rows
    assert all(isinstance(token, int) for ids in read_rows for token in ids)


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
    {"scorers": {"p": {"type": "perplexity", "path": None, "order": 3, "sample_bytes": 20000}}},
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
    {"type": "pareto", "column": "p", "alpha": 9.0, "seed": 3},
)
VALUES = {
    "n": np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, 0.1, 0.5, 1, 2, 3, 1e15]),
    "p": np.array([np.nan, 0.0, -0.0, 5e-324, 0.1, 0.5, 1]),
    "t": np.array(["", "en", "de", "\ud7ff", "x" * 64]),
}
KINDS_OF_VALUES: dict[str, ScoreKind] = {"n": float, "p": float, "t": str}


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
    "megatron": megatron, "token_rows": token_rows, "marks": marks, "classifier": classifier, "settings": settings,
}  # fmt: skip
KINDS = tuple(TRIALS)
