"""The table of docs/hard_cases.md of what each preset does to texts that rules for web prose are not made for.

python -m docs.hard_cases        writes the table again; tests/test_hard_cases.py compares it with the filters

The made texts are docs/hard_cases/*.txt. Each is cleaned as the only page of a crawl, so that no text depends on
another. Lists and classifiers that only a user has are left out of the presets that need them. Real texts are read from
the folder $HEADRACE_DATA, where it is set; without it their table stays.
"""

import copy
import dataclasses
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import orjson
import yaml
from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import Drop
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.filter import GlobalFilter, removed_parts
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.text_files import read_lines

FOLDER = Path(__file__).parent
PAGE = FOLDER / "hard_cases.md"
TEXTS = FOLDER / "hard_cases"
PRESETS = sorted((FOLDER.parent / "conf" / "cleaning").glob("*.yaml"))
MADE = "<!-- The table of made texts is written by `python -m docs.hard_cases`. -->\n"
REAL = "<!-- The table of real texts is written by it where $HEADRACE_DATA has them. -->\n"
END = "<!-- End of the table. -->\n"
CASES = {
    "hard_wrapped": "hard-wrapped letter",
    "titles": "article with titles",
    "feed": "feed of headlines",
    "ocr": "OCR of a book",
    "code_with_licence": "code with a licence header",
    "generated_code": "generated code",
    "minified_code": "minified code",
    "poem": "poem",
    "list": "recipe, a list",
}
"""File → what it is."""
MISSING = "???"
"""The value of a setting in a preset that only a user can give."""
REAL_TEXTS = 60
"""Texts of each kind that are read."""
REAL_CHARACTERS = 20_000


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The effect of a preset on a text."""

    drop: Drop | None
    lost: float
    """The share of its characters, white space aside, that are no longer there."""
    rules: Sequence[str] = ()
    """The rules that removed lines or sentences."""

    def __str__(self) -> str:
        if self.drop is not None:
            return f"dropped by `{self.drop.rule}`"
        if not self.lost:
            return "kept whole"
        rules = ", ".join(f"`{rule}`" for rule in self.rules)
        return f"kept, loses {100 * self.lost:.0f} % of its characters" + f" by {rules}" * bool(rules)


def filters_of(path: Path) -> tuple[AnyFilter, ...]:
    """Returns the filters of the preset at ``path``, without those that need a file of the user's."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))["filters"]
    return decode(Cleaning, {"filters": [entry for entry in entries if MISSING not in entry.values()]}).filters


def outcome(text: str, filters: Sequence[AnyFilter]) -> Outcome:
    """Returns the effect of ``filters`` on ``text``, as the only page of a crawl."""
    document = Document(text=text, id="text:0", metadata={"url": "https://example.org/text"})
    for page_filter in copy.deepcopy(filters):
        drop = trimmed(document, page_filter) if isinstance(page_filter, GlobalFilter) else page_filter.judge(document)
        if drop is not None:
            return Outcome(drop, 1.0)
    before, after = Counter(text), Counter(document.text)
    lost = sum(number for character, number in (before - after).items() if not character.isspace())
    rules = [rule for _, rule, _ in removed_parts(document)]
    return Outcome(None, lost / len("".join(text.split())), rules)


def trimmed(document: Document, page_filter: GlobalFilter) -> Drop | None:
    """Removes the parts of ``document`` that repeat earlier ones of its own."""
    keys, _, parts = page_filter.keys(document)
    _, first = np.unique(keys, axis=0, return_index=True)
    losers = np.unique(np.delete(parts, first)) if len(keys) else parts
    return page_filter.trim(document, losers.astype(np.uint32))


def made_rows() -> Iterator[tuple[str, str, str]]:
    """Yields (text, effect, presets) for each made text, the effect of most presets first."""
    presets = {path.stem: filters_of(path) for path in PRESETS}
    for name, title in CASES.items():
        text = (TEXTS / f"{name}.txt").read_text(encoding="utf-8")
        effects: dict[str, list[str]] = {}
        for preset, filters in presets.items():
            effects.setdefault(str(outcome(text, filters)), []).append(preset)
        for number, (effect, names) in enumerate(sorted(effects.items(), key=lambda item: -len(item[1]))):
            yield (f"[{title}](hard_cases/{name}.txt)" if not number else ""), effect, " ".join(f"`{n}`" for n in names)


def real_texts(data: Path) -> dict[str, list[str]]:
    """Returns real texts of hard kinds in the folder ``data``, by kind, each cut at REAL_CHARACTERS."""
    stories = (row["text"] for row in _rows(data / "dedup" / "reuters_000-015.jsonl.zst"))
    kinds: dict[str, list[str]] = {"newswire, hard-wrapped": list(itertools.islice(stories, REAL_TEXTS))}
    for row in _rows(data / "text" / "english_documents.jsonl.zst"):
        if row["source"] == "tinyshakespeare":
            pieces = re.findall(r"(?s).{1,3000}\n\n", row["text"])
            kinds["plays in verse"] = pieces[:REAL_TEXTS]
        elif row["source"] == "gutenberg":
            middle = len(row["text"]) // 2
            kinds.setdefault("books", []).append(row["text"][middle : middle + REAL_CHARACTERS])
    for row in _rows(data / "web" / "wcxb_dev.jsonl.zst"):
        pages = kinds.setdefault(f"web: {row['page_type']}", [])
        if row["truth"] and len(pages) < REAL_TEXTS:
            pages.append(row["truth"][:REAL_CHARACTERS])
    return kinds


def _rows(path: Path) -> Iterator[Mapping[str, str]]:
    return map(orjson.loads, read_lines(path))


def real_table(data: Path) -> str:
    """Returns, for each kind of real texts and each preset, the share of texts kept and of characters left in these."""
    kinds = real_texts(data)
    lines = [["preset", *(f"{kind} ({len(texts)})" for kind, texts in kinds.items())]]
    for path in PRESETS:
        filters = filters_of(path)
        shares = (_shares([outcome(text, filters) for text in texts]) for texts in kinds.values())
        lines.append([f"`{path.stem}`", *shares])
    return table(lines)


def _shares(outcomes: Sequence[Outcome]) -> str:
    kept = [item for item in outcomes if item.drop is None]
    left = 1 - sum(item.lost for item in kept) / len(kept) if kept else 0
    return f"{100 * len(kept) / len(outcomes):.0f} / {100 * left:.0f}" if kept else "0"


def table(lines: Sequence[Sequence[str]]) -> str:
    """Returns a table in Markdown; the first of the ``lines`` is its head."""
    head, *body = lines
    rows = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(page: str, mark: str, content: str) -> str:
    """Returns ``page`` with ``content`` below the first ``mark``, up to END."""
    before, _, rest = page.partition(mark)
    _, _, after = rest.partition(END)
    return f"{before}{mark}\n{content}\n{END}{after}"


def made_table() -> str:
    """Returns the table of the made texts."""
    return table([("text", "what happens", "presets"), *made_rows()])


if __name__ == "__main__":
    text = written(PAGE.read_text(encoding="utf-8"), MADE, made_table())
    if folder := os.environ.get("HEADRACE_DATA"):
        text = written(text, REAL, real_table(Path(folder)))
    PAGE.write_text(text, encoding="utf-8")
