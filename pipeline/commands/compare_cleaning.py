"""``headrace compare-cleaning``: which of the same texts two presets of cleaning keep, by which rules, with samples.

headrace compare-cleaning c4 fineweb                   on the texts of the newest run
headrace compare-cleaning c4 gopher --sample 5         five samples of each rule that makes a difference
headrace compare-cleaning c4 none source=jsonl source.paths=pages.jsonl

    texts ──> clean, cleaning=c4      ──> kept | dropped by a rule ──┐
          └─> clean, cleaning=fineweb ──> kept | dropped by a rule ──┴─ compared by id

A cleaning that is not finished is computed first, on this machine, as by ``headrace cleaning=fineweb until=clean``.
"""

import contextlib
import dataclasses
import heapq
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import click
import xxhash
from datatrove.data import Document

from headrace.data_prep.document import read_documents
from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact, shard_name
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Natural, value_of
from headrace.pipeline.documents.stored_documents import KINDS, rule_of
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact, one_line
from headrace.pipeline.run.planner import Run, plan
from headrace.pipeline.run.run_execution import execute
from headrace.pipeline.run.storage import reading

TEXTS = "texts"
"""The stage whose description is taken from the run, so raw files are not read again."""
TEXT_CHARACTERS = 200


@command
@click.argument("preset", metavar="PRESET")
@click.argument("other", metavar="PRESET")
@click.option("--sample", metavar="NUMBER", default="2", help="Samples of each rule that makes a difference (2).")
@run_option
def compare_cleaning(overrides: Sequence[str], preset: str, other: str, sample: str, run: str) -> None:
    """Prints which of the same texts two presets of cleaning keep, with counts by rule and samples."""
    number = int(value_of(Natural, sample, "--sample"))
    base = run_of(overrides, run)
    with cleaned(base, overrides, preset) as first, cleaned(base, overrides, other) as second:
        terminal.show(report(Cleaned(preset, first), Cleaned(other, second), number))


@dataclasses.dataclass(frozen=True)
class Cleaned:
    """The texts after the cleaning of a preset."""

    preset: str
    artifact: Artifact

    def shard(self, number: int) -> dict[str, Document]:
        """Returns the documents of a shard by id, kept and dropped."""
        paths = [self.artifact.path(shard_name(kind, number, "jsonl.zst")) for kind in KINDS]
        return {document.id: document for path in paths for document in read_documents(path)}


@contextlib.contextmanager
def cleaned(base: Run, overrides: Sequence[str], preset: str) -> Iterator[Artifact]:
    """Yields the texts of the run ``base`` after cleaning by ``preset``, which is computed if it is not finished.

    ``headrace gc`` keeps them during the block, although no run may use them.

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
            for _, identity, document in sorted(self._chosen[rule], reverse=True):
                url = document.metadata.get("url")
                yield "  sample", identity + (f"  {url}" if url else "")
                yield "  value", str(document.metadata["drop"]["value"])
                yield "  text", one_line(document.text, TEXT_CHARACTERS)


def report(former: Cleaned, latter: Cleaned, samples: int) -> Iterator[Fact]:
    """Yields which texts both, one or none of two cleanings keep, and why."""
    counts: Counter[str] = Counter()
    only_one, only_other = PresetDifference(samples), PresetDifference(samples)
    for number in range(former.artifact.shard_count):
        first, second = former.shard(number), latter.shard(number)
        for identity, document in first.items():
            counterpart = second[identity]
            kept = (not rule_of(document), not rule_of(counterpart))
            counts["both" if all(kept) else "any" if any(kept) else "none"] += 1
            if kept == (True, True):
                counts["different"] += document.text != counterpart.text
            elif kept == (True, False):
                only_one.add(counterpart)
            elif kept == (False, True):
                only_other.add(document)
    total = counts["both"] + counts["any"] + counts["none"]
    yield "texts", f"{total:,}"
    yield "kept by both", f"{_share(counts['both'], total)}; {counts['different']:,} with different lines or words"
    yield f"only {former.preset}", _share(only_one.counts.total(), total)
    yield f"only {latter.preset}", _share(only_other.counts.total(), total)
    yield "kept by none", _share(counts["none"], total)
    for cleaning in (former, latter):
        sums = cleaning.artifact.counts
        yield cleaning.preset, f"keeps {sums['kept']:,} texts, {sums['characters_kept']:,} characters"
    yield from only_one.facts(former.preset, latter.preset)
    yield from only_other.facts(latter.preset, former.preset)


def _share(number: int, total: int) -> str:
    return f"{number:,} ({number / max(total, 1):.1%})"
