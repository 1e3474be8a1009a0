"""``headrace inspect``: kept and dropped documents of a stage side by side, with the lines that they lost.

headrace inspect clean                                        5 kept and 5 dropped documents
headrace inspect clean --rule c4_lines.sentences --sample 3   3 kept documents and 3 that this rule dropped
headrace inspect clean --rule c4_lines.end_mark               documents that lost lines by it
headrace inspect texts --rule no_text                         records without a readable text
headrace inspect clean --rule language --seed 7               random ones; without a seed the first ones
headrace inspect clean --rule language --extreme nearest      dropped ones whose number is nearest to the threshold
headrace inspect clean --only kept --sample 20                20 kept documents, before and after cleaning

    kept                      dropped          on a wide terminal; else one fact a line
    id  pages.jsonl:2         id  pages.jsonl:7
    menu  c4_lines.end_mark   Too short.
    A sentence.
"""

import dataclasses
import functools
import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence

import click
import xxhash
from datatrove.data import Document
from rich.table import Table
from rich.text import Text

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.filter import REMOVED_UNITS, removed_parts
from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.facts import NAME_WIDTH, Fact, one_line
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.commands.thresholds import limits_of, number_of
from headrace.pipeline.commands.why import cleaning, decision
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import Seed, value_of
from headrace.pipeline.core.terminal import terminal
from headrace.pipeline.report.documents.document_samples import alternately, located, names, shard_of, spread
from headrace.pipeline.report.documents.marking import Line, Located, Page, excerpt, matches, pages
from headrace.pipeline.run.step import Step
from headrace.pipeline.tracing.lookup import (
    KINDS,
    cleaning_of,
    counted_rules,
    document_stage,
    dropping_rules,
    need,
    rule_of,
)

KEPT = "kept"
REMOVED = tuple(f"removed_{unit}:" for unit in REMOVED_UNITS)
"""The beginnings of the names of counts of a rule."""
NUMBER = 5
LINES = 12
LINE_CHARACTERS = 160
LOST = "lost"
REMOVED_MARK = "- "
COLUMNS = 100
"""A terminal of this width has room for two pages."""

Accept = Callable[[Document], bool]
Choose = Callable[[Artifact, str, Accept, int], list[Located]]
"""Chooses a number of accepted documents of a kind."""


@command
@click.argument("stage", metavar="STAGE")
@click.option("--rule", metavar="RULE", default="", help="Documents that this rule dropped, or took lines from.")
@click.option("--sample", metavar="NUMBER", default="", help="Number of documents of each kind.")
@click.option("--seed", metavar="SEED", default="", help="Random documents, the same ones for the same SEED.")
@click.option(
    "--extreme",
    type=click.Choice(["nearest", "farthest"]),
    help="Documents that RULE dropped with numbers nearest to, or farthest from, its threshold.",
)
@click.option("--only", type=click.Choice(["kept", "dropped"]), help="One kind, before and after cleaning.")
@run_option
def inspect(
    overrides: Sequence[str],
    stage: str,
    rule: str,
    sample: str,
    seed: str,
    extreme: str | None,
    only: str | None,
    run: str,
) -> None:
    """Prints kept and dropped documents of texts, clean or unique side by side, with the lines that they lost."""
    show(documents(run_of(overrides, run).steps, stage, rule, sample, seed, extreme, only))


@dataclasses.dataclass(frozen=True)
class Pages:
    """Kept pages, dropped pages, the rule that was given, and how they were chosen (empty: the first ones)."""

    kept: list[Page]
    dropped: list[Page]
    rule: str
    choice: str = ""


def documents(
    steps: Sequence[Step],
    stage: str,
    rule: str = "",
    number: str = "",
    seed: str = "",
    extreme: str | None = None,
    only: str | None = None,
) -> Pages:
    """Returns up to ``number`` documents that ``stage`` kept and as many that it dropped, or ``only`` one kind.

    A ``rule`` selects the documents that it dropped, or kept documents that lost lines or sentences by it. The rule
    ``kept`` leaves the dropped ones out. The documents are the first ones of evenly spaced shards, or random ones for a
    ``seed``, or the dropped ones that are ``extreme``.

    Raises:
        ConfigError: when the stage has no documents, dropped and removed nothing by ``rule``, ``number`` or ``seed`` is
            not a number, or an ``extreme`` is asked for that needs a threshold.
        ArtifactError: when the stage, or texts before it, is not finished.
    """
    wanted = _positive(number or str(NUMBER))
    artifact, texts = document_stage(stage, steps), None if stage == "texts" else need("texts", steps)
    rules = cleaning_of(steps)
    choose, choice = _way(artifact, rules, rule, seed, extreme)
    kinds = {"kept": KINDS[:1], "dropped": KINDS[1:]}.get(only or ("dropped" if extreme else ""), KINDS)
    kept, dropped = (
        pages(choose(artifact, kind, accept, wanted), texts, rules) if kind in kinds and accept else []
        for kind, accept in zip(KINDS, _choices(rule, artifact, stage), strict=True)
    )
    return Pages(kept, dropped, "" if rule == KEPT else rule, choice)


def _way(artifact: Artifact, rules: Cleaning, rule: str, seed: str, extreme: str | None) -> tuple[Choose, str]:
    """Returns how documents are chosen: as a function, and in words for the reader."""
    if extreme is None:
        return (
            (functools.partial(at_random, int(value_of(Seed, seed, "--seed"))), f"random, seed {seed}")
            if seed
            else (sample, "")
        )
    if not rule:
        raise ConfigError("--extreme", "needs the rule whose threshold is meant", "give --rule RULE")
    limits = limits_of(artifact, rules, rule)
    shown = ", ".join(f"{name}={limit:g}" for name, limit in limits.items())
    choose = functools.partial(at_distance, rule, list(limits.values()), extreme == "farthest")
    return choose, f"{extreme} {'to' if extreme == 'nearest' else 'from'} {shown}"


def _choices(rule: str, artifact: Artifact, stage: str) -> tuple[Accept, Accept | None]:
    """Returns the conditions for kept and for dropped documents that ``rule`` selects."""
    dropping, removing = dropping_rules(artifact), counted_rules(artifact, *REMOVED)
    if not rule or rule in dropping:
        return lambda document: True, lambda document: matches(rule, rule_of(document))
    if rule == KEPT:
        return lambda document: True, None
    if rule in removing:
        return lambda document: _lost_by(rule, document), lambda document: matches(_filter(rule), rule_of(document))
    known = {KEPT, *dropping, *removing}
    raise ConfigError("RULE", f"{stage} dropped and removed nothing by {rule!r}", suggestion(rule, known))


def sample(artifact: Artifact, kind: str, accept: Accept, number: int) -> list[Located]:
    """Returns up to ``number`` documents that ``accept`` takes, from evenly spaced shards, then from the others."""
    chosen = spread(names(artifact, kind), number)
    groups: list[list[Located]] = []
    for place, name in enumerate([*chosen, *(name for name in names(artifact, kind) if name not in chosen)]):
        if place >= len(chosen) and sum(map(len, groups)) >= number:
            break
        accepted = itertools.islice(filter(accept, read_documents(artifact.path(name))), number)
        groups.append([(shard_of(name), document) for document in accepted])
    return alternately(groups)[:number]


def at_random(seed: int, artifact: Artifact, kind: str, accept: Accept, number: int) -> list[Located]:
    """Returns ``number`` random documents that ``accept`` takes: those with the smallest hashes of seed and id."""
    found = (one for one in located(artifact, kind) if accept(one[1]))
    return heapq.nsmallest(number, found, key=lambda one: xxhash.xxh64_intdigest(one[1].id, seed))


def at_distance(
    rule: str, limits: Sequence[float], is_far: bool, artifact: Artifact, kind: str, accept: Accept, number: int
) -> list[Located]:
    """Returns the documents that ``rule`` dropped with numbers nearest to one of ``limits``, or farthest from all."""

    def distance(one: Located) -> float:
        measured = number_of(one[1], rule)
        assert measured is not None
        return min(abs(measured - limit) for limit in limits)

    measured = (one for one in located(artifact, kind) if accept(one[1]) and number_of(one[1], rule) is not None)
    return (heapq.nlargest if is_far else heapq.nsmallest)(number, measured, key=distance)


def show(found: Pages) -> None:
    """Prints ``found``: in two columns on a wide terminal, else one page after the other."""
    console = terminal()
    if console.is_terminal and console.width >= COLUMNS and (found.kept or found.dropped):
        table = _side_by_side if found.kept and found.dropped else _before_and_after
        console.print(table(found), soft_wrap=False)
        return
    kept, dropped = (
        [(f"{kind:<{NAME_WIDTH}}", _label(number, pages, found), page) for number, page in enumerate(pages, 1)]
        for kind, pages in ((KEPT, found.kept), ("dropped", found.dropped))
    )
    for place, (kind, label, page) in enumerate(alternately([kept, dropped])):
        if place:
            console.print()
        console.print(Text.assemble((kind, "bold"), label))
        for name, value in facts_of(page, found.rule):
            style = "red" if value.startswith(REMOVED_MARK) and name == LOST else ""
            console.print(Text.assemble((f"{name:<{NAME_WIDTH}}", "bold"), (one_line(value), style)))


def _label(number: int, pages: Sequence[Page], found: Pages) -> str:
    """Returns ``2 of 5 (random, seed 7)``."""
    return f"{number} of {len(pages)}" + (f" ({found.choice})" if found.choice else "")


def _before_and_after(found: Pages) -> Table:
    """Returns pages of one kind: each line as it was, and as cleaning left it or the rule that removed it."""
    kind, pages = (KEPT, found.kept) if found.kept else ("dropped", found.dropped)
    table = Table("before", "after", expand=True)
    for column in table.columns:
        column.ratio = 1
    for number, page in enumerate(pages, 1):
        facts = "\n".join(f"{name}  {one_line(value)}" for name, value in _heading(page))
        table.add_row(Text(facts, "bold"), Text(f"{kind} {_label(number, pages, found)}", "bold"))
        for line in excerpt(page.lines, LINES, found.rule):
            if isinstance(line, int):
                table.add_row(Text(f"… {line:,} more", "dim"), "")
            elif line.rule:
                table.add_row(Text(_cut(line), "red strike"), Text(line.rule, "dim red"))
            else:
                table.add_row(Text(_cut(line)), Text("" if page.drop else _cut(line)))
        table.add_section()
    return table


def _side_by_side(found: Pages) -> Table:
    choice = f" ({found.choice})" if found.choice else ""
    table = Table(f"{KEPT}{choice}", f"dropped{choice}", expand=True, show_lines=True)
    for column in table.columns:
        column.ratio = 1
    for row in itertools.zip_longest(found.kept, found.dropped):
        table.add_row(*(_column(page, found.rule) if page is not None else "" for page in row))
    return table


def _column(page: Page, rule: str) -> Text:
    """Returns a page for one column: its facts, then its lines, removed ones struck through with their rules."""
    text = Text()
    for name, value in _heading(page):
        text.append(f"{name}  ", "bold").append(f"{one_line(value)}\n")
    for line in excerpt(page.lines, LINES, rule):
        if isinstance(line, int):
            text.append(f"… {line:,} more\n", "dim")
        elif line.rule:
            text.append(_cut(line), "red strike").append(f"  {line.rule}\n", "dim red")
        else:
            text.append(f"{_cut(line)}\n")
    return text


def facts_of(page: Page, rule: str = "") -> Iterator[Fact]:
    """Yields a page as facts: its facts, then its lines, removed ones after a ``-`` and with their rules."""
    yield from _heading(page)
    for line in excerpt(page.lines, LINES, rule):
        if isinstance(line, int):
            yield "text", f"… {line:,} more"
        elif line.rule:
            yield LOST, f"{REMOVED_MARK}{_cut(line)}  ({line.rule})"
        else:
            yield "text", _cut(line)


def _heading(page: Page) -> Iterator[Fact]:
    document = page.document
    yield "id", document.id
    if url := document.metadata.get("url"):
        yield "url", str(url)
    if page.drop:
        yield from decision(document.metadata, page.filters)
    yield from cleaning(document)


def _cut(line: Line) -> str:
    return one_line(line.text, LINE_CHARACTERS)


def _filter(rule: str) -> str:
    return rule.partition(".")[0]


def _lost_by(rule: str, document: Document) -> bool:
    """Whether ``rule`` removed lines or sentences of the document."""
    return any(name == rule for _, name, _ in removed_parts(document))


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ConfigError("NUMBER", f"{text!r} is not a number of documents", "give 1 or more")
    return int(text)
