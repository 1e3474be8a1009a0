"""The results of an audit of a run (audit_sheet.py): precision and recall of its rules, as people marked its pages.

    <root>/runs/<id>/audit/results.json ── saved_results ──> AuditResults ── tables ──> terminal, section of the report

They lie in the folder of the run and in no artifact. The report hashes them, so new marks lead to a new page.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.core.claim import remove_unfinished
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.settings import decode, digest_of_json, plain
from headrace.pipeline.core.statistics import Estimate
from headrace.pipeline.report.formatting import count, decimal, percent

RESULTS = "audit/results.json"
NOT_KNOWN = "–"
"""Shown for what too few marks tell."""
COLUMNS = ("stage", "rule", "pages", "good", "bad", "unsure", "precision", "recall", "good pages lost per kept page")
KEPT_RULE, NEAR_RULE, ALL_RULES = "kept", "kept, near thresholds", "all rules"
"""The names of strata of kept pages, and of all rules of a stage together."""
NOTE = (
    "Precision: the share of bad pages among those that a rule dropped; of kept pages, the share of good ones. Recall: "
    "the share that a rule dropped of all bad pages, those that cleaning dropped and those that were kept in the end; "
    "each page counts for the first rule that it broke. Copies of other pages are in neither. In brackets: 95 % "
    "intervals. Kept pages near thresholds were chosen, not drawn: they say what a stricter threshold would drop."
)


def shown(estimate: Estimate | None) -> str:
    """Returns ``62.5 % [38.6 %, 81.5 %]``."""
    if estimate is None:
        return NOT_KNOWN
    return f"{percent(estimate.value)} [{percent(estimate.low)}, {percent(estimate.high)}]"


@dataclasses.dataclass(frozen=True)
class RuleResult:
    """The marks of a stratum and what follows from them."""

    stage: str
    rule: str
    documents: int
    """The documents of the stratum in the whole corpus."""
    good: int
    bad: int
    unsure: int
    precision: Estimate | None = None
    recall: Estimate | None = None
    false_drops: Estimate | None = None
    """Good pages that it dropped for each page that was kept."""

    def cells(self) -> list[str]:
        """Returns the row of the table under ``COLUMNS``."""
        numbers = map(count, (self.documents, self.good, self.bad, self.unsure))
        estimates = [self.precision, self.recall, self.false_drops]
        return [self.stage, self.rule, *numbers, *map(shown, estimates)]


@dataclasses.dataclass(frozen=True)
class MarkerResult:
    """The results by the marks of one person."""

    marker: str
    rules: tuple[RuleResult, ...]


@dataclasses.dataclass(frozen=True)
class Kappa:
    """The agreement of two markers on ``pages`` that both marked; None where it is not defined."""

    pages: int
    observed: float | None
    kappa: float | None


@dataclasses.dataclass(frozen=True)
class MarkerPair:
    """Two markers and their agreement."""

    first: str
    second: str
    agreement: Kappa

    def text(self) -> str:
        """Returns a sentence about them."""
        shared = self.agreement
        names = f"{self.first} and {self.second}"
        if shared.observed is None:
            return f"{names} marked no page in common."
        kappa = NOT_KNOWN if shared.kappa is None else decimal(shared.kappa)
        same = percent(shared.observed)
        return f"{names} agree on {same} of the {count(shared.pages)} pages that both marked; Cohen's kappa {kappa}."


@dataclasses.dataclass(frozen=True)
class AuditResults:
    """The results of an audit by each marker, and how far they agree."""

    sample: str
    """The key of the sample that was marked."""
    markers: tuple[MarkerResult, ...]
    pairs: tuple[MarkerPair, ...] = ()

    @property
    def tables(self) -> "list[tuple[str, Sequence[Sequence[str]]]]":
        """The marker and the rows of each table, under ``COLUMNS``."""
        return [(result.marker, [rule.cells() for rule in result.rules]) for result in self.markers]

    @property
    def columns(self) -> Sequence[str]:
        return COLUMNS

    @property
    def notes(self) -> list[str]:
        """The agreement of the markers, and the meaning of the tables."""
        return [*(pair.text() for pair in self.pairs), NOTE]


def save_results(run_folder: Path, results: AuditResults) -> None:
    """Writes the ``results`` to the folder of a run, ``run_folder``."""
    remove_unfinished(run_folder / RESULTS)
    write_sealed(run_folder / RESULTS, plain(results))


def saved_results(run_folder: Path) -> AuditResults | None:
    """Returns the results in the folder of a run; None before a page was marked.

    Raises:
        ArtifactError: when they are damaged.
    """
    path = run_folder / RESULTS
    return decode(AuditResults, read_sealed(path), str(path)) if path.is_file() else None


def described_audit(run_folder: Path) -> dict[str, str]:
    """Returns what a report's description has of the audit in a run's folder; nothing before a page was marked."""
    path = run_folder / RESULTS
    return {"audit": digest_of_json(read_sealed(path))} if path.is_file() else {}
