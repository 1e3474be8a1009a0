"""Measures what each preset of cleaning keeps of the same pages. Writes the tables of a record, FOLDER/tables.md.

    python -m benchmarks.data.preset_yield TOKENIZER.json FOLDER PAGES.jsonl[.zst]:FIELD …

PAGES: JSONL with ``html``, and in FIELD the kind of a page, such as its type or its language; of rows with the same
``group`` the first one is taken. FOLDER also gets the pages and ``runs/``, the root. Each preset of conf/cleaning is
one command, ``headrace source=jsonl cleaning=PRESET until=clean``; the pages are read once. A preset that asks for a
file, such as a classifier, is named and left out.

    pages, text, tokens     shares of what could be read: pages, characters, tokens of TOKENIZER
    rules that drop most    of pages, with their number; lines that a rule takes out of kept pages are in text
    of KIND                 share of the pages of each kind
    also kept by            of the pages that the preset in the row keeps, the share that the one in the column keeps
"""

import argparse
import itertools
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import headrace
from headrace.pipeline.configuration.options import groups
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.text_files import created, read_lines

BASE = "none"
"""The preset that keeps what could be read."""


def pages(sources: Iterable[str], path: Path) -> list[str]:
    """Writes the pages of ``sources`` to ``path`` and returns the kind of each."""
    kinds, seen = [], set()
    with created(path) as file:
        for path_of, field in (source.rsplit(":", 1) for source in sources):
            for row in map(json.loads, read_lines(Path(path_of))):
                if (name := row.get("group", len(kinds))) not in seen:
                    seen.add(name)
                    kinds.append(f"{field} {row[field]}")
                    file.write(json.dumps({"url": row.get("url", ""), "html": row["html"]}).encode() + b"\n")
    return kinds


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}" if whole else "–"


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = list(header)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pages", nargs="+")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    tokenizer = headrace.Tokenizer(arguments.tokenizer)
    kinds = pages(arguments.pages, arguments.folder / "pages.jsonl")
    kept: dict[str, set[int]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    rules: dict[str, Counter[str]] = {}
    tables: list[str] = []
    for preset in sorted(groups()["cleaning"]):
        settings = {
            "source": "jsonl",
            "source.paths": str(arguments.folder / "pages.jsonl"),
            "source.html_field": "html",
            "cleaning": preset,
            "until": "clean",
            "root": str(arguments.folder / "runs"),
        }
        try:
            run = headrace.launch(settings)
        except ConfigError as error:
            tables.append(f"`{preset}` was not run: {error}\n")
            continue
        documents = list(run.documents("clean"))
        kept[preset] = {int(document["id"].rsplit(":", 1)[1]) for document in documents}
        texts = [document["text"] for document in documents]
        sizes[preset] = sum(map(len, texts)), sum(map(len, map(tokenizer.encode, texts)))
        rules[preset] = Counter(
            {row["rule"]: row["dropped"] for row in run.funnel() if row["stage"] == "clean" and row["dropped"]}
        )
    read, (characters, tokens) = kept[BASE], sizes[BASE]
    tables.insert(
        0, f"{len(kinds)} pages, {len(read)} read: {characters / 1e6:.1f} M characters, {tokens / 1e6:.2f} M tokens\n"
    )
    rows = (
        (
            f"`{preset}`",
            share(len(kept[preset]), len(read)),
            share(sizes[preset][0], characters),
            share(sizes[preset][1], tokens),
            ", ".join(f"`{rule}` {number}" for rule, number in rules[preset].most_common(3)),
        )
        for preset in kept
    )
    tables.append(table(("preset", "pages, %", "text, %", "tokens, %", "rules that drop most"), rows))
    fields = itertools.groupby(sorted(set(kinds)), lambda kind: kind.split()[0])
    for field, of_field in fields:
        named = {kind: {number for number in read if kinds[number] == kind} for kind in of_field}
        header = (f"% of {field}", *(f"{kind.split()[1]} ({len(numbers)})" for kind, numbers in named.items()))
        rows = ((f"`{p}`", *(share(len(kept[p] & numbers), len(numbers)) for numbers in named.values())) for p in kept)
        tables.append(table(header, rows))
    rows = ((f"`{p}`", *(share(len(kept[p] & kept[other]), len(kept[p])) for other in kept)) for p in kept)
    tables.append(table(("also kept by, %", *kept), rows))
    (arguments.folder / "tables.md").write_text("\n".join(tables), encoding="utf-8")


if __name__ == "__main__":
    main()
