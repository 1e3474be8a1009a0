"""Trains a model for ``source.extractor=blocks`` on pages whose main text is known, and judges it.

    python -m benchmarks.data.extractor_training pages.jsonl.zst                writes extractor.npz
    python -m benchmarks.data.extractor_training *.jsonl --out german.npz       for source.extractor_model=german.npz
    python -m benchmarks.data.extractor_training pages.jsonl --folds 0          without the judgement

It needs ``pip install 'headrace[extractor-training]'``. Each line of the files is a JSON object with ``html``, its
``url``, and ``truth`` or snippets. ``page_type`` or ``language`` may name a group, which is judged apart.

    labelled pages ── lexicon ──> scores of class and id tokens
                   └─ trees ────> MainTextModel        the lexicon that trees see was learned from other sites
                   └─ cross_validated ──> Judged, …    each page by a model that saw no page of its site

Labels are shares of blocks (labelled_pages.py), the loss of the trees (LightGBM) is the cross entropy. Trees are
trained in floating point; the model holds integers, and what it decides is judged with these alone: by word F1 against
the truth, and by sentences that it finds.
"""

import argparse
import dataclasses
import hashlib
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data.labelled_pages import WORD, LabelledPage, labelled_pages, squeezed
from headrace.data_prep.extraction.features import MOST
from headrace.data_prep.extraction.model import (
    ALL_LEAVES,
    ARRAYS,
    CERTAIN,
    HALF,
    MOST_LEAVES,
    SCALE,
    SLOPE,
    Lexicon,
    MainTextModel,
    feature_rows,
    judged,
)
from headrace.data_prep.extraction.scan import TOKEN_ELEMENT, TOKEN_HASH, B, E, R
from headrace.data_prep.kernel import kernel
from headrace.pipeline.core.errors import ConfigError, HeadraceError
from headrace.pipeline.core.extras import require
from headrace.pipeline.output.terminal import show_lines

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
    require("extractor_training", "lightgbm")
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


def logistic() -> NDArray[np.int64]:
    """Returns the probabilities, in parts of CERTAIN, of log-odds from -8 to 8."""
    steps = np.arange(-HALF, HALF + 1) / SLOPE
    return np.rint(CERTAIN / (1 + np.exp(-steps))).astype(np.int64)


def save(model: MainTextModel, path: Path) -> None:
    """Writes ``model`` to ``path``."""
    about = np.frombuffer(json.dumps(model.about, sort_keys=True).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez_compressed(file, about=about, **{name: getattr(model, name) for name in ARRAYS})


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains and judges as the command line asks; ends with a message when it cannot."""
    parser = argparse.ArgumentParser(description="Trains a model that finds the main text of web pages.")
    parser.add_argument("pages", nargs="+", type=Path, help="files of labelled pages")
    parser.add_argument("--out", type=Path, default=Path("extractor.npz"), help="the model to write")
    parser.add_argument("--folds", type=int, default=5, help="parts of the sites for the judgement; 0: none")
    parser.add_argument("--trees", type=int, default=200, help="trees of the model")
    parser.add_argument("--seed", type=int, default=1, help="seed of the parts and of the trees")
    given = parser.parse_args(arguments)
    if given.folds < 0 or given.folds == 1 or given.trees < 1 or not 0 <= given.seed < 2**31:
        parser.error("give 2 folds or more, or 0; at least 1 tree; and a seed of 31 bits")
    if missing := [str(path) for path in (*given.pages, given.out.parent) if not path.exists()]:
        parser.error(f"there is no {', '.join(missing)}")
    try:
        known = list(labelled_pages(given.pages))
        if given.folds:
            folds = cross_validated(
                known, given.folds, given.seed, lambda some: train(some, given.trees, given.seed, {})
            )
            show_lines(HEAD, table(list(folds)))
        files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in given.pages}
        about = {"pages": len(known), "files": files, "trees": given.trees, "seed": given.seed}
        save(train(known, given.trees, given.seed, about), given.out)
    except HeadraceError as error:
        parser.error(str(error))
    print(f"written  {given.out}")


if __name__ == "__main__":
    main()
