"""Pages whose main text is known, and the share of each of their blocks that is main text.

    {"html": …, "url": …, "truth": "the main text"}                   all of it is known
    {"html": …, "url": …, "snippets_in": […], "snippets_out": […]}    sentences that must, and must not, be extracted
     ── labelled ──> LabelledPage: share of each block that is main text; NaN where nothing is known

A word of a block belongs to the main text if a sequence of three words around it stands there. A block of one or two
words also does if it is a line there, and a longer block nearby belongs to it.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.document import Drop
from headrace.data_prep.extraction.page import HtmlPage, read_page
from headrace.data_prep.extraction.scan import R
from headrace.pipeline.core.errors import ArtifactError
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
                yield labelled(compacted(page), fields)


def compacted(page: HtmlPage) -> HtmlPage:
    """Returns ``page`` without the memory that only reading needs."""
    scan, registers = page.scan, page.scan.registers
    kept = scan._replace(
        page=scan.page[:0],
        text=scan.text[: registers[R.text]].copy(),
        records=np.asfortranarray(scan.records[: max(registers[[R.blocks, R.elements, R.facts]])]),
        tokens=scan.tokens[: registers[R.tokens]].copy(),
        stack=scan.stack[:1].copy(),
    )
    return dataclasses.replace(page, scan=kept)


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
