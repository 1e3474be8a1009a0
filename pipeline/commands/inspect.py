"""``headrace inspect``: kept and dropped documents of a stage, with the lines that they lost.

headrace inspect clean                                        5 kept and 5 dropped documents
headrace inspect clean --rule c4_lines.sentences --sample 3   3 documents that this rule dropped
headrace inspect clean --rule c4_lines.end_mark               documents that lost lines by it, or were dropped after it
headrace inspect texts --rule no_text                         records without a readable text
headrace inspect clean --rule language --seed 7               random ones; without a seed the first ones
headrace inspect clean --rule language --extreme nearest      dropped ones whose number is nearest to the threshold
headrace inspect clean --only kept --sample 20                20 kept documents, with the lines that they lost
headrace inspect unique --score quality --around 0.8          those whose values in a column are nearest to a number
headrace inspect clean --score language_score --around 0.99   those whose numbers that a filter stored are nearest

    sample            1 of 5, kept
    id                pages.jsonl:2
    lost              - menu  (c4_lines.end_mark)
    text              A sentence.
"""

from collections.abc import Iterator, Sequence

import click
from rich.text import Text

from headrace.data_prep.selection_rules.rules import Limit
from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import value_of
from headrace.pipeline.documents.document_choice import KEPT, Pages, alternately, chosen_documents, near_value
from headrace.pipeline.documents.document_path import cleaning, decision
from headrace.pipeline.documents.lookup import cleaning_of, column_named, document_stage, need
from headrace.pipeline.documents.marking import MarkedLine, Page, excerpt
from headrace.pipeline.output.terminal import NAME_WIDTH, Fact, one_line, terminal
from headrace.pipeline.run.planned_stage import PlannedStage

LINES = 12
LINE_CHARACTERS = 160
LOST = "lost"
REMOVED_MARK = "- "


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
@click.option(
    "--score", metavar="SCORE", default="", help="A column of unique, or a number that a filter of STAGE stored."
)
@click.option("--around", metavar="NUMBER", default="", help="Documents whose values are nearest to this one.")
@click.option("--only", type=click.Choice(["kept", "dropped"]), help="Documents of one kind alone.")
@run_option
def inspect(
    overrides: Sequence[str],
    stage: str,
    rule: str,
    sample: str,
    seed: str,
    extreme: str | None,
    score: str,
    around: str,
    only: str | None,
    run: str,
) -> None:
    """Prints kept and dropped documents of texts, clean or unique, or those of a rule, and the lines they lost."""
    show(chosen(run_of(overrides, run).stages, stage, rule, sample, seed, extreme, only, score, around))


def chosen(
    stages: Sequence[PlannedStage],
    stage: str,
    rule: str = "",
    sample: str = "",
    seed: str = "",
    extreme: str | None = None,
    only: str | None = None,
    score: str = "",
    around: str = "",
) -> Pages:
    """Returns the documents of ``stage`` that the options of this command choose.

    Raises:
        ConfigError: when the stage has no documents, or the options do not fit each other or the stage.
        ArtifactError: when the stage, texts before it, or the column ``score``, is not finished.
    """
    artifact, texts = document_stage(stage, stages), None if stage == "texts" else need("texts", stages)
    cleaning = cleaning_of(stages)
    if not score and not around:
        return chosen_documents(artifact, texts, cleaning, rule, sample, seed, extreme, only)
    if rule or seed or extreme or only or not (score and around):
        problem = "and --around belong together, and with --sample alone"
        raise ConfigError("--score", problem, "give --score COLUMN --around NUMBER")
    value = float(value_of(Limit, around, "--around"))
    column = column_named(score, stages) if stage == "unique" else None
    return near_value(score, value, artifact, column, texts, cleaning, sample)


def show(choice: Pages) -> None:
    """Prints ``choice``, one page after the other."""
    console = terminal()
    kept, dropped = (
        [(_label(number, pages, kind, choice), page) for number, page in enumerate(pages, 1)]
        for kind, pages in ((KEPT, choice.kept), ("dropped", choice.dropped))
    )
    for index, (label, page) in enumerate(alternately([kept, dropped])):
        if index:
            console.print()
        console.print(Text.assemble((f"{'sample':<{NAME_WIDTH}}", "bold"), label))
        for name, value in facts_of(page, choice.rule):
            style = "red" if value.startswith(REMOVED_MARK) and name == LOST else ""
            console.print(Text.assemble((f"{name:<{NAME_WIDTH}}", "bold"), (one_line(value), style)))


def _label(number: int, pages: Sequence[Page], kind: str, chosen: Pages) -> str:
    """Returns ``2 of 5, kept (random, seed 7)``."""
    return f"{number} of {len(pages)}, {kind}" + (f" ({chosen.choice})" if chosen.choice else "")


def facts_of(page: Page, rule: str = "") -> Iterator[Fact]:
    """Yields a page as facts: its facts, then its lines, removed ones after a ``-`` and with their rules."""
    document = page.document
    yield "id", document.id
    if url := document.metadata.get("url"):
        yield "url", str(url)
    if page.drop:
        yield from decision(document.metadata, page.filters)
    yield from cleaning(document)
    for line in excerpt(page.lines, LINES, rule):
        if isinstance(line, int):
            yield "text", f"… {line:,} more"
        elif line.rule:
            yield LOST, f"{REMOVED_MARK}{_cut(line)}  ({line.rule})"
        else:
            yield "text", _cut(line)


def _cut(line: MarkedLine) -> str:
    return one_line(line.text, LINE_CHARACTERS)
