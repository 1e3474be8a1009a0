"""The sheet of an audit: a stratified sample of a run's documents, drawn once, and the marks that people give them.

    texts, clean, unique ── dropped/ by rule ──> a stratum for each rule ┐
    the last of them ────── documents/ ────────> the stratum of kept     ┴─ lowest hashes of seed and id ──> pages

    <root>/runs/<id>/audit/sheet.json            the sheet; its key names exactly these pages
                           marks.json            {"sheet": key, "marks": {"pages.jsonl:2": "bad", …}}
                           results.json          what follows from the marks (audit_estimates.py)

    sheet ── lines ──> {"sheet": key, "id": "pages.jsonl:2", "mark": "", "text": …}      any editor fills in the marks

The draw is a function of the seed and the ids: another draw, with any number of workers and shards, gives the same
pages. A page is good if it should be in the corpus, bad if it should not, unsure if one cannot say. Of a removed copy,
bad means that it is a copy of the page that stays.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import xxhash
from datatrove.data import Document
from pydantic import TypeAdapter, ValidationError

from headrace.data_prep.document import split_id
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.explanations import explained
from headrace.data_prep.unique import COPIES, survivor_of
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.claim import remove_unfinished
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_json, read_sealed, write_json, write_sealed
from headrace.pipeline.core.settings import digest_of_json, plain
from headrace.pipeline.core.stage import STORING
from headrace.pipeline.core.text_files import read_lines
from headrace.pipeline.documents.audit_estimates import KEPT_RULE, RESULTS, AuditResults, Stratum, rows
from headrace.pipeline.documents.document_choice import at_random, by_hash, lowest
from headrace.pipeline.documents.lookup import cleaning_of, texts_stage, whole
from headrace.pipeline.documents.stored_documents import KINDS, document_named, located, rule_of
from headrace.pipeline.report.funnel import KEPT, dropped
from headrace.pipeline.run.planner import Run

FOLDER = "audit"
"""The folder of an audit in that of its run."""
SHEET = f"{FOLDER}/sheet.json"
MARKED = f"{FOLDER}/marks.json"
MARKS = ("good", "bad", "unsure")
BEGINNING, END = 4_000, 2_000
"""The characters that are shown of the beginning and of the end of a long text."""
NUMBER, SEED = 20, 0


@dataclasses.dataclass(frozen=True)
class AuditedPage:
    """A page to mark."""

    id: str
    url: str
    text: str
    """Its text, or the beginning and the end of a long one."""
    reason: str
    """The fate of the page: the stage that kept it, or dropped it by a rule, with the value that the rule measured."""
    survivor: str = ""
    """The id of the page that stays in its place."""
    survivor_text: str = ""


@dataclasses.dataclass(frozen=True)
class AuditSheet:
    """The pages of an audit, in the order in which they are marked."""

    key: str
    """A hash of what was drawn from, how, and which pages: marks belong to one sheet."""
    run: str
    seed: int
    number: int
    addresses: Mapping[str, str]
    strata: tuple[Stratum, ...]
    pages: tuple[AuditedPage, ...]

    def lines(self, marks: Mapping[str, str], shows_rule: bool) -> Iterator[str]:
        """Yields a line of JSON for each page, with its mark, or an empty one to fill in."""
        for page in self.pages:
            line = {"sheet": self.key, "mark": marks.get(page.id, ""), **plain(page)}
            for name in () if page.survivor else ("survivor", "survivor_text"):
                del line[name]
            if not shows_rule:
                del line["reason"]
            yield json.dumps(line, ensure_ascii=False) + "\n"


def sheet_of(run: Run, number: int | None = None, seed: int | None = None) -> AuditSheet:
    """Returns the sheet of ``run``, drawn first where there is none, or none of this ``number`` and ``seed``.

    Raises:
        ConfigError: when pages of another sheet are marked already.
        ArtifactError: when no stage that keeps and drops documents is finished, or the saved sheet is damaged.
    """
    folder, addresses = run.run_json.parent, _addresses(document_artifacts(run))
    path = folder / SHEET
    try:
        before = TypeAdapter(AuditSheet).validate_python(read_sealed(path)) if path.is_file() else None
    except ValidationError:
        raise ArtifactError(str(path), "is of another version", f"use that one, or move {path.parent} away") from None
    if number is None:
        number = before.number if before else NUMBER
    if seed is None:
        seed = before.seed if before else SEED
    if before and (before.number, before.seed, before.addresses) == (number, seed, addresses):
        return before
    if before and saved_marks(folder, before):
        stages = ", ".join(stage for stage in STORING if stage in before.addresses)
        how = f"{before.number} pages of each rule, seed {before.seed}, of {stages}"
        problem = f"was drawn otherwise ({how}) and is marked"
        remedy = f"leave the options out to go on with it, or move {path.parent} away"
        raise ConfigError("sheet", problem, remedy)
    drawn = drawn_sheet(run, number, seed)
    remove_unfinished(path)
    write_sealed(path, plain(drawn))
    return drawn


def document_artifacts(run: Run) -> dict[str, Artifact]:
    """Returns the finished artifacts of ``run`` that keep and drop documents, in the order of the line.

    Raises:
        ArtifactError: when none is finished.
    """
    finished = whole(run.stages)
    artifacts = {stage: finished[stage] for stage in STORING if stage in finished}
    if not artifacts:
        raise ArtifactError("texts", "is not finished, so there is no page to draw", "run it first")
    return artifacts


def _addresses(artifacts: Mapping[str, Artifact]) -> dict[str, str]:
    return {stage: artifact.folder.name for stage, artifact in artifacts.items()}


def drawn_sheet(run: Run, number: int, seed: int) -> AuditSheet:
    """Returns a sheet of ``number`` pages of each stratum of ``run``, in an order that does not depend on the strata.

    Raises:
        ArtifactError: when no stage that keeps and drops documents is finished.
    """
    artifacts, filters = document_artifacts(run), cleaning_of(run.stages).filters
    addresses = _addresses(artifacts)
    strata, pages = list[Stratum](), dict[str, AuditedPage]()

    def draw(stage: str, rule: str, documents: int, chosen: Iterable[tuple[int, Document]]) -> None:
        drawn = {document.id: _page(stage, document, filters) for _, document in chosen}
        strata.append(Stratum(stage, rule, documents, tuple(drawn)))
        pages.update(drawn)

    for stage, artifact in artifacts.items():
        by_rule = lowest(number, located(artifact, KINDS[1]), by_hash(seed), rule_of)
        for rule, documents in sorted(dropped(artifact.counts).items()):
            draw(stage, rule, documents, by_rule[rule])
    last, artifact = list(artifacts.items())[-1]
    draw(last, KEPT_RULE, artifact.counts[KEPT], at_random(seed, artifact, KINDS[0], number))
    order = sorted(pages, key=lambda identity: (xxhash.xxh64_intdigest(identity, seed ^ 1), identity))
    key = digest_of_json([seed, number, addresses, order])
    shown = tuple(_with_survivor(run, artifacts, pages[identity]) for identity in order)
    return AuditSheet(key, run.id, seed, number, addresses, tuple(strata), shown)


def _page(stage: str, document: Document, filters: Sequence[AnyFilter]) -> AuditedPage:
    """Returns the page of a ``document`` of ``stage``."""
    rule, url = rule_of(document), str(document.metadata.get("url") or "")
    value = str(document.metadata["drop"].get("value", "")) if rule else ""
    fate = f"dropped by {stage}: {rule}: {explained(rule, filters).of_value(value)}" if rule else f"kept by {stage}"
    survivor = survivor_of(value) if rule in COPIES else ""
    return AuditedPage(document.id, url, excerpt_of(document.text), fate, survivor)


def _with_survivor(run: Run, artifacts: Mapping[str, Artifact], page: AuditedPage) -> AuditedPage:
    """Returns ``page`` with the text of the page that stays in place of a removed copy.

    An older run of ``dedup.against`` may hold that page. Then only its id is known here.
    """
    if not page.survivor or run.config.dedup.against:
        return page
    file, _ = split_id(page.survivor)
    shards = texts_stage(run.stages).shards_by_file.get(file, ())
    stored = next(filter(None, (document_named(artifacts["clean"], shard, page.survivor) for shard in shards)), None)
    return page if stored is None else dataclasses.replace(page, survivor_text=excerpt_of(stored.document.text))


def excerpt_of(text: str) -> str:
    """Returns ``text``, or its beginning and end with the number of characters between them."""
    left_out = len(text) - BEGINNING - END
    return text if left_out <= 0 else f"{text[:BEGINNING]}\n\n[… {left_out:,} characters …]\n\n{text[-END:]}"


def saved_marks(run_folder: Path, sheet: AuditSheet) -> dict[str, str]:
    """Returns the marks in the folder of a run, ``run_folder``, also in older files, one a marker: id → mark.

    Raises:
        ConfigError: when a file has marks of another sheet, or other marks than ours.
    """
    files = [(str(path), read_json(path)) for path in sorted((run_folder / FOLDER).glob("marks*.json"))]
    entries = ((path, saved["sheet"], *entry) for path, saved in files for entry in saved["marks"].items())
    return _checked(entries, sheet)


def add_marks(run_folder: Path, sheet: AuditSheet, marks: Mapping[str, str]) -> None:
    """Adds ``marks`` to those of the run, atomically: a kill leaves the marks before or after, never a part."""
    before = saved_marks(run_folder, sheet)
    remove_unfinished(run_folder / MARKED)
    write_json(run_folder / MARKED, {"sheet": sheet.key, "marks": before | dict(marks)})


def read_marks(path: Path, sheet: AuditSheet) -> dict[str, str]:
    """Returns the marks by id that were filled in in the lines of the file at ``path``.

    Raises:
        ConfigError: when it has another format, marks of another sheet or unknown pages, or another word than ours.
    """
    try:
        lines = list(read_lines(path))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read ({error.strerror})", "name a file with marks") from None
    return _checked(_entries(path, lines), sheet)


MarkEntry = tuple[str, Any, Any, Any]
"""The place of a mark in its file, the key of its sheet, the id of the page, and the mark."""


def _entries(path: Path, lines: Sequence[bytes]) -> Iterator[MarkEntry]:
    for number, line in enumerate(lines, 1):
        place = f"{path}, line {number}"
        try:
            if line.strip():
                entry = json.loads(line)
                yield place, entry["sheet"], entry["id"], entry.get("mark", "")
        except (ValueError, LookupError, TypeError, RecursionError):
            problem = f"is no page of a sheet: {line[:80].decode(errors='replace')!r}"
            raise ConfigError(place, problem, "give the file of --sheet") from None


def _checked(entries: Iterable[MarkEntry], sheet: AuditSheet) -> dict[str, str]:
    marks, known = dict[str, str](), {page.id for page in sheet.pages}
    for place, key, identity, mark in entries:
        if key != sheet.key:
            problem = f"has marks of the sheet {key!r}, and the sheet of this run is {sheet.key!r}"
            raise ConfigError(place, problem, f"name the run that it was drawn from (this is {sheet.run})")
        if not isinstance(identity, str) or identity not in known:
            raise ConfigError(place, f"{identity!r} is no page of the sheet", "leave ids and lines as they are")
        if mark not in ("", *MARKS):
            raise ConfigError(place, f"{identity} has the mark {mark!r}", f"write {', '.join(MARKS)}, or nothing")
        if mark:
            marks[identity] = str(mark)
    return marks


def update_results(run_folder: Path, sheet: AuditSheet) -> AuditResults | None:
    """Computes the results from the marks in the folder of a run, writes and returns them; None without a mark."""
    if not (marks := saved_marks(run_folder, sheet)):
        return None
    results = AuditResults(sheet.key, tuple(rows(sheet.strata, marks)))
    remove_unfinished(run_folder / RESULTS)
    write_sealed(run_folder / RESULTS, plain(results))
    return results
