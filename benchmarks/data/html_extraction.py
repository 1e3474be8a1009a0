"""Measures how well and how fast HTML extractors find the main text of real web pages.

    python -m benchmarks.data.html_extraction [PAGES.jsonl.zst] [--step 1] [--runs 3] [--timing-step 5]
                                            [--only NAME,NAME]

Pages come with hand-checked text (``truth``), sentences that must be extracted (``snippets_in``) and boilerplate that
must not (``snippets_out``). Measured for each candidate: precision, recall and F1 over bags of lower-case words,
averaged over pages; the share of snippets found; and pages a second of one process' CPU time, over ``runs`` runs on
every ``timing-step``-th page (median, and the extremes). ``product`` is an extractor as stages call it: blocks in their
process, resiliparse with the search for deep nesting in a supervised one, whose CPU time counts, too. Candidates that
are not installed are left out. blocks is not judged on pages that its model was trained on:
extractor_training.py judges it by cross-validation. Prints one JSON line; the table goes to standard error.
"""

import argparse
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import platform
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from resiliparse.extract.html2text import extract_plain_text

from benchmarks.data.extractor_training import word_f1
from benchmarks.data.labelled_pages import squeezed
from headrace.data_prep.document import Drop
from headrace.data_prep.extraction.model import load
from headrace.data_prep.sources.html import HtmlExtraction
from headrace.data_prep.sources.other_extractors import EXTRACTORS, extract_with
from headrace.pipeline.core.text_files import read_lines

DATA = Path(os.environ.get("HEADRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
PACKAGES = {
    "resiliparse": "resiliparse",
    "trafilatura": "trafilatura",
    "justext": "justext",
    "readability": "readability-lxml",
    "selectolax": "selectolax",
}
"""Module → distribution."""
BOILERPLATE = "nav, header, footer, aside, form, script, style, noscript, template, svg, iframe, button, select, dialog"


@functools.cache
def english_words() -> frozenset[str]:
    return frozenset(importlib.import_module("justext").get_stoplist("English"))


def justext_paragraphs(html: str) -> str:
    if not html.strip():
        return ""
    paragraphs = importlib.import_module("justext").justext(html.encode(), english_words(), encoding="utf-8")
    return "\n".join(paragraph.text for paragraph in paragraphs if not paragraph.is_boilerplate)


def selectolax_text(html: str) -> str:
    tree = importlib.import_module("selectolax.lexbor").LexborHTMLParser(html)
    for node in tree.css(BOILERPLATE):
        node.decompose()
    best = tree.css_first("main, article, [role=main]") or tree.body
    return str(best.text(separator="\n", strip=True)) if best else ""


def plain(**options: Any) -> Callable[[str], str]:
    return lambda html: extract_plain_text(html, **options)


def traf(**options: Any) -> Callable[[str], str]:
    return lambda html: importlib.import_module("trafilatura").extract(html, **options) or ""


def ours(html: str, extractor: str = "blocks") -> str:
    text = EXTRACTION[extractor].extracted(html).text
    return "" if isinstance(text, Drop) else text


EXTRACTION = {name: HtmlExtraction(extractor=name) for name in ("blocks", "all_text")}
BLOCKS = "headrace blocks"
CANDIDATES: dict[str, tuple[str, Callable[[str], str]]] = {
    BLOCKS: ("resiliparse", ours),
    "headrace all_text": ("resiliparse", functools.partial(ours, extractor="all_text")),
    "headrace resiliparse": ("resiliparse", EXTRACTORS["resiliparse"]),
    "resiliparse main_content": ("resiliparse", plain(main_content=True)),
    "resiliparse main_content, no comments, no post_meta": (
        "resiliparse",
        plain(main_content=True, comments=False, post_meta=False),
    ),
    "trafilatura (headrace trafilatura)": ("trafilatura", EXTRACTORS["trafilatura"]),
    "trafilatura fast": ("trafilatura", traf(fast=True)),
    "trafilatura recall": ("trafilatura", traf(favor_recall=True)),
    "trafilatura precision": ("trafilatura", traf(favor_precision=True)),
    "justext English": ("justext", justext_paragraphs),
    "selectolax, main or article": ("selectolax", selectolax_text),
}
"""Name → the module that it needs, and the extractor. Those that are not installed are left out."""
FAILURES: tuple[type[Exception], ...] = (ValueError, TypeError, AttributeError, IndexError)
if importlib.util.find_spec("lxml"):
    FAILURES += (importlib.import_module("lxml.etree").LxmlError,)
"""Exceptions of candidates on single pages: counted, with an empty text."""


def pages(path: Path, step: int) -> Iterator[dict[str, Any]]:
    for line in itertools.islice(read_lines(path), 0, None, step):
        yield json.loads(line)


def quality(path: Path, step: int, names: list[str]) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in names}
    for page in pages(path, step):
        for name in names:
            row = rows[name]
            try:
                text = CANDIDATES[name][1](page["html"])
                row["failed"].append(0)
            except FAILURES:
                text = ""
                row["failed"].append(1)
            if page["truth"]:
                scores = word_f1(text, page["truth"])
                for key, score in zip(("precision", "recall", "f1"), scores, strict=True):
                    row[key].append(score)
                row[f"f1 {page['page_type']}"].append(scores[2])
            flat = squeezed(text)
            row["snippets_in"] += [squeezed(snippet) in flat for snippet in page["snippets_in"] or ()]
            row["snippets_out"] += [squeezed(snippet) in flat for snippet in page["snippets_out"] or ()]
    return {name: {key: round(statistics.fmean(v), 4) for key, v in row.items() if v} for name, row in rows.items()}


def speed(path: Path, step: int, runs: int, names: list[str]) -> dict[str, list[float]]:
    """Pages a second of each candidate, one figure a run, candidates taking turns."""
    sample = [page["html"] for page in pages(path, step)]
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(runs):
        for name in names:
            start = time.process_time()
            for html in sample:
                try:
                    CANDIDATES[name][1](html)
                except FAILURES:
                    continue
            rates[name].append(round(len(sample) / (time.process_time() - start), 1))
    return rates


def product_speed(path: Path, step: int, runs: int) -> dict[str, list[float]]:
    """Pages a second of extractors as stages call them, one figure a run, in turn. resiliparse goes without the facts
    of the page, as when it was the default."""
    sample = [page["html"] for page in pages(path, step)]
    before = functools.partial(map, functools.partial(extract_with, "resiliparse"), sample)
    ways: dict[str, Callable[[], Iterator[object]]] = {
        "product blocks": functools.partial(map, ours, sample),
        "product resiliparse": before,
    }
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(runs):
        for name, read in ways.items():
            start = sum(os.times()[:4])
            records = list(read())
            rates[name].append(round(len(records) / (sum(os.times()[:4]) - start), 1))
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=DATA / "web" / "wcxb_dev.jsonl.zst")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--timing-step", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    asked = [name for name in CANDIDATES if not options.only or name in options.only.split(",")]
    names = [name for name in asked if importlib.util.find_spec(CANDIDATES[name][0])]
    if skipped := sorted({CANDIDATES[name][0] for name in asked} - {CANDIDATES[name][0] for name in names}):
        print(f"not installed (pip install -e '.[extractors]'): {', '.join(skipped)}", file=sys.stderr)
    known = hashlib.sha256(options.path.read_bytes()).hexdigest() in load().about["files"].values()
    scores = quality(options.path, options.step, [name for name in names if not (known and name == BLOCKS)])
    rates = speed(options.path, options.timing_step, options.runs, names)
    for name in names:
        middle, low, high = statistics.median(rates[name]), min(rates[name]), max(rates[name])
        row = scores.get(name, {})
        figures = " | ".join(
            f"{row.get(k, 0):.3f}" for k in ("f1", "precision", "recall", "snippets_in", "snippets_out")
        )
        print(f"| {name} | {figures} | {middle} ({low}–{high}) |", file=sys.stderr)
    modules = sorted({CANDIDATES[name][0] for name in names})
    versions = {module: importlib.metadata.version(PACKAGES[module]) for module in modules}
    print(
        json.dumps(
            {
                "benchmark": "html_extraction",
                "python": platform.python_version(),
                "versions": versions,
                "quality": scores,
                "pages_per_second": rates | product_speed(options.path, options.timing_step, options.runs),
            }
        )
    )


if __name__ == "__main__":
    main()
