"""The sheet of an audit: the pages that were drawn, their strata, and the files in which people mark them.

    <root>/runs/<id>/audit/sheet.json            the sheet, drawn once; its key names exactly these pages
                           marks-ann.json        {"sheet": key, "marker": "ann", "marks": {"pages.jsonl:2": "bad", …}}
                           results.json          what follows from the marks (audit_results.py)

    sheet ── lines ──> {"sheet": key, "id": "pages.jsonl:2", "mark": "", "text": …}      any editor fills in the marks

A page is good if it should be in the corpus, bad if it should not, unsure if one cannot say. Of a removed copy, bad
means that it is a copy of the page that stays.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import xxhash
from pydantic import TypeAdapter, ValidationError

from headrace.pipeline.core.claim import remove_unfinished
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.settings import digest_of_json, plain

FOLDER = "audit"
"""The folder of an audit in that of its run."""
SHEET = f"{FOLDER}/sheet.json"
BEGINNING, END = 4_000, 2_000
"""The characters that are shown of the beginning and of the end of a long text."""


@dataclasses.dataclass(frozen=True)
class AuditedPage:
    """A page to mark."""

    id: str
    url: str
    text: str
    """Its text, or the beginning and the end of a long one."""
    stage: str
    rule: str
    """The rule of ``stage`` that dropped it; empty when it was kept."""
    value: str = ""
    """The value that the rule measured, with its meaning."""
    near: str = ""
    """The rule whose threshold it is near, and the value."""
    survivor: str = ""
    """The id of the page that stays in its place."""
    survivor_text: str = ""

    @property
    def reason(self) -> str:
        """The fate of the page."""
        fate = f"dropped by {self.stage}: {self.rule}: {self.value}" if self.rule else f"kept by {self.stage}"
        return f"{fate}; near a threshold: {self.near}" if self.near else fate

    def shown(self, shows_rule: bool) -> dict[str, str]:
        """Returns what the sheet has of the page."""
        facts = {"id": self.id, "url": self.url, "text": self.text}
        facts |= {"survivor": self.survivor, "survivor_text": self.survivor_text} if self.survivor else {}
        return facts | ({"reason": self.reason} if shows_rule else {})


@dataclasses.dataclass(frozen=True)
class Stratum:
    """The documents that a rule of a stage dropped, or that it kept, and the ids of those on the sheet."""

    stage: str
    rule: str
    documents: int
    """The documents of the stratum in the whole corpus: a page stands for ``weight`` of them."""
    ids: tuple[str, ...]
    is_drawn: bool = True
    """Whether they are a random sample; others are in no estimate for the corpus."""

    @property
    def weight(self) -> float:
        """The documents of the corpus for each page on the sheet; 0 without a page, or if they were not drawn."""
        return self.documents / len(self.ids) if self.ids and self.is_drawn else 0.0


@dataclasses.dataclass(frozen=True)
class AuditSheet:
    """The pages of an audit, in the order in which they are marked."""

    key: str
    """A hash of what was drawn from, how, and which pages: marks belong to one sheet."""
    run: str
    seed: int
    number: int
    near: int
    addresses: Mapping[str, str]
    strata: tuple[Stratum, ...]
    pages: tuple[AuditedPage, ...]

    @classmethod
    def of(
        cls,
        run: str,
        seed: int,
        number: int,
        near: int,
        addresses: Mapping[str, str],
        strata: Sequence[Stratum],
        pages: Mapping[str, AuditedPage],
    ) -> "AuditSheet":
        """Returns the sheet of ``pages``, by id, in an order that does not depend on their strata."""
        order = sorted(pages, key=lambda identity: (xxhash.xxh64_intdigest(identity, seed ^ 1), identity))
        key = digest_of_json([seed, number, near, dict(addresses), order])
        return cls(key, run, seed, number, near, addresses, tuple(strata), tuple(pages[identity] for identity in order))

    @property
    def ids(self) -> list[str]:
        """The ids of its pages, in their order."""
        return [page.id for page in self.pages]

    def save(self, run_folder: Path) -> None:
        """Writes it to the folder of a run, ``run_folder``, with the weight of each stratum."""
        values = plain(self)
        strata = [entry | {"weight": item.weight} for entry, item in zip(values["strata"], self.strata, strict=True)]
        remove_unfinished(run_folder / SHEET)
        write_sealed(run_folder / SHEET, values | {"strata": strata})

    def lines(self, marks: Mapping[str, str], shows_rule: bool) -> Iterator[str]:
        """Yields a line of JSON for each page, with its mark, or an empty one to fill in."""
        for page in self.pages:
            line = {"sheet": self.key, "mark": marks.get(page.id, ""), **page.shown(shows_rule)}
            yield json.dumps(line, ensure_ascii=False) + "\n"


def saved_sheet(run_folder: Path) -> AuditSheet | None:
    """Returns the sheet in the folder of a run, ``run_folder``; None before it was drawn.

    Raises:
        ArtifactError: when it is damaged, or another version of headrace wrote it.
    """
    path = run_folder / SHEET
    if not path.is_file():
        return None
    try:
        return TypeAdapter(AuditSheet).validate_python(read_sealed(path))
    except ValidationError:
        remedy = f"use that version, or move the folder {path.parent} away"
        raise ArtifactError(str(path), "was written by another version of headrace", remedy) from None


def excerpt_of(text: str) -> str:
    """Returns ``text``, or its beginning and end with the number of characters between them."""
    left_out = len(text) - BEGINNING - END
    return text if left_out <= 0 else f"{text[:BEGINNING]}\n\n[… {left_out:,} characters …]\n\n{text[-END:]}"
