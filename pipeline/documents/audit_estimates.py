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
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from headrace.data_prep.clean import Clean
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.core.settings import decode, digest_of_json
from headrace.pipeline.core.statistics import Estimate, wilson
from headrace.pipeline.report.formatting import count, percent

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

    @property
    def is_of_cleaning(self) -> bool:
        """Whether a rule of cleaning dropped its documents."""
        return self.stage == Clean.name and self.rule != KEPT_RULE


@dataclasses.dataclass(frozen=True)
class MarkedStratum:
    """A stratum of ``documents``, of which a random sample was marked as ``good``, ``bad`` and ``unsure``."""

    documents: int
    good: int
    bad: int
    unsure: int = 0


@dataclasses.dataclass(frozen=True)
class AuditResults:
    """The results of an audit, as they are shown."""

    sample: str
    """The key of the sample that was marked."""
    rows: tuple[tuple[str, ...], ...]
    """The rows under COLUMNS."""
    note: ClassVar[str] = NOTE


def saved_results(run_folder: Path) -> AuditResults | None:
    """Returns the results in the folder of a run; None before a page was marked.

    Raises:
        ArtifactError: when they are damaged, or of another version of headrace.
    """
    path = run_folder / RESULTS
    if not path.is_file():
        return None
    try:
        return decode(AuditResults, read_sealed(path))
    except ConfigError:
        raise ArtifactError(str(path), "is of another version of headrace", "run headrace audit RUN again") from None


def described_audit(run_folder: Path) -> dict[str, str]:
    """Returns what a report's description has of the audit in a run's folder; nothing before a page was marked."""
    path = run_folder / RESULTS
    return {"audit": digest_of_json(read_sealed(path))} if path.is_file() else {}


def rows(strata: Sequence[Stratum], marks: Marks) -> Iterator[tuple[str, ...]]:
    """Yields the cells of each of the ``strata``, and of all rules of cleaning after the last of them."""
    marked = [_marked(stratum, marks) for stratum in strata]
    (kept,) = (own for stratum, own in zip(strata, marked, strict=True) if stratum.rule == KEPT_RULE)
    cleaned = [own for stratum, own in zip(strata, marked, strict=True) if stratum.is_of_cleaning]
    left = len(cleaned)
    for stratum, own in zip(strata, marked, strict=True):
        others = [other for other in (*cleaned, kept) if other is not own]
        yield _row(stratum.stage, stratum.rule, [own], others if stratum.is_of_cleaning else None, kept)
        left -= stratum.is_of_cleaning
        if stratum.is_of_cleaning and not left and len(cleaned) > 1:
            yield _row(stratum.stage, ALL_RULES, cleaned, [kept], kept)


def _marked(stratum: Stratum, marks: Marks) -> MarkedStratum:
    numbers = Counter(marks.get(identity) for identity in stratum.ids)
    return MarkedStratum(stratum.documents, numbers["good"], numbers["bad"], numbers["unsure"])


def _row(
    stage: str,
    rule: str,
    strata: Sequence[MarkedStratum],
    others: Sequence[MarkedStratum] | None,
    kept: MarkedStratum,
) -> tuple[str, ...]:
    """Returns the cells of ``strata`` together; ``others`` hold the other bad pages, None: the recall is not known."""
    numbers = [sum(getattr(own, field.name) for own in strata) for field in dataclasses.fields(MarkedStratum)]
    documents, bad = numbers[0], bad_pages(strata)
    precision = recall = lost = None
    if bad is not None and documents:
        precision = scaled(bad, 1 / documents)
        if rule == KEPT_RULE:
            precision = complement(precision)
        else:
            lost = scaled(complement(precision), documents / kept.documents) if kept.documents else None
            outside = None if others is None else bad_pages(others)
            recall = None if outside is None else share_of_sum(bad, outside)
    return (stage, rule, *map(count, numbers), *map(_shown, (precision, recall, lost)))


def _shown(estimate: Estimate | None) -> str:
    """Returns ``62.5 % [38.6 %, 81.5 %]``."""
    if estimate is None:
        return NOT_KNOWN
    return f"{percent(estimate.value)} [{percent(estimate.low)}, {percent(estimate.high)}]"


def bad_pages(strata: Sequence[MarkedStratum]) -> Estimate | None:
    """Returns the number of bad pages in ``strata``; None when one that has documents has no mark."""
    shares = [(stratum.documents, bad_share(stratum)) for stratum in strata if stratum.documents]
    parts = [scaled(share, documents) for documents, share in shares if share is not None]
    return total(parts) if len(parts) == len(shares) else None


def bad_share(stratum: MarkedStratum) -> Estimate | None:
    """Returns the share of bad pages in ``stratum``; None without marks.

    Wilson's interval, with the effective sample size n (N - 1) / (N - n) of a sample without replacement: the variance
    of a share is p (1 - p) / n · (N - n) / (N - 1) (Cochran, Sampling Techniques, 1977, theorem 3.2). A stratum that is
    marked whole has no error.
    """
    n, documents = stratum.good + stratum.bad, stratum.documents
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
    and Zou, Statistical Methods in Medical Research 21, 2012, the limits of a ratio), infinite where others may be 0.
    The lower limit is the published one times its conjugate: the published form is 0 / 0 at high = 2 · value.
    """
    if not part.value + others.value:
        return None
    product = part.value * others.value
    lower_part = part.low * (2 * part.value - part.low)
    lower_root = math.sqrt(max(0.0, product**2 - lower_part * others.high * (2 * others.value - others.high)))
    upper_part = others.low * (2 * others.value - others.low)
    upper_root = math.sqrt(max(0.0, product**2 - part.high * (2 * part.value - part.high) * upper_part))
    lower_bottom = product + lower_root
    low = lower_part / lower_bottom if lower_bottom else math.inf if lower_part else 0.0
    high = (product + upper_root) / upper_part if upper_part else math.inf
    low, high = (1.0 if math.isinf(ratio) else ratio / (1 + ratio) for ratio in (low, high))
    return Estimate(part.value / (part.value + others.value), low, high)
