"""Precision and recall of a run's rules for its whole corpus, estimated from marked pages of a stratified sample.

    stratum: N documents, of n marked ones b bad ──> share of bad pages b / n, about N · b / n bad pages

    precision of a rule    share of bad pages among those that it dropped               Wilson's interval
    recall of a rule       bad pages that it dropped / all bad pages                    ratio of sums over strata

Each stratum is a simple random sample without replacement. Sums and ratios get their intervals from those of the
shares, by the method of variance estimates recovery (MOVER). Unlike a normal interval by the delta method it has a
width where no marked page is bad, which is usual among kept pages.

    <root>/runs/<id>/audit/results.json ── saved_results ──> AuditResults ── tables ──> terminal, section of the report

Results lie in the folder of the run and in no artifact. The report hashes them, so new marks lead to a new page.
"""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.data_prep.clean import Clean
from headrace.pipeline.core.claim import remove_unfinished
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.settings import decode, digest_of_json, plain
from headrace.pipeline.core.statistics import Estimate, wilson
from headrace.pipeline.report.formatting import count, decimal, percent

RESULTS = "audit/results.json"
NOT_KNOWN = "–"
"""Shown for what too few marks tell."""
COLUMNS = ("stage", "rule", "pages", "good", "bad", "unsure", "precision", "recall", "good pages lost per kept page")
KEPT_RULE, ALL_RULES = "kept", "all rules"
"""The names of the stratum of kept pages, and of all rules of cleaning together."""
NOTE = (
    "Precision: the share of bad pages among those that a rule dropped; of kept pages, the share of good ones. Recall: "
    "the share that a rule dropped of all bad pages, those that cleaning dropped and those that were kept in the end; "
    "each page counts for the first rule that it broke. Copies of other pages are in neither. In brackets: 95 % "
    "intervals."
)
Marks = Mapping[str, str]
"""Page → mark."""


@dataclasses.dataclass(frozen=True)
class Stratum:
    """The documents that a rule of a stage dropped, or that it kept, and the ids of those on the sheet."""

    stage: str
    rule: str
    documents: int
    """The documents of the stratum in the whole corpus: each page on the sheet stands for documents / len(ids)."""
    ids: tuple[str, ...]


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


@dataclasses.dataclass(frozen=True)
class MarkedStratum:
    """A stratum of ``documents``, of which a random sample was marked as ``good`` and ``bad``."""

    documents: int
    good: int
    bad: int

    @property
    def marked(self) -> int:
        return self.good + self.bad


def bad_share(stratum: MarkedStratum) -> Estimate | None:
    """Returns the share of bad pages in ``stratum``; None without marks.

    Wilson's interval, with the effective sample size n (N - 1) / (N - n) of a sample without replacement: the variance
    of a share is p (1 - p) / n · (N - n) / (N - 1) (Cochran, Sampling Techniques, 1977, theorem 3.2). A stratum that is
    marked whole has no error.
    """
    n, documents = stratum.marked, stratum.documents
    if not n:
        return None
    share = stratum.bad / n
    if n >= documents:
        return Estimate(share, share, share)
    low, high = wilson(share, n * (documents - 1) / (documents - n))
    return Estimate(share, min(share, low), max(share, high))  # at 0 and 1 they are equal but for rounding


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """Returns ``estimate`` times ``factor``, which is not negative."""
    return Estimate(factor * estimate.value, factor * estimate.low, factor * estimate.high)


def complement(estimate: Estimate) -> Estimate:
    """Returns the share of all others."""
    return Estimate(1 - estimate.value, 1 - estimate.high, 1 - estimate.low)


def total(parts: Sequence[Estimate]) -> Estimate:
    """Returns the sum of independent estimates.

    Interval: the distance from the sum to each limit is the root of the sum of the squares of those of the parts (Zou
    and Donner, Statistics in Medicine 27, 2008, the limits of a sum).
    """
    value = math.fsum(part.value for part in parts)
    below = math.sqrt(math.fsum((part.value - part.low) ** 2 for part in parts))
    above = math.sqrt(math.fsum((part.high - part.value) ** 2 for part in parts))
    return Estimate(value, value - below, value + above)


def share_of_sum(part: Estimate, others: Estimate) -> Estimate | None:
    """Returns part / (part + others) of independent estimates; None if both are 0.

    With the ratio r = part / others it is r / (1 + r), and grows with it. The interval is that of r by MOVER (Donner
    and Zou, Statistical Methods in Medical Research 21, 2012, the limits of a ratio).
    """
    if not part.value + others.value:
        return None
    low, high = _ratio_limits(part, others)
    upper = 1.0 if math.isinf(high) else high / (1 + high)
    return Estimate(part.value / (part.value + others.value), 1.0 if math.isinf(low) else low / (1 + low), upper)


def _ratio_limits(top: Estimate, bottom: Estimate) -> tuple[float, float]:
    """Returns the limits of top / bottom, infinite where the bottom may be 0.

    The lower limit is the published one times its conjugate: the published form is 0 / 0 at high = 2 · value.
    """
    product = top.value * bottom.value
    lower_part = top.low * (2 * top.value - top.low)
    lower_root = math.sqrt(max(0.0, product**2 - lower_part * bottom.high * (2 * bottom.value - bottom.high)))
    upper_part = bottom.low * (2 * bottom.value - bottom.low)
    upper_root = math.sqrt(max(0.0, product**2 - top.high * (2 * top.value - top.high) * upper_part))
    lower_bottom = product + lower_root
    low = lower_part / lower_bottom if lower_bottom else math.inf if lower_part else 0.0
    return low, (product + upper_root) / upper_part if upper_part else math.inf


def cohens_kappa(first: Mapping[str, str], second: Mapping[str, str]) -> Kappa:
    """Returns the agreement of two markers on the pages that both marked: page → mark.

    (p_o - p_e) / (1 - p_e), with the observed agreement p_o and the one p_e of independent markers with the same
    shares of each mark (Cohen, Educational and Psychological Measurement 20, 1960). None where it is not defined.
    """
    pages = first.keys() & second.keys()
    if not pages:
        return Kappa(0, None, None)
    observed = sum(first[page] == second[page] for page in pages) / len(pages)
    shares = [Counter(marks[page] for page in pages) for marks in (first, second)]
    expected = sum(number * shares[1][mark] for mark, number in shares[0].items()) / len(pages) ** 2
    return Kappa(len(pages), observed, None if expected == 1 else (observed - expected) / (1 - expected))


def results_of(key: str, strata: Sequence[Stratum], marks: Mapping[str, Marks]) -> AuditResults:
    """Returns the results of the sheet ``key`` by the ``marks`` of each marker, and the agreement of each two."""
    markers = tuple(MarkerResult(marker, tuple(_rules(strata, own))) for marker, own in marks.items())
    pairs = itertools.combinations(marks, 2)
    agreements = (MarkerPair(first, second, cohens_kappa(marks[first], marks[second])) for first, second in pairs)
    return AuditResults(key, markers, tuple(agreements))


def _rules(strata: Sequence[Stratum], marks: Marks) -> list[RuleResult]:
    """Returns a result for each of the ``strata``, and one for all rules of cleaning after the last of them."""
    marked = {(item.stage, item.rule): _marked(item, marks) for item in strata}
    kept = next(marked[item.stage, item.rule] for item in strata if item.rule == KEPT_RULE)
    cleaned = [marked[item.stage, item.rule] for item in strata if _is_of_cleaning(item)]
    results = []
    for item in strata:
        own = marked[item.stage, item.rule]
        others = [stratum for stratum in (*cleaned, kept) if stratum is not own]
        results.append(_result(item, own, others if _is_of_cleaning(item) else None, kept, marks))
    if len(cleaned) > 1:
        unsure = sum(result.unsure for result, item in zip(results, strata, strict=True) if _is_of_cleaning(item))
        results.insert(_last_of_cleaning(strata) + 1, _all_rules(cleaned, kept, unsure))
    return results


def _is_of_cleaning(stratum: Stratum) -> bool:
    return stratum.stage == Clean.name and stratum.rule != KEPT_RULE


def _last_of_cleaning(strata: Sequence[Stratum]) -> int:
    return max(index for index, stratum in enumerate(strata) if _is_of_cleaning(stratum))


def _marked(stratum: Stratum, marks: Marks) -> MarkedStratum:
    numbers = Counter(marks.get(identity) for identity in stratum.ids)
    return MarkedStratum(stratum.documents, numbers["good"], numbers["bad"])


def _result(
    stratum: Stratum, own: MarkedStratum, others: Sequence[MarkedStratum] | None, kept: MarkedStratum, marks: Marks
) -> RuleResult:
    """Returns the result of a ``stratum``; ``others`` hold the other bad pages, None: its recall is not known."""
    unsure = sum(marks.get(identity) == "unsure" for identity in stratum.ids)
    counted = (stratum.stage, stratum.rule, stratum.documents, own.good, own.bad, unsure)
    share = bad_share(own)
    if share is None:
        return RuleResult(*counted)
    if stratum.rule == KEPT_RULE:
        return RuleResult(*counted, precision=complement(share))
    false_drops = _per_kept(scaled(complement(share), stratum.documents), kept)
    recall = None if others is None else _recall([own], others)
    return RuleResult(*counted, precision=share, recall=recall, false_drops=false_drops)


def _all_rules(cleaned: Sequence[MarkedStratum], kept: MarkedStratum, unsure: int) -> RuleResult:
    documents, good, bad = (sum(getattr(item, name) for item in cleaned) for name in ("documents", "good", "bad"))
    counted = (Clean.name, ALL_RULES, documents, good, bad, unsure)
    dropped = _bad_pages(cleaned)
    if dropped is None:
        return RuleResult(*counted)
    share = scaled(dropped, 1 / documents)
    false_drops = _per_kept(scaled(complement(share), documents), kept)
    return RuleResult(*counted, precision=share, recall=_recall(cleaned, [kept]), false_drops=false_drops)


def _per_kept(good_pages: Estimate, kept: MarkedStratum) -> Estimate | None:
    return scaled(good_pages, 1 / kept.documents) if kept.documents else None


def _recall(part: Sequence[MarkedStratum], others: Sequence[MarkedStratum]) -> Estimate | None:
    """Returns the share of all bad pages that ``part`` holds; None when a stratum has no mark, or no page is bad."""
    inside, outside = _bad_pages(part), _bad_pages(others)
    return None if inside is None or outside is None else share_of_sum(inside, outside)


def _bad_pages(strata: Sequence[MarkedStratum]) -> Estimate | None:
    """Returns the number of bad pages in ``strata``; None when one that has documents has no mark."""
    shares = [(stratum, bad_share(stratum)) for stratum in strata if stratum.documents]
    parts = [scaled(share, stratum.documents) for stratum, share in shares if share is not None]
    return total(parts) if len(parts) == len(shares) else None
