"""The effects of other settings of cleaning on the texts of a run: another threshold of a rule, or another preset.

Another threshold needs no run: each dropped page stores the number by which it failed, and a column has a value of all
documents. Pages that pass the rule at another threshold may still be dropped by later rules.

    texts ──> clean, cleaning=c4      ──> kept | dropped by a rule ──┐
          └─> clean, cleaning=fineweb ──> kept | dropped by a rule ──┴─ compared by id
"""

import contextlib
import dataclasses
import fractions
import heapq
import math
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xxhash
from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.column import Column
from headrace.data_prep.columns.scorer import ColumnValues, has_value, read_values
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.filter import deciding
from headrace.data_prep.filters.language.by_language import ByLanguage
from headrace.data_prep.filters.page_filter import PageRule
from headrace.data_prep.selection_rules.rules import Limit
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.setting_names import FILTERS
from headrace.pipeline.core.artifact import Artifact, shard_name
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import NaturalNumber, value_of
from headrace.pipeline.core.stage import OF_KIND, kind_of
from headrace.pipeline.documents.lookup import cleaning_of, column_named, document_stage
from headrace.pipeline.documents.stored_documents import (
    KINDS,
    is_stricter,
    limits_of,
    located,
    number_of,
    rule_of,
    threshold_holder,
)
from headrace.pipeline.output.terminal import Fact, one_line
from headrace.pipeline.report.about import start_command
from headrace.pipeline.run.planner import Run, plan
from headrace.pipeline.run.run_execution import execute
from headrace.pipeline.run.storage import reading

SCORES = ("language", "language_fasttext")
"""Filters that also store their number in the pages that they keep, as metadata ``language_score``."""
PERCENTS_KEPT = (1, 5, 10, 20, 30, 50, 70, 90, 99)
PERCENTILES = (0, 10, 25, 50, 75, 90, 100)
TEXTS = "texts"
"""The stage whose description is taken from the run, so raw files are not read again."""
TEXT_CHARACTERS = 200


def threshold_facts(run: Run, rule: str, at: str = "") -> Iterator[Fact]:
    """Yields the thresholds and the values of ``rule`` that ``run`` stored, and what the threshold ``at`` would drop.

    Of ``column.NAME``: the thresholds that keep each share of the documents of unique, and what ``at`` keeps.

    Raises:
        ConfigError: when clean dropped nothing by ``rule``, it has no threshold, or ``at`` is not a number.
        ArtifactError: when clean, or the column, is not finished.
    """
    if kind_of(rule) == Column.name:
        value = float(value_of(Limit, at, "--at")) if at else None
        yield from shares_kept(column_named(rule.partition(OF_KIND)[2], run.stages, "RULE"), value)
        return
    artifact, cleaning = document_stage("clean", run.stages), cleaning_of(run.stages)
    limits = limits_of(artifact, cleaning, rule)
    other = float(value_of(NaturalNumber, at, "--at")) if at else None
    values = [
        (number, document.metadata["drop"]["value"])
        for _, document in located(artifact, KINDS[1])
        if (number := number_of(document, rule)) is not None
    ]
    if not values:
        raise ConfigError("RULE", f"{rule!r} stores no number", "give a rule that measures, such as c4_lines.sentences")
    yield "rule", rule
    identifying = deciding(rule, cleaning.filters) if rule in SCORES else []
    languages = next((getattr(judge, "languages", None) for judge in identifying), None)
    numbers = [number for number, value in values if languages is None or value.partition(" ")[0] in languages]
    if len(numbers) < len(values):
        yield "other languages", f"{len(values) - len(numbers):,} pages were dropped for their language, at any number"
    is_known = False
    for name, limit in limits.items():
        failed = np.array([number for number in numbers if is_stricter(name, number, limit)])
        if len(failed):
            yield name, f"{limit:g}: {len(failed):,} pages were dropped, with these numbers"
            for percent, value in zip(PERCENTILES, np.percentile(failed, PERCENTILES), strict=True):
                yield "value", f"{percent:>4} % have at most {value:g}"
        elif rule in SCORES:
            yield name, f"{limit:g}: no page was dropped for its number"
        if other is not None and (rule in SCORES or not is_stricter(name, limit, other)):
            is_known = True
            if len(failed):
                still = sum(is_stricter(name, number, other) for number in failed)
                yield f"at {other:g}", f"{still:,} of them are dropped, {len(failed) - still:,} pass this rule"
    if other is not None and rule in SCORES:
        scores = [document.metadata.get("language_score", 1.0) for _, document in located(artifact, KINDS[0])]
        lost = sum(score < other for score in scores)
        yield f"at {other:g}", f"of {len(scores):,} pages that were kept, {lost:,} are dropped"
    elif other is not None and not is_known:
        yield from stricter(run, cleaning, rule, limits, other)


def stricter(run: Run, cleaning: Cleaning, rule: str, limits: Mapping[str, float], other: float) -> Iterator[Fact]:
    """Yields why ``run`` does not tell what ``other`` drops, which is stricter than all ``limits``, and the commands
    that do."""
    shown = " and ".join(f"{name}={limit:g}" for name, limit in limits.items())
    yield f"at {other:g}", f"is stricter than {shown}, and no number is stored of pages that passed: it needs a run"
    kept = [override for override in run.overrides if not override.startswith(("until=", "name="))]
    for name in limits:
        changed = f"{setting_of_limit(cleaning, rule, name)}={other:g}"
        yield "command", start_command([*kept, changed, "until=clean"], run.config_dir)


def setting_of_limit(cleaning: Cleaning, rule: str, limit: str) -> str:
    """Returns the setting ``limit`` of ``rule`` with its path, as it is given on the command line."""
    holder, owner = threshold_holder(cleaning, rule), deciding(rule, cleaning.filters)[0].type
    if owner == ByLanguage.type:
        entry, reason = rule.split(".")[1], getattr(holder, "reason", getattr(holder, "type", ""))
        return ".".join([f"+{FILTERS}", owner, "languages", entry, reason, limit])
    path = [FILTERS, owner, *(["rules", holder.type] if isinstance(holder, PageRule) else []), limit]
    return ".".join(path)


def shares_kept(column: Artifact, at: float | None = None) -> Iterator[Fact]:
    """Yields thresholds of ``column`` by the share of documents that they keep, and what the threshold ``at`` keeps."""
    values = np.concatenate([read_values(column, shard) for shard in range(column.shard_count)])
    ordered = np.sort(values[has_value(values)])
    yield "documents", f"{len(values):,}, {len(values) - len(ordered):,} of them without a value"
    for percent in PERCENTS_KEPT if len(ordered) else ():
        number = math.ceil(fractions.Fraction(percent, 100) * len(ordered))
        yield f"share {percent} %", kept_by(ordered, float(ordered[-number]), float(ordered[number - 1]))
    if at is not None:
        yield f"at {at:.6g}", kept_by(ordered, at, at)


def kept_by(ordered: ColumnValues, low: float, high: float) -> str:
    """Returns how many of the ``ordered`` values a threshold with min = ``low`` keeps, and one with max = ``high``."""
    at_least, at_most = len(ordered) - np.searchsorted(ordered, low), np.searchsorted(ordered, high, "right")
    limits = (("min", low, int(at_least)), ("max", high, int(at_most)))
    return " | ".join(f"{name}={limit!r}: {n:,} ({n / max(len(ordered), 1):.1%})" for name, limit, n in limits)


@contextlib.contextmanager
def cleaned(base: Run, overrides: Sequence[str], preset: str) -> Iterator[Artifact]:
    """Yields the texts of the run ``base`` after cleaning by ``preset``, which is computed if it is not finished.

    ``headrace du --unused --delete`` keeps them during the block, although no run may use them.

    Raises:
        ConfigError: when there is no such preset, the work is that of a cluster, another version began it, or texts is
            not finished and the run was started in another folder.
    """
    cleaning = decoded(compose([*overrides, f"cleaning={preset}"])).cleaning
    config = dataclasses.replace(base.config, cleaning=cleaning, until="clean")
    stages = plan(config, {stage.name: stage.description for stage in base.stages if stage.name == TEXTS})
    stages = stages[: 1 + next(index for index, stage in enumerate(stages) if stage.name == "clean")]
    for stage in stages:
        if stage.is_whole:
            continue
        if stage.name == TEXTS and base.folder is not None:
            problem = f"is not finished ({stage.folder}), and its raw files are named from another folder"
            raise ConfigError(TEXTS, problem, f"run the command in that folder: cd {shlex.quote(base.folder)}")
        stage.refuse_other_version()
        if config.cluster.scheduler:
            remedy = f"run it first: headrace cleaning={preset} until=clean and the settings of the run"
            raise ConfigError(stage.name, f"is not finished ({stage.folder})", remedy)
        stage.stage.check_start()
    with reading(stage.folder for stage in stages):
        for stage in stages:
            if not stage.is_whole:
                execute(stage, config)
        yield Artifact(stages[-1].folder)


class PresetDifference:
    """Documents that one preset keeps and the other one drops: their number by rule, and samples."""

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self.counts: Counter[str] = Counter()
        self._chosen: dict[str, list[tuple[int, str, Document]]] = defaultdict(list)

    def add(self, dropped: Document) -> None:
        """Counts ``dropped``. The samples of a rule are those with the largest hashes of their ids."""
        rule = rule_of(dropped)
        self.counts[rule] += 1
        if self._samples:
            entry = (xxhash.xxh64_intdigest(dropped.id), dropped.id, dropped)
            push = heapq.heappush if len(self._chosen[rule]) < self._samples else heapq.heappushpop
            push(self._chosen[rule], entry)

    def facts(self, keeping: str, dropping: str) -> Iterator[Fact]:
        """Yields the rules by which the preset ``dropping`` drops what ``keeping`` keeps, each with its samples."""
        yield "", ""
        yield f"only {keeping}", f"{self.counts.total():,} texts, which {dropping} drops by these rules:"
        for rule, number in self.counts.most_common():
            yield "rule", f"{rule}  {number:,}"
            for *_, document in sorted(self._chosen[rule], reverse=True):
                yield "  sample", f"{document.id}  {document.metadata.get('url') or ''}".rstrip()
                yield "  value", str(document.metadata["drop"]["value"])
                yield "  text", one_line(document.text, TEXT_CHARACTERS)


def preset_facts(names: Sequence[str], artifacts: Sequence[Artifact], samples: int) -> Iterator[Fact]:
    """Yields which texts both, one or none of two presets keep, and why: their ``names``, and the texts that each
    cleaned."""
    counts: Counter[tuple[bool, bool]] = Counter()
    different, only = 0, (PresetDifference(samples), PresetDifference(samples))
    for number in range(artifacts[0].shard_count):
        first, second = (_shard(artifact, number) for artifact in artifacts)
        for identity, document in first.items():
            pair = document, second[identity]
            kept = not rule_of(pair[0]), not rule_of(pair[1])
            counts[kept] += 1
            different += all(kept) and pair[0].text != pair[1].text
            if any(kept) and not all(kept):
                only[kept[1]].add(pair[kept[0]])  # what the other one dropped
    yield "texts", f"{counts.total():,}"
    yield "kept by both", f"{_share(counts, (True, True))}; {different:,} with different lines or words"
    yield f"only {names[0]}", _share(counts, (True, False))
    yield f"only {names[1]}", _share(counts, (False, True))
    yield "kept by none", _share(counts, (False, False))
    for name, artifact in zip(names, artifacts, strict=True):
        yield name, f"keeps {artifact.counts['kept']:,} texts, {artifact.counts['characters_kept']:,} characters"
    yield from only[0].facts(names[0], names[1])
    yield from only[1].facts(names[1], names[0])


def _shard(artifact: Artifact, number: int) -> dict[str, Document]:
    """Returns the documents of a shard by id, kept and dropped."""
    paths = [artifact.path(shard_name(kind, number, "jsonl.zst")) for kind in KINDS]
    return {document.id: document for path in paths for document in read_documents(path)}


def _share(counts: "Counter[tuple[bool, bool]]", kept: tuple[bool, bool]) -> str:
    return f"{counts[kept]:,} ({counts[kept] / max(counts.total(), 1):.1%})"
