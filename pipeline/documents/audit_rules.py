"""The results of an audit for each rule, and for all rules of cleaning together.

sheet, marks ── strata with good and bad pages ──> precision of each rule, recall of those of clean ──> AuditResults
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.data_prep.clean import Clean
from headrace.pipeline.core.statistics import Estimate
from headrace.pipeline.documents.audit_estimates import (
    MarkedStratum,
    bad_share,
    cohens_kappa,
    complement,
    scaled,
    share_of_sum,
    total,
)
from headrace.pipeline.documents.audit_marks import saved_marks
from headrace.pipeline.documents.audit_results import (
    ALL_RULES,
    KEPT_RULE,
    NEAR_RULE,
    AuditResults,
    MarkerPair,
    MarkerResult,
    RuleResult,
    save_results,
)
from headrace.pipeline.documents.audit_sheet import AuditSheet, Stratum

Marks = Mapping[str, str]
"""Page → mark."""


def results_of(sheet: AuditSheet, marks: Mapping[str, Marks]) -> AuditResults:
    """Returns the results by the ``marks`` of each marker, and the agreement of each two."""
    markers = tuple(MarkerResult(marker, tuple(_rules(sheet.strata, own))) for marker, own in marks.items())
    pairs = itertools.combinations(marks, 2)
    agreements = (MarkerPair(first, second, cohens_kappa(marks[first], marks[second])) for first, second in pairs)
    return AuditResults(sheet.key, markers, tuple(agreements))


def update_results(run_folder: Path, sheet: AuditSheet) -> AuditResults:
    """Computes the results from all marks of the run with the folder ``run_folder``, writes and returns them."""
    results = results_of(sheet, saved_marks(run_folder, sheet))
    if results.markers:
        save_results(run_folder, results)
    return results


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
    return stratum.stage == Clean.name and stratum.rule not in (KEPT_RULE, NEAR_RULE)


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
    if share is None or not stratum.is_drawn:
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
