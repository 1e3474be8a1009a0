"""Statements of the pages that the code can decide: families and benchmarks, options of groups, names of settings."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.images import cleaning
from headrace.pipeline.configuration.options import STUDY, groups, studies
from headrace.pipeline.core.gone import GONE
from headrace.train.evaluation.benchmarks import BENCHMARKS
from headrace.train.families.registry import families
from tests.command_line import headrace_here

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("slurm/*.md")])
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
EVALUATION = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8")
GROUPS = groups() | {STUDY: studies()}
STACKS = ("decoder", "encoder_decoder", "encoder", "discriminator")
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
OF_THE_READER = {"mine", "quiz"}
"""Options that a page tells its reader to write."""
NO_SETTING = re.compile(r"[A-Z]|\.\d|\.type$|\.(json|safetensors|model|py|yaml|md)\b|\.benchmarks\.ptb\.")
"""Placeholders, entries of lists, tags of types, names of files, and a benchmark that is not in the usual option."""


def rows(header: str, page: str) -> Iterator[list[str]]:
    """Yields the cells of each row of the table of ``page`` that begins with ``header``."""
    table = page[page.index(header) :].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def options() -> set[tuple[str, str]]:
    """Returns each group and its option that a page names in code: ``model=gpt2_small``."""
    found = {
        (group, option)
        for span in SPAN.findall(TEXT)
        for group, option in re.findall(r"(?:^|\s)(\w+)=([a-z]\w*)(?=$|\s)", span)
    }
    found = {(group, option) for group, option in found if f"{group}={option}" not in GONE}
    return {(group, option) for group, option in found if group in GROUPS and option not in OF_THE_READER}


def settings() -> set[str]:
    """Returns the settings that a page names in code with their group: ``training.steps``, ``training.steps=20``."""
    found = {match[1] for span in SPAN.findall(TEXT) if (match := re.fullmatch(r"(\w+(?:\.\w+)+)(?:=.*)?", span))}
    return {name for name in found if name.partition(".")[0] in GROUPS and not NO_SETTING.search(name)}


@pytest.mark.parametrize("stack", STACKS)
def test_a_model_answers_the_benchmarks_that_the_page_names(stack: str) -> None:
    cells = {kind: benchmarks for kind, _, benchmarks in rows("| kind | `model_type`", EVALUATION)}
    assert set(cells) == set(STACKS)
    names = set(SPAN.findall(cells[stack]))
    refused = {benchmark.type for benchmark in BENCHMARKS.classes if stack not in benchmark.stacks}
    answered = {benchmark.type for benchmark in BENCHMARKS.classes} - refused
    assert names == (refused if cells[stack].startswith("all") else answered)


def test_each_family_has_its_kind() -> None:
    named = {kind: set(SPAN.findall(types)) for kind, types, _ in rows("| kind | `model_type`", EVALUATION)}
    for stack in STACKS:
        assert named[stack] == {family.model_type for family in families() if stack in family.stacks}, stack


def test_each_type_of_benchmark_is_in_the_table() -> None:
    named = {name for kind, *_ in rows("| `type` | a question", EVALUATION) for name in SPAN.findall(kind)}
    assert named == {benchmark.type for benchmark in BENCHMARKS.classes}


def test_statements_are_found() -> None:
    assert {("model", "t5_base"), ("experiment", "t5_demo")} <= options()
    assert {"training.branch_from", "zero.offload"} <= settings()


@pytest.mark.parametrize(("group", "option"), sorted(options()))
def test_an_option_of_a_group_exists(group: str, option: str) -> None:
    assert option in GROUPS[group] or (ROOT / "conf" / group / f"{option}.yaml").is_file()  # a table: model=gpt3


@pytest.mark.parametrize("name", sorted(settings()))
def test_a_setting_exists(name: str) -> None:
    done = headrace_here("help", name)
    assert done.returncode == 0, done.stderr


def test_presets_keep_what_their_record_says() -> None:
    """Of articles, products and the French manual."""
    (record,) = ROOT.glob("benchmarks/records/preset_yield_*.md")
    kept: dict[str, list[str]] = {}
    for header, kinds in (("| % of page_type", ("article", "product")), ("| % of lang", ("fr",))):
        text = record.read_text(encoding="utf-8")
        head = [cell.split()[0] for cell in text[text.index(header) + 2 :].partition("\n")[0].split(" | ")[1:]]
        for preset, *shares in rows(header, text):
            kept.setdefault(preset, []).extend(shares[head.index(kind)] for kind in kinds)
    page = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    assert {preset: shown.split("/") for preset, _, shown, _ in rows("| preset | what", page) if shown} == {
        preset: shares
        for preset, shares in kept.items()
        if (ROOT / f"conf/cleaning/{preset.strip(chr(96))}.yaml").exists()
    }


def test_what_cleaning_does_follows_from_its_record() -> None:
    record, page = cleaning.RECORD.read_text(encoding="utf-8"), (ROOT / "docs/data.md").read_text(encoding="utf-8")
    assert Path(cleaning.__file__).with_suffix(".svg").read_text(encoding="utf-8") == cleaning.drawn()
    numbers = re.findall(r"[−+]?\d\.\d{2,}", page.partition("### Which preset")[2].partition("\n### ")[0])
    assert numbers
    assert not [number for number in numbers if number not in record]
