"""Training of the model of main text on labelled pages, and its judgement.

    {"html": …, "url": …, "truth": "the main text"}                   all of it is known
    {"html": …, "url": …, "snippets_in": […], "snippets_out": […]}    sentences that must, and must not, be extracted
     ── labelled ──> LabelledPage: share of each block that is main text; NaN where nothing is known

    labelled pages ── lexicon ──> scores of class and id tokens
                   └─ trees ────> MainTextModel        the lexicon that trees see was learned from other sites
                   └─ cross_validated ──> Judged, …    each page by a model that saw no page of its site

A word of a block belongs to the main text if a sequence of three words around it stands there. A block of one or two
words also does if it is a line there, and a longer block nearby belongs to it. Labels are shares, the loss of the trees
(LightGBM) is the cross entropy. Trees are trained in floating point; the model holds integers, and what it decides is
judged with these alone: by word F1 against the truth, and by sentences that it finds.
"""

import dataclasses
import hashlib
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.document import Drop
from headrace.data_prep.extraction.main_text.model import (
    ALL_LEAVES,
    MOST_LEAVES,
    SCALE,
    Lexicon,
    MainTextModel,
    feature_rows,
    judged,
    logistic,
)
from headrace.data_prep.extraction.main_text.places import MOST
from headrace.data_prep.extraction.page import HtmlPage, read_page
from headrace.data_prep.extraction.parsing.scan import TOKEN_ELEMENT, TOKEN_HASH, B, E, R
from headrace.data_prep.kernel import kernel
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.extras import require
from headrace.pipeline.core.json_files import read_objects

TEXTS, LISTS = ("truth", "url", "id", "page_type", "language"), ("snippets_in", "snippets_out")
"""Fields of a labelled page next to ``html``: texts, and lists of texts. None may stand for each."""
REMEDY = "give JSON objects with html and truth"
WORD = re.compile(r"\w+")
SHORT, NEAR, LONG, MOSTLY = 2, 2, 5, 0.8
"""The most words of a short block; the blocks before and after it that may show that it belongs to the main text, the
least words of such a block, and the share of it that must be main text."""
AROUND = 5
"""Blocks on each side that are the neighborhood of a block."""


@dataclasses.dataclass(frozen=True)
class LabelledPage:
    """A page with what is known of its main text."""

    page: HtmlPage
    shares: NDArray[np.float64]
    """(blocks,) the share of the words of each block that are main text, or NaN."""
    words: NDArray[np.int64]
    """(blocks,) words of each block, as ``WORD`` counts them."""
    site: str
    """The domain: pages of one site are never in training and test at once."""
    truth: str | None
    snippets_in: tuple[str, ...]
    snippets_out: tuple[str, ...]
    group: str
    """The type of the page, or its language."""


def labelled_pages(paths: list[Path]) -> Iterator[LabelledPage]:
    """Yields the pages of the JSONL files ``paths``. Pages that cannot be read, or without blocks, are left out.

    Raises:
        ArtifactError: naming file and line, where a line is no JSON object with ``html``.
    """
    for path in paths:
        for number, fields in read_objects(path, REMEDY):
            if not isinstance(fields.get("html"), str):
                raise ArtifactError(f"{path}:{number}", "is no labelled page (it has no html)", REMEDY)
            for name in (*TEXTS, *LISTS):
                if not _is_right(name, value := fields.get(name)):
                    problem = f"is no labelled page (its {name} is {value!r:.50})"
                    raise ArtifactError(f"{path}:{number}", problem, REMEDY)
            page = read_page(fields["html"].replace("\0", ""))
            if not isinstance(page, Drop) and page.order.size:
                yield labelled(page.compact(), fields)


def _is_right(name: str, value: Any) -> bool:
    """Whether a field that is read has a value of its type, or none."""
    if value is None or name in TEXTS:
        return value is None or isinstance(value, str)
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def labelled(page: HtmlPage, fields: Mapping[str, Any]) -> LabelledPage:
    """Returns ``page`` with the labels in ``fields``."""
    blocks = page.blocks()
    truth = fields.get("truth") or None
    snippets = tuple(fields.get("snippets_in") or ()), tuple(fields.get("snippets_out") or ())
    words = [WORD.findall(block.lower()) for block in blocks]
    return LabelledPage(
        page,
        shares_in(words, truth) if truth else _of_snippets(blocks, *snippets),
        np.array([len(own) for own in words]),
        site_of(fields.get("url") or fields.get("id") or ""),
        truth,
        *snippets,
        fields.get("page_type") or fields.get("language") or "",
    )


def site_of(url: str) -> str:
    """Returns the last two parts of the host of ``url`` (three where the second is short, as in co.uk)."""
    try:
        parts = (urlsplit(url).hostname or url).split(".")
    except ValueError:  # brackets that hold no address
        return url
    return ".".join(parts[-3:] if len(parts) > 2 and len(parts[-2]) <= 3 and len(parts[-1]) == 2 else parts[-2:])


def shares_in(words: list[list[str]], truth: str) -> NDArray[np.float64]:
    """Returns the share of the ``words`` of each block that stand in ``truth``.

    What the truth has once is found once: in the block whose neighborhood has the most of the truth, then in the first.
    """
    wanted = WORD.findall(truth.lower())
    all_words = [word for own in words for word in own]
    threes = list(zip(all_words, all_words[1:], all_words[2:], strict=False))
    starts = _sums_before(np.array([len(block) for block in words]))
    known = Counter(zip(wanted, wanted[1:], wanted[2:], strict=False))
    hit = np.zeros(len(all_words), np.bool_)
    for index, three in enumerate(threes):
        hit[index : index + 3] |= three in known
    shares = _means(hit, starts)
    is_labelled = np.zeros(len(all_words), np.bool_)
    for block in _by_neighborhood(shares, starts):
        for index in range(starts[block], min(starts[block + 1], len(threes))):
            if known[threes[index]] > 0:
                known[threes[index]] -= 1
                is_labelled[index : index + 3] = True
    shares = _means(is_labelled, starts)
    lines = Counter(" ".join(WORD.findall(line.lower())) for line in truth.split("\n"))
    for block in _by_neighborhood(shares, starts):
        line, near = " ".join(words[block]), slice(max(block - NEAR, 0), block + NEAR + 1)
        is_near_main_text = shares[near][np.diff(starts)[near] >= LONG].max(initial=0) > MOSTLY
        if 0 < len(words[block]) <= SHORT and lines[line] > 0 and is_near_main_text:
            lines[line] -= 1
            shares[block] = 1
    return shares


def _means(is_counted: NDArray[np.bool_], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the share of words that ``is_counted`` names in each block, which begins and ends at ``starts``."""
    return np.asarray(np.diff(_sums_before(is_counted)[starts]) / np.maximum(np.diff(starts), 1))


def _sums_before(values: NDArray[Any]) -> NDArray[Any]:
    """Returns the sum of the values before each one, and of all: (values + 1,)."""
    return np.concatenate([[0], np.cumsum(values)])


def _by_neighborhood(shares: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the blocks by the share of main text around them, in tenths, then by their order."""
    counts = np.diff(starts)
    sums, totals = _sums_before(shares * counts), _sums_before(counts)
    blocks = np.arange(len(shares))
    first, last = np.maximum(blocks - AROUND, 0), np.minimum(blocks + AROUND + 1, len(shares))
    around = (sums[last] - sums[first]) / np.maximum(totals[last] - totals[first], 1)
    return np.lexsort((blocks, -np.round(around * 10)))


def _of_snippets(blocks: list[str], wanted: tuple[str, ...], unwanted: tuple[str, ...]) -> NDArray[np.float64]:
    """Returns 1 for blocks with wanted sentences, 0 for those with unwanted ones, NaN for all others."""
    shares = np.full(len(blocks), np.nan)
    texts = [squeezed(block) for block in blocks]
    for snippets, share in ((unwanted, 0.0), (wanted, 1.0)):
        for snippet in filter(lambda text: len(text) > 2, map(squeezed, snippets)):
            for index, text in enumerate(texts):
                if snippet in text or (len(text) > 15 and text in snippet):
                    shares[index] = share
    return shares


def squeezed(text: str) -> str:
    """Returns ``text`` in lower case, with single spaces."""
    return " ".join(text.split()).lower()


LEAST_SITES, PRIOR_SITES, PRIOR_SHARE = 3, 3.0, 0.35
"""The least sites that a token of the lexicon is on. Its share of main text begins as if so many had this one."""
SCORE_SCALE, MOST_SCORE, PARTS = 10, 60, 4
"""Scores are log-odds against the prior in tenths, at most 6. Lexicons of trees are of so many parts of the sites."""
SNIPPET_WORDS, SNIPPET_WEIGHT, PAGE_WEIGHT = 20, 0.9, 300.0
"""The most words with which a block counts of which only a sentence is known, and the weights of such blocks and of
other pages."""
PARAMETERS: dict[str, Any] = {
    "objective": "cross_entropy", "learning_rate": 0.06, "num_leaves": MOST_LEAVES, "min_data_in_leaf": 60,
    "feature_fraction": 0.5, "bagging_fraction": 0.8, "bagging_freq": 1, "lambda_l2": 5.0, "verbosity": -1,
    "deterministic": True, "force_row_wise": True,
}  # fmt: skip
LEAST_BLOCKS = 2 * PARAMETERS["min_data_in_leaf"]  # those of a tree with two leaves


def part_of(site: str, parts: int, seed: int) -> int:
    """Returns the part, 0 to ``parts`` - 1, that all pages of ``site`` are in."""
    return int(hashlib.md5(f"{seed}:{site}".encode()).hexdigest(), 16) % parts


def weights(page: LabelledPage) -> NDArray[np.float64]:
    """Returns the weight of each block: pages weigh alike, and blocks by the square root of their words."""
    known = ~np.isnan(page.shares)
    if page.truth is None:
        return np.where(known, SNIPPET_WEIGHT * (np.minimum(page.words, SNIPPET_WORDS) + 2), 0)
    raw = np.sqrt(page.words) + 0.5
    return np.asarray(raw * PAGE_WEIGHT / raw.sum())


def token_shares(page: LabelledPage) -> dict[int, float]:
    """Returns the share of main text in the elements with each token, over the page."""
    most = SNIPPET_WORDS if page.truth is None else page.words.max(initial=0)
    words = np.where(np.isnan(page.shares), 0, np.minimum(page.words, most)).astype(np.float64)
    scan = page.page.scan
    sums = _sums(scan.records, scan.registers[R.elements], page.page.order, words, np.nan_to_num(page.shares) * words)
    totals: dict[int, NDArray[np.float64]] = defaultdict(lambda: np.zeros(2))
    count = scan.registers[R.tokens]
    for element, token in zip(scan.tokens[:count, TOKEN_ELEMENT], scan.tokens[:count, TOKEN_HASH], strict=True):
        if element < len(sums) and sums[element, 0] > 0:
            totals[int(token)] += sums[element]
    return {token: total[1] / total[0] for token, total in totals.items()}


@kernel
def _sums(
    records: NDArray[np.int32], count: int, order: NDArray[np.int64], words: NDArray[np.float64],
    right: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    """Returns the words of the blocks in each element, and those of main text: (elements, 2)."""
    sums = np.zeros((count, 2))
    for index in range(order.size):
        sums[records[order[index], B.element], 0] += words[index]
        sums[records[order[index], B.element], 1] += right[index]
    for element in range(count - 1, 0, -1):
        sums[records[element, E.parent]] += sums[element]
    return sums


def lexicon(pages: Sequence[LabelledPage], shares: Sequence[dict[int, float]]) -> Lexicon:
    """Returns the scores of the tokens of ``pages``, each site with one vote. ``shares``: of ``token_shares``."""
    votes: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for page, own in zip(pages, shares, strict=True):
        for token, share in own.items():
            votes[token][page.site].append(share)
    scores = {}
    for token, sites in votes.items():
        if len(sites) >= LEAST_SITES:
            right = sum(sum(own) / len(own) for own in sites.values()) + PRIOR_SITES * PRIOR_SHARE
            odds = right / (len(sites) + PRIOR_SITES - right) * (1 - PRIOR_SHARE) / PRIOR_SHARE
            scores[token] = int(np.clip(round(SCORE_SCALE * np.log(odds)), -MOST_SCORE, MOST_SCORE))
    return lexicon_of({token: score for token, score in sorted(scores.items()) if score})


def lexicon_of(scores: dict[int, int]) -> Lexicon:
    """Returns ``scores`` of tokens as a table of hashes: each token is in the first free slot from its own on."""
    slots = 1 << (2 * len(scores) + 1).bit_length()
    hashes, values = np.zeros(slots, np.int32), np.zeros(slots, np.int8)
    for token, score in scores.items():
        slot = token % slots
        while hashes[slot]:
            slot = (slot + 1) % slots
        hashes[slot], values[slot] = token, score
    return hashes, values


def train(pages: Sequence[LabelledPage], trees: int, seed: int, about: dict[str, Any]) -> MainTextModel:
    """Returns a model of ``trees`` trees.

    Raises:
        ConfigError: when LightGBM is not installed, or the pages have too few blocks.
    """
    require("train-extractor", "lightgbm")
    import lightgbm

    shares = [token_shares(page) for page in pages]
    parts = [part_of(page.site, PARTS, seed + 1) for page in pages]
    rows, labels, weight = [], [], []
    for part in range(PARTS):
        others = [index for index in range(len(pages)) if parts[index] != part]
        known = lexicon([pages[index] for index in others], [shares[index] for index in others])
        for page in (page for page, own in zip(pages, parts, strict=True) if own == part):
            weigh = weights(page)
            rows.append(feature_rows(page.page, known)[weigh > 0])
            labels.append(page.shares[weigh > 0])
            weight.append(weigh[weigh > 0])
    if (known_blocks := sum(map(len, labels))) < LEAST_BLOCKS:
        message = f"{known_blocks} labelled blocks on {len(pages)} pages are too few; trees need {LEAST_BLOCKS}"
        raise ConfigError("PAGES", message, "give more pages, of more sites than there are --folds")
    data = lightgbm.Dataset(np.concatenate(rows), np.concatenate(labels), weight=np.concatenate(weight))
    booster = lightgbm.train(PARAMETERS | {"seed": seed}, data, trees)
    hashes, scores = lexicon(pages, shares)
    arrays = _integers(booster.dump_model()["tree_info"])
    return MainTextModel(hashes=hashes, scores=scores, table=logistic(), about=about, **arrays)


def _integers(trees: list[dict[str, Any]]) -> dict[str, NDArray[np.int32]]:
    """Returns the arrays of ``trees`` that ``MainTextModel`` has. The children of a node stand side by side."""
    nodes: list[list[int]] = []
    roots: list[int] = []

    def fill(number: int, node: dict[str, Any], leaves: int) -> int:
        """Fills the node ``number``, before which its tree has ``leaves``. Returns how many there are after it."""
        if "leaf_value" in node:
            nodes[number] = [0, MOST, number, round(node["leaf_value"] * SCALE), 1 << leaves]
            return leaves + 1
        left = len(nodes)
        nodes.extend([[], []])
        threshold, score = int(np.floor(node["threshold"])), round(node["internal_value"] * SCALE)
        after = fill(left, node["left_child"], leaves)
        possible = int(ALL_LEAVES) & ~((1 << after) - (1 << leaves))
        nodes[number] = [node["split_feature"], threshold, left, score, possible]
        return fill(left + 1, node["right_child"], after)

    for tree in trees:
        roots.append(len(nodes))
        nodes.append([])
        fill(roots[-1], tree["tree_structure"], 0)
    return {"roots": np.array(roots, np.int32), "nodes": np.array(nodes, np.int32)}


@dataclasses.dataclass(frozen=True)
class Judged:
    """The result for one page. Precision, recall and F1 are None without a truth."""

    group: str
    precision: float | None
    recall: float | None
    f1: float | None
    wanted: tuple[bool, ...]
    """Whether each wanted sentence was found."""
    unwanted: tuple[bool, ...]


def word_f1(text: str, truth: str) -> tuple[float, float, float]:
    """Returns precision, recall and F1 of the bag of words of ``text`` against that of ``truth``."""
    extracted, wanted = Counter(WORD.findall(text.lower())), Counter(WORD.findall(truth.lower()))
    common = (extracted & wanted).total()
    precision = common / extracted.total() if extracted else 0.0
    recall = common / wanted.total() if wanted else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if common else 0.0


def judge(page: LabelledPage, model: MainTextModel) -> Judged:
    """Returns what ``model`` finds on ``page``."""
    text = page.page.text(judged(page.page, model)[1])
    precision, recall, f1 = word_f1(text, page.truth) if page.truth else (None, None, None)
    flat = squeezed(text)
    wanted = tuple(squeezed(snippet) in flat for snippet in page.snippets_in)
    unwanted = tuple(squeezed(snippet) in flat for snippet in page.snippets_out)
    return Judged(page.group, precision, recall, f1, wanted, unwanted)


def cross_validated(
    pages: Sequence[LabelledPage], folds: int, seed: int, train: Callable[[Sequence[LabelledPage]], MainTextModel]
) -> Iterator[Judged]:
    """Yields each page, judged by the model that ``train`` makes of the pages of the other folds' sites."""
    for fold in range(folds):
        model = train([page for page in pages if part_of(page.site, folds, seed) != fold])
        yield from (judge(page, model) for page in pages if part_of(page.site, folds, seed) == fold)


def table(results: Sequence[Judged]) -> list[tuple[str, ...]]:
    """Returns a row, with the columns of HEAD, for all pages and for each group."""
    groups = sorted({result.group for result in results})
    return [_row("all", results), *(_row(group or "-", [r for r in results if r.group == group]) for group in groups)]


HEAD = ("pages", "number", "F1", "precision", "recall", "wanted found", "unwanted found")


def _row(name: str, results: Sequence[Judged]) -> tuple[str, ...]:
    scores = ([getattr(result, key) for result in results] for key in ("f1", "precision", "recall"))
    sentences = ([was for result in results for was in getattr(result, key)] for key in ("wanted", "unwanted"))
    return (name, str(len(results)), *map(_mean, scores), *map(_mean, sentences))


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.fmean(known):.3f}" if known else "-"
