"""Judgement of a model that finds main text: word F1 against the truth, and sentences that it finds, by kinds of pages.

pages ── cross_validated ──> Judged, ... ── table ──> rows        each page by a model that saw no page of its site
"""

import dataclasses
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from headrace.data_prep.extraction.main_text.labels import WORD, LabelledPage, squeezed
from headrace.data_prep.extraction.main_text.model import MainTextModel, judged
from headrace.data_prep.extraction.main_text.training import part_of


@dataclasses.dataclass(frozen=True)
class Judged:
    """The result for one page. Precision, recall and F1 are None without a truth."""

    group: str
    precision: float | None
    recall: float | None
    f1: float | None
    wanted: tuple[bool, ...]
    """Whether each wanted sentence was found."""
    unwanted: tuple[bool, ...]


def word_f1(text: str, truth: str) -> tuple[float, float, float]:
    """Returns precision, recall and F1 of the bag of words of ``text`` against that of ``truth``."""
    extracted, wanted = Counter(WORD.findall(text.lower())), Counter(WORD.findall(truth.lower()))
    common = (extracted & wanted).total()
    precision = common / extracted.total() if extracted else 0.0
    recall = common / wanted.total() if wanted else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if common else 0.0


def judge(page: LabelledPage, model: MainTextModel) -> Judged:
    """Returns what ``model`` finds on ``page``."""
    text = page.page.text(judged(page.page, model)[1])
    precision, recall, f1 = word_f1(text, page.truth) if page.truth else (None, None, None)
    flat = squeezed(text)
    wanted = tuple(squeezed(snippet) in flat for snippet in page.snippets_in)
    unwanted = tuple(squeezed(snippet) in flat for snippet in page.snippets_out)
    return Judged(page.group, precision, recall, f1, wanted, unwanted)


def cross_validated(
    pages: Sequence[LabelledPage], folds: int, seed: int, train: Callable[[Sequence[LabelledPage]], MainTextModel]
) -> Iterator[Judged]:
    """Yields each page, judged by the model that ``train`` makes of the pages of the other folds' sites."""
    for fold in range(folds):
        model = train([page for page in pages if part_of(page.site, folds, seed) != fold])
        yield from (judge(page, model) for page in pages if part_of(page.site, folds, seed) == fold)


def table(results: Sequence[Judged]) -> list[tuple[str, ...]]:
    """Returns a row, with the columns of HEAD, for all pages and for each group."""
    groups = sorted({result.group for result in results})
    return [_row("all", results), *(_row(group or "-", [r for r in results if r.group == group]) for group in groups)]


HEAD = ("pages", "number", "F1", "precision", "recall", "wanted found", "unwanted found")


def _row(name: str, results: Sequence[Judged]) -> tuple[str, ...]:
    known = [result for result in results if result.f1 is not None]
    means = [_mean([getattr(result, key) for result in known]) for key in ("f1", "precision", "recall")]
    wanted = _mean([is_found for result in results for is_found in result.wanted])
    unwanted = _mean([is_found for result in results for is_found in result.unwanted])
    return (name, str(len(results)), means[0], means[1], means[2], wanted, unwanted)


def _mean(values: Sequence[float | None]) -> str:
    return f"{statistics.fmean(value for value in values if value is not None):.3f}" if values else "-"
