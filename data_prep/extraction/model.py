"""The model that decides which blocks are the main text of a page: a lexicon, boosted trees, and the choice.

    features ── trees ──> score of each block ── logistic ──> 0 … 4,096 ── choice ──> kept or left out

All of it is computed in integers, so each machine decides the same. The choice is the set of blocks whose expected F1
over words is highest (Ye, Chai, Lee & Chieu, "Optimizing F-measures: a tale of two approaches", ICML 2012): with the
probabilities p and the words w of blocks, 2 Σ_kept pw / (Σ_kept w + Σ_all pw), and the best set holds the blocks of the
highest probabilities.

Why a block is kept or left out is its probability, and the features that decided:

    page, model ── explained ──> JudgedBlock("Home | About", "nav > ul > li", 0.02, False, …), …
"""

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.block_statistics import pair_set
from headrace.data_prep.extraction.features import FEATURE_NAMES, FEATURES, MOST, UNITS_FEATURE, features
from headrace.data_prep.extraction.markup import NAMES
from headrace.data_prep.extraction.page import HtmlPage, with_captions, with_rows
from headrace.data_prep.extraction.page_facts import page_kinds
from headrace.data_prep.extraction.scan import B, E
from headrace.data_prep.extraction.shown import with_buttons
from headrace.data_prep.kernel import int64, kernel
from headrace.pipeline.core.errors import ConfigError

DEFAULT = Path(__file__).with_name("model.npz")
CERTAIN = 4096
"""The probability of 1."""
SCALE = 4096
"""Scores of trees are log-odds in units of 1 / SCALE."""
SLOPE = 64
"""Entries of a table of probabilities for one unit of log-odds; the table covers -8 to 8."""
HALF = 8 * SLOPE
MOST_LEAVES = 31
"""Leaves of a tree."""
ALL_LEAVES = np.int32(2**MOST_LEAVES - 1)
DE_BRUIJN = 0x077CB531
"""Its products with 1, 2, 4, … differ in their bits 27 to 31, which number the bits of a set of leaves."""
FEATURE, THRESHOLD, LEFT, SCORE, LEAVES = range(5)
Lexicon = tuple[NDArray[np.int32], NDArray[np.int8]]
"""A table of the hashes of tokens of attributes, 0 where it is free, and their scores."""
ARRAYS = {"hashes": np.int32, "scores": np.int8, "roots": np.int32, "nodes": np.int32, "table": np.int64}


@dataclass(frozen=True)
class MainTextModel:
    """A trained model."""

    hashes: NDArray[np.int32]
    """The lexicon (``Lexicon``): hashes,"""
    scores: NDArray[np.int8]
    """and scores."""
    roots: NDArray[np.int32]
    """The first node of each tree; the others follow it."""
    nodes: NDArray[np.int32]
    """(nodes, 5): a block goes on at LEFT if FEATURE is at most THRESHOLD, else at the node after it. A leaf goes on at
    itself. SCORE is that of a leaf, and the mean of the training blocks at other nodes. LEAVES is the bit of a leaf, in
    the order of the tree; of other nodes the leaves that a block above THRESHOLD can still reach, wherever it stands:
    all but those below LEFT."""
    table: NDArray[np.int64]
    """The logistic function: the file has it, so that no machine computes another one."""
    about: dict[str, Any]
    """Its training pages and settings, for people."""


@functools.cache
def load(path: Path = DEFAULT) -> MainTextModel:
    """Returns the model in the file ``path``.

    Raises:
        ConfigError: when it cannot be read, or is damaged.
    """
    try:
        if path.exists() and not is_zipfile(path):
            raise ValueError("it is no archive of arrays")
        with np.load(path) as file:
            model = MainTextModel(about=json.loads(file["about"].tobytes()), **{name: file[name] for name in ARRAYS})
        _check(model)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        fault = f"cannot read the model {str(path)!r} ({error})"
        raise ConfigError(
            "source.extractor_model", fault, "give a file that benchmarks/data/extractor_training.py wrote"
        ) from None
    return model


def _check(model: MainTextModel) -> None:
    """Refuses arrays of which the compiled functions would read outside.

    Raises:
        ValueError: naming what is wrong.
    """
    for name, dtype in ARRAYS.items():
        array = getattr(model, name)
        if array.dtype != dtype or array.ndim != (2 if name == "nodes" else 1):
            raise ValueError(f"{name} has another type")
    if model.nodes.shape[1] != LEAVES + 1:
        raise ValueError("its nodes are of another version")
    numbers, left = np.arange(len(model.nodes)), model.nodes[:, LEFT]
    is_leaf = left == numbers
    if (
        model.hashes.shape != model.scores.shape
        or model.hashes.size.bit_count() != 1
        or np.all(model.hashes != 0)
        or not np.all((model.roots >= 0) & (model.roots < len(numbers)))
        or not np.all(is_leaf | ((left > numbers) & (left + 1 < len(numbers))))
        or not np.all((model.nodes[:, FEATURE] >= 0) & (model.nodes[:, FEATURE] < FEATURES))
        or model.table.shape != (2 * HALF + 1,)
        or not np.all((model.table >= 0) & (model.table <= CERTAIN))
        or np.any(np.abs(model.nodes[:, THRESHOLD]) > MOST)
    ):
        raise ValueError("it is of another version, or damaged")


def feature_rows(page: HtmlPage, lexicon: Lexicon) -> NDArray[np.int16]:
    """Returns the features of the blocks of ``page``: (blocks, FEATURES)."""
    return features(page.scan, page.order, *lexicon, page_kinds(page.facts), pair_set(page.summaries))


def judged(page: HtmlPage, model: MainTextModel) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns for each block of ``page`` the probability to be main text, 0 to CERTAIN, and whether it is kept."""
    rows = feature_rows(page, (model.hashes, model.scores))
    probability = probabilities(rows, model.roots, model.nodes, model.table)
    words = rows[:, UNITS_FEATURE].astype(np.int64)
    keep = with_buttons(page.scan, page.order, choice(probability, words))
    keep = with_rows(page.scan, page.order, keep, words)
    return probability, with_captions(page.scan, page.order, keep)


@kernel
def probabilities(
    rows: NDArray[np.int16], roots: NDArray[np.int32], nodes: NDArray[np.int32], table: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns the probability of each row of features to be main text: 0 to CERTAIN.

    Each node strikes out, in all blocks at once, the leaves below it that its comparison rules out; the first leaf that
    is left is the one where the block's way ends. Source: Lucchese et al., "QuickScorer" (SIGIR 2015).
    """
    totals, left = np.zeros(rows.shape[0], np.int64), np.empty(rows.shape[0], np.int32)
    scores, columns = np.zeros(32, np.int32), rows.T
    for tree in range(roots.size):
        left[:] = ALL_LEAVES
        for node in range(roots[tree], roots[tree + 1] if tree + 1 < roots.size else nodes.shape[0]):
            leaves = nodes[node, LEAVES]
            if nodes[node, LEFT] == node:
                scores[int64(leaves) * DE_BRUIJN >> 27 & 31] = nodes[node, SCORE]
                continue
            feature, threshold = nodes[node, FEATURE], np.int16(nodes[node, THRESHOLD])
            for row in range(left.size):
                left[row] &= leaves if columns[feature, row] > threshold else ALL_LEAVES
        for row in range(left.size):
            first = int64(left[row] & -left[row])
            totals[row] += scores[first * DE_BRUIJN >> 27 & 31]
    for row in range(totals.size):
        step = (totals[row] * SLOPE) // SCALE
        totals[row] = table[min(max(step + HALF, 0), 2 * HALF)]
    return totals


@kernel
def choice(probability: NDArray[np.int64], words: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns which blocks are kept, from their probabilities and numbers of words."""
    by_probability = np.zeros((CERTAIN + 1, 2), np.int64)
    expected = whole = 0
    for index in range(words.size):
        by_probability[probability[index], 0] += words[index]
        by_probability[probability[index], 1] += probability[index] * words[index]
        expected += probability[index] * words[index]
        whole += words[index] * CERTAIN
    shift = 0
    while (whole + expected) >> shift >= 1 << 31:  # so that products fit into 64 bits
        shift += 1
    least, right, kept, best_right, best_whole = CERTAIN + 1, 0, 0, 0, 1
    for value in range(CERTAIN, -1, -1):
        if by_probability[value, 0] == 0:
            continue
        kept += by_probability[value, 0]
        right += by_probability[value, 1]
        whole = kept * CERTAIN + expected
        is_first = least > CERTAIN and right > 0
        if is_first or (right >> shift) * (best_whole >> shift) > (best_right >> shift) * (whole >> shift):
            best_right, best_whole, least = right, whole, value
    return probability >= least


@kernel
def reasons(row: NDArray[np.int16], roots: NDArray[np.int32], nodes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Returns by how much each feature of one block changed its score: (features,), in log-odds times SCALE.

    Source: Saabas, "Interpreting random forests" (2014): the change of the mean score at each step of the way to a leaf
    counts for the feature that decided it.
    """
    changes = np.zeros(row.size, np.int64)
    for root in roots:
        node = int64(root)
        while nodes[node, LEFT] != node:
            after = nodes[node, LEFT] + (row[nodes[node, FEATURE]] > nodes[node, THRESHOLD])
            changes[nodes[node, FEATURE]] += nodes[after, SCORE] - nodes[node, SCORE]
            node = int64(after)
    return changes


LEVELS = 4
"""Elements that a path shows, from the block outwards."""


@dataclass(frozen=True)
class JudgedBlock:
    """A block of a page."""

    text: str
    path: str
    """The elements around it, the innermost last."""
    probability: float
    """The chance that it belongs to the main text."""
    is_kept: bool
    reasons: tuple[tuple[str, float], ...]
    """Features, with the change of the log-odds that each made, the largest first."""


def explained(page: HtmlPage, model: MainTextModel) -> list[JudgedBlock]:
    """Returns the blocks of ``page``, in its order, as ``model`` judges them."""
    rows = feature_rows(page, (model.hashes, model.scores))
    probability, keep = judged(page, model)
    blocks = []
    for number, text in enumerate(page.blocks()):
        changes = reasons(rows[number], model.roots, model.nodes)
        largest = np.argsort(-np.abs(changes), kind="stable")
        named = tuple((FEATURE_NAMES[index], float(changes[index]) / SCALE) for index in largest if changes[index])
        chance = float(probability[number]) / CERTAIN
        blocks.append(JudgedBlock(text, _path(page, number), chance, bool(keep[number]), named))
    return blocks


def _path(page: HtmlPage, number: int) -> str:
    """Returns the names of the innermost elements around a block."""
    records, names = page.scan.records, list[str]()
    element = records[page.order[number], B.element]
    while element > 0 and len(names) < LEVELS:
        if name := NAMES[max(records[element, E.name], 0)]:
            names.append(name)
        element = records[element, E.parent]
    return " > ".join(reversed(names))
