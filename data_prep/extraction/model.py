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
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.block_statistics import COLON_END, pair_set
from headrace.data_prep.extraction.features import END_FEATURE, FEATURE_NAMES, FEATURES, MOST, UNITS_FEATURE, features
from headrace.data_prep.extraction.markup import NAMES, numbers
from headrace.data_prep.extraction.page import HtmlPage, with_companions, with_rows
from headrace.data_prep.extraction.page_facts import page_kinds
from headrace.data_prep.extraction.scan import B, E, R
from headrace.data_prep.extraction.shown import piece, with_buttons
from headrace.data_prep.kernel import int64, kernel, kernel_in_place
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
SPLITS = 32
"""Splits of a tree, with those that strike out nothing."""
ALL_LEAVES = np.int32(2**MOST_LEAVES - 1)
DE_BRUIJN = 0x077CB531
"""Its products with 1, 2, 4, … differ in their bits 27 to 31, which number the bits of a set of leaves."""
FEATURE, THRESHOLD, LEFT, SCORE, LEAVES = range(5)
(H1,) = numbers("h1")
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

    @functools.cached_property
    def trees(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The splits of each tree, (trees, SPLITS, 3): FEATURE, THRESHOLD, LEAVES; and the scores of its leaves by what
        DE_BRUIJN makes of their bits: (trees, 32)."""
        splits, scores = np.empty((self.roots.size, SPLITS, 3), np.int32), np.zeros((self.roots.size, 32), np.int32)
        splits[:] = 0, MOST, ALL_LEAVES
        is_leaf = self.nodes[:, LEFT] == np.arange(len(self.nodes))
        for tree, (first, last) in enumerate(pairwise([*self.roots.tolist(), len(self.nodes)])):
            nodes, leaves = self.nodes[first:last][~is_leaf[first:last]], self.nodes[first:last][is_leaf[first:last]]
            splits[tree, : len(nodes)] = nodes[:, [FEATURE, THRESHOLD, LEAVES]]
            scores[tree, leaves[:, LEAVES].astype(np.int64) * DE_BRUIJN >> 27 & 31] = leaves[:, SCORE]
        return splits, scores


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
        or not np.all(np.diff(model.roots) > 0)
        or np.any(np.add.reduceat(~is_leaf, model.roots, dtype=np.int64) > SPLITS)
        or not np.all(is_leaf | ((left > numbers) & (left + 1 < len(numbers))))
        or not np.all((model.nodes[:, FEATURE] >= 0) & (model.nodes[:, FEATURE] < FEATURES))
        or model.table.shape != (2 * HALF + 1,)
        or not np.all((model.table >= 0) & (model.table <= CERTAIN))
        or np.any(np.abs(model.nodes[:, THRESHOLD]) > MOST)
    ):
        raise ValueError("it is of another version, or damaged")


def feature_rows(page: HtmlPage, lexicon: Lexicon) -> NDArray[np.int16]:
    """Returns the features of the blocks of ``page``: (blocks, FEATURES)."""
    return _padded_rows(page, lexicon)[: page.order.size]


def _padded_rows(page: HtmlPage, lexicon: Lexicon) -> NDArray[np.int16]:
    return features(page.scan, page.order, *lexicon, page_kinds(page.facts), pair_set(page.summaries))


def judged(page: HtmlPage, model: MainTextModel) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns for each block of ``page`` the probability to be main text, 0 to CERTAIN, and whether it is kept."""
    rows = _padded_rows(page, (model.hashes, model.scores))
    probability = probabilities(rows, *model.trees, model.table)[: page.order.size]
    words = rows[: page.order.size, UNITS_FEATURE].astype(np.int64)
    keep = with_buttons(page.scan, page.order, choice(probability, words))
    keep = with_rows(page.scan, page.order, keep, words)
    keep = with_companions(page.scan, page.order, keep, rows[: page.order.size, END_FEATURE] == COLON_END)
    return probability, with_title(page, keep)


def with_title(page: HtmlPage, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns ``keep`` with the only ``h1`` if it stands above all kept blocks, often outside the part of the page that
    has them: (blocks,). The name of the site, which may end the title that the page states, is left out."""
    records = page.scan.records[: page.scan.registers[R.elements]]
    headings = np.flatnonzero((records[:, E.name] == H1) & (records[:, E.text_start] < records[:, E.text_end]))
    if headings.size != 1 or not keep.any():
        return keep
    begins = page.scan.records[page.order, B.start]
    is_title = (begins >= records[headings, E.text_start]) & (begins < records[headings, E.text_end])
    if is_title.argmax() >= keep.argmax():
        return keep
    heading = " ".join(piece(page.scan, block).decode() for block in page.order[is_title])
    stated = (str(page.facts.get(fact, "")) for fact in ("title", "site"))
    text, title, site = (" ".join(text.split()).casefold() for text in (heading, *stated))
    return keep | is_title if title == text or not (title.endswith(text) or site == text) else keep


@kernel
def probabilities(
    rows: NDArray[np.int16], splits: NDArray[np.int32], scores: NDArray[np.int32], table: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns the probability of each row of features to be main text: 0 to CERTAIN.

    Each split strikes out, in all blocks at once, the leaves below it that its comparison rules out; the first leaf
    that is left is the one where the block's way ends. Four splits at a time, and numbers of rows that 32 divides, let
    the compiler use vectors. Source: Lucchese et al., "QuickScorer" (SIGIR 2015).
    """
    columns = rows.T
    totals, left = np.zeros(rows.shape[0], np.int64), np.empty(rows.shape[0], np.int32)
    for tree in range(splits.shape[0]):
        left[:] = ALL_LEAVES
        for split in range(0, SPLITS, 4):
            a, least_a, leaves_a = _split(splits, tree, split)
            b, least_b, leaves_b = _split(splits, tree, split + 1)
            c, least_c, leaves_c = _split(splits, tree, split + 2)
            d, least_d, leaves_d = _split(splits, tree, split + 3)
            for row in range(left.size):
                kept = (leaves_a if columns[a, row] > least_a else ALL_LEAVES) & (
                    leaves_b if columns[b, row] > least_b else ALL_LEAVES
                )
                kept &= leaves_c if columns[c, row] > least_c else ALL_LEAVES
                left[row] &= kept & (leaves_d if columns[d, row] > least_d else ALL_LEAVES)
        for row in range(left.size):
            totals[row] += scores[tree, int64(left[row] & -left[row]) * DE_BRUIJN >> 27 & 31]
    for row in range(totals.size):
        totals[row] = table[min(max(totals[row] * SLOPE // SCALE + HALF, 0), 2 * HALF)]
    return totals


@kernel_in_place
def _split(splits: NDArray[np.int32], tree: int, split: int) -> tuple[np.int32, np.int16, np.int32]:
    return splits[tree, split, 0], np.int16(splits[tree, split, 1]), splits[tree, split, 2]


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
