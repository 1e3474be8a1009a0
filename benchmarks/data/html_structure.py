r"""Measures how well HTML extractors keep structure: text, code blocks, formulas and tables.

    python -m benchmarks.data.html_structure FOLDER [--sources /usr/share/doc] [--only NAME,NAME] [--show GENERATOR]

Makes FOLDER/pages.jsonl unless it is there (structure_pages.py), then judges each extractor on its pages. Measured as
WebMainBench does (Ma et al., 2025, Dripper, arXiv 2511.23119; opendatalab/WebMainBench on GitHub), from 0 to 1:

    text        1 - edit distance / characters of the longer; of the whole Markdown, of the truth and as extracted
    code        the same of all blocks of code, joined
    formulas    the same of all TeX between $ and $, $$ and $$, \( and \), \[ and \]
    table text  the same of all cells, with marks of their rows
    TEDS        1 - tree edit distance / nodes of the larger; of all tables of the page as one (Zhong et al., 2020,
                arXiv 1911.10683): a cell costs the edit distance of its text, all else costs 1
    overall     the mean of the five

A page counts for those that its truth or its extraction has. A score is the mean of its pages, overall that of scores.
Otherwise than there, marks that say the same are made one first (emphasis, escapes, addresses of links, bullets, empty
lines), as the truth is in no extractor's style; empty cells count; and TEDS compares trees: the public code gives its
tree library strings, each of which that takes for one node, so that wrong tables cost 1 in all: TEDS there is higher.
Generators and other extractors are those that are installed; versions are in the JSON line that is printed.
"""

import argparse
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import platform
import re
import shutil
import statistics
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import headrace
from benchmarks.data.structure_pages import KEPT, made_pages, run

METRICS = ("text", "code", "formulas", "table text", "TEDS")
FENCE = re.compile(r"^[ >]*(`{3,}|~{3,})[^\n`]*\n(.*?)^[ >]*\1[ ]*$", re.M | re.S)
INDENTED = re.compile(
    r"^(?![ \t]*(?:[-*+]|\d+\.)[ ])\S.*\n(?:[ ]*\n)+((?:[ ]{4}|\t).*\n(?:(?:[ ]{4}|\t).*\n|[ ]*\n)*)", re.M
)
"""Code that only stands four spaces in, after a paragraph that is no item of a list."""
INLINE_CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
FORMULA = re.compile(r"(?<!\\)(?:\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\((.+?)\\\)|\$(?!\s)([^$]+?)(?<!\s)\$)", re.S)
SEPARATOR = re.compile(r"[\s|:-]*-[\s|:-]*")
LARGEST_TREE = 1200
"""Nodes of trees that are compared: of larger ones, only the first rows."""


class Structure(NamedTuple):
    """The parts of a Markdown text."""

    text: str
    code: str
    formulas: str
    rows: list[list[str]]
    """Cells; the first is the tag: th or td."""


def structure(markdown: str) -> Structure:
    """Returns the parts of a text."""
    codes: list[str] = []

    def note(match: re.Match[str]) -> str:
        lines = match[2].split("\n")
        indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        first = len(match[0]) - len(match[0].lstrip(" >"))
        codes.append("\n".join(line[min(indent, first) :].rstrip() for line in lines).strip("\n"))
        return f"\n{codes[-1]}\n"

    without = FENCE.sub("\n", markdown)
    indented = [textwrap.dedent(match[1]).strip("\n") for match in INDENTED.finditer(without)]
    without_code = INLINE_CODE.sub(" ", without)
    formulas = [" ".join("".join(match).split()) for match in FORMULA.findall(without_code)]
    rows = [row for table in tables(without) for row in table]
    whole = plain(
        FORMULA.sub(lambda match: f"${' '.join(''.join(match.groups(default='')).split())}$", FENCE.sub(note, markdown))
    )
    return Structure(whole, "\n".join(codes + indented), "\n".join(formulas), rows)


def plain(text: str) -> str:
    """Returns a text with one way to write each mark."""
    text = re.sub(r"!?\[([^\]\n]*)\]\([^)\n]*\)", r"\1", text)
    text = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text)
    text = re.sub(r"\*\*|__|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)|`", "", text)
    lines = (re.sub(r"^[*+] +", "- ", " ".join(line.split())) for line in text.split("\n"))
    lines = ("|".join(cells(line)) if "|" in line else line for line in lines if not SEPARATOR.fullmatch(line))
    return "\n".join(line for line in lines if line)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", re.sub(r"^\s*\||(?<!\\)\|\s*$", "", line))]


def tables(markdown: str) -> Iterable[list[list[str]]]:
    """Yields the tables: lines with | whose second is a separator."""
    for group in re.findall(r"(?:^.*\|.*\n?)+", markdown, re.M):
        lines = [re.sub(r"^[ >]*", "", line) for line in group.strip("\n").split("\n")]
        if len(lines) > 1 and SEPARATOR.fullmatch(lines[1]):
            own = [row for line in (lines[0], *lines[2:]) if any(row := plain_cells(line))]
            yield [["td" if number else "th", *row] for number, row in enumerate(own)]


def plain_cells(line: str) -> list[str]:
    return [plain(cell.replace("\\|", "&#124;")).replace("&#124;", "|") for cell in cells(line)]


@functools.cache
def edit_distance(first: str, second: str) -> int:
    """Returns the Levenshtein distance, by Hyyrö's bit vectors (2003)."""
    if len(first) < len(second):
        first, second = second, first
    if not second:
        return len(first)
    places: dict[str, int] = defaultdict(int)
    for index, character in enumerate(first):
        places[character] |= 1 << index
    ones, last = (1 << len(first)) - 1, 1 << (len(first) - 1)
    up, down, distance = ones, 0, len(first)
    for character in second:
        match = places.get(character, 0)
        zero = (((match & up) + up) ^ up) | match | down
        right, left = down | (~(zero | up) & ones), up & zero
        distance += bool(right & last) - bool(left & last)
        right, left = (right << 1 | 1) & ones, left << 1 & ones
        up, down = left | (~(zero | right) & ones), right & zero
    return distance


def similarity(first: str, second: str) -> float:
    return 1 - edit_distance(first, second) / max(len(first), len(second), 1)


def tree(rows: list[list[str]]) -> tuple[list[tuple[str, str]], list[int]]:
    """Returns the nodes of a table in postorder, each a tag and a text, and the first leaf below each."""
    nodes: list[tuple[str, str]] = []
    leaves: list[int] = []
    for tag, *own in rows:
        first = len(nodes)
        nodes += [*((tag, cell) for cell in own), ("tr", "")]
        leaves += [*range(first, first + len(own)), first]
        if len(nodes) > LARGEST_TREE:
            break
    return [*nodes, ("table", "")], [*leaves, 0]


def tree_distance(first: list[list[str]], second: list[list[str]]) -> float:
    """Returns the edit distance of two tables (Zhang and Shasha, 1989)."""
    (nodes, left), (others, below) = tree(first), tree(second)
    roots = [sorted({leaf: node for node, leaf in enumerate(leaves)}.values()) for leaves in (left, below)]
    distances = [[0.0] * len(others) for _ in nodes]
    for root in roots[0]:
        for other in roots[1]:
            start, begin = left[root], below[other]
            table = [[float(column) for column in range(other - begin + 2)]]
            for i in range(start, root + 1):
                row, before = [table[-1][0] + 1], table[-1]
                table.append(row)
                for j in range(begin, other + 1):
                    least = min(before[j - begin + 1], row[j - begin]) + 1
                    if left[i] == start and below[j] == begin:
                        least = min(least, before[j - begin] + cost(nodes[i], others[j]))
                        distances[i][j] = least
                    else:
                        least = min(least, table[left[i] - start][below[j] - begin] + distances[i][j])
                    row.append(least)
    return distances[-1][-1]


def cost(first: tuple[str, str], second: tuple[str, str]) -> float:
    return 1 if first[0] != second[0] else 1 - similarity(first[1], second[1]) if first[1] != second[1] else 0


def scores(truth: Structure, extracted: Structure) -> dict[str, float]:
    """Returns the metrics of a page that it has."""
    result = {
        name: similarity(a, b)
        for name, a, b in zip(METRICS, truth, extracted, strict=False)
        if (a or b) and name in METRICS[:3]
    }
    if truth.rows or extracted.rows:
        written = [
            "".join(f"<{tag}>".join(["<tr>", *own]) for tag, *own in rows) for rows in (truth.rows, extracted.rows)
        ]
        result["table text"] = similarity(*written)
        sizes = [len(tree(rows)[0]) for rows in (truth.rows, extracted.rows)]
        is_both = truth.rows and extracted.rows
        result["TEDS"] = 1 - tree_distance(truth.rows, extracted.rows) / max(sizes) if is_both else 0.0
    return result


def trafilatura(page: str) -> str:
    return importlib.import_module("trafilatura").extract(page, output_format="markdown", include_formatting=True) or ""


def resiliparse(page: str) -> str:
    return str(importlib.import_module("resiliparse.extract.html2text").extract_plain_text(page, main_content=True))


def markdownify(page: str) -> str:
    return str(importlib.import_module("markdownify").markdownify(page, heading_style="ATX", strip=["script", "style"]))


def readability(page: str) -> str:
    document = importlib.import_module("readability").Document(page)
    return f"# {document.short_title()}\n\n" + markdownify(document.summary())


def html2text(page: str) -> str:
    return str(importlib.import_module("html2text").html2text(page, bodywidth=0))


OURS = "headrace Markdown"
CANDIDATES: dict[str, tuple[str, str, Callable[[str], str]]] = {
    OURS: ("headrace", "headrace", lambda page: headrace.text(page, markdown=True)),
    "headrace plain": ("headrace", "headrace", headrace.text),
    "trafilatura Markdown": ("trafilatura", "trafilatura", trafilatura),
    "readability + markdownify": ("readability", "readability-lxml", readability),
    "html2text of all": ("html2text", "html2text", html2text),
    "markdownify of all": ("markdownify", "markdownify", markdownify),
    "resiliparse plain": ("resiliparse", "resiliparse", resiliparse),
}
"""Name → the module that it needs, its distribution, and the extractor."""
PROGRAMS = ("pandoc", "doxygen", "javadoc", "rustdoc", "hugo", "jekyll", "asciidoctor", "latexmlc", "node", "xsltproc")
DISTRIBUTIONS = (
    "sphinx", "furo", "sphinx-rtd-theme", "pydata-sphinx-theme", "mkdocs", "mkdocs-material", "docutils", "pdoc",
    "nbconvert", "pygments",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Returns the versions of what made and read the pages."""
    asked = {"hugo": "version", "latexmlc": "--VERSION"}
    numbers = {name: run(name, asked.get(name, "--version")).split("\n")[0] for name in PROGRAMS if shutil.which(name)}
    for name in (*DISTRIBUTIONS, *dict.fromkeys(distribution for _, distribution, _ in CANDIDATES.values())):
        try:
            numbers[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return numbers | {"python": platform.python_version()}


def means(pages: list[dict[str, float]]) -> dict[str, float]:
    """Returns each score's mean over the pages that have it, and the mean of these."""
    result = {
        name: statistics.fmean(own) for name in METRICS if (own := [page[name] for page in pages if name in page])
    }
    return {name: round(value, 3) for name, value in ({"overall": statistics.fmean(result.values())} | result).items()}


def table(title: str, rows: dict[str, dict[str, float]]) -> str:
    names = ("overall", *METRICS)
    lines = [f"| {title} | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    lines += [
        f"| {row} | " + " | ".join(f"{of[name]:.3f}" if name in of else "" for name in names) + " |"
        for row, of in rows.items()
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sources", type=Path, default=Path("/usr/share/doc"))
    parser.add_argument("--only", default="")
    parser.add_argument(
        "--show", default="", help="print truth and extraction of this generator's pages, which is not kept"
    )
    options = parser.parse_args()
    file = options.folder / "pages.jsonl"
    if not file.exists():
        lines = [json.dumps(page) for page in made_pages(options.sources, options.folder)]
        file.write_text("\n".join(lines), encoding="utf-8")
    pages: list[dict[str, Any]] = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")]
    truths = {page["document"]: structure(page["truth"]) for page in pages}
    asked = {name: of for name, of in CANDIDATES.items() if not options.only or name in options.only.split(",")}
    if missing := [of[1] for of in asked.values() if not importlib.util.find_spec(of[0])]:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
    judged: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name, (module, _, extract) in asked.items():
        if importlib.util.find_spec(module):
            own = judged[name] = defaultdict(list)
            for page in pages:
                text = extract(page["html"])
                own[page["generator"]].append(scores(truths[page["document"]], structure(text)))
                if options.show == page["generator"] and options.show not in KEPT and name == OURS:
                    print(f"==== {page['document']} {own[options.show][-1]}\n{page['truth']}\n---- extracted\n{text}")
    result: dict[str, Any] = {"benchmark": "html_structure", "pages": len(pages), "versions": versions()}
    for group, is_in in (("tuned", lambda name: name not in KEPT), ("kept", KEPT.__contains__), ("all", bool)):
        rows = {name: means([page for of in own if is_in(of) for page in own[of]]) for name, own in judged.items()}
        result[group] = rows
        print(table(f"{group} generators", rows), file=sys.stderr)
    if OURS in judged:
        result["generators"] = {name + " (kept)" * (name in KEPT): means(own) for name, own in judged[OURS].items()}
        print(table(OURS, result["generators"]), file=sys.stderr)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
