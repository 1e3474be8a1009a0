"""The commands in the documents work, and their links exist."""

import ast
import functools
import itertools
import re
import shlex
from pathlib import Path

import pytest

from docs.conf import menu
from headrace.pipeline.command_line.declaration import module_of
from headrace.pipeline.command_line.group import COMMANDS
from headrace.pipeline.command_line.help_text import EXAMPLES
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.options import studies
from headrace.pipeline.experiments.study_file import arm_plan, read_study
from tests.command_line import understood

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("slurm/*.md")])
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in DOCUMENTS}
HELP = {
    f"{name} --help": ast.get_docstring(ast.parse((ROOT / f"pipeline/commands/{module_of(name)}.py").read_text())) or ""
    for name in COMMANDS
}
TEXTS |= {"--help": EXAMPLES, **HELP}

HEADRACE = [
    pytest.param(line.strip(), id=f"{name}: {line.strip()[:60]}")
    for name, text in TEXTS.items()
    for line in text.splitlines()
    if re.match(r"\s+headrace\b(?!\.)", line) or (name.endswith("--help") and line.startswith("headrace"))
]
LINK = re.compile(r"\]\(([^)#:]*)#?([^):]*)\)")
LINKS = [(name, path, anchor) for name, text in TEXTS.items() for path, anchor in LINK.findall(text)]
MAKE = re.compile(r"(?:`|^ +)make ([a-z][\w-]+)", re.MULTILINE)
TARGETS = sorted({(name, target) for name, text in TEXTS.items() for target in MAKE.findall(text)})


TUTORIALS = sorted(ROOT.glob("docs/tutorial_*.md"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_names_the_sections_whose_commands_no_test_runs(path: Path) -> None:
    """Tests run the blocks marked as ``console`` (tests/end_to_end/tutorial.py), not those marked as ``sh``."""
    begins, *sections = re.split(r"^## (?=\d)", path.read_text(), flags=re.MULTILINE)
    begins = " ".join(begins.split())
    (exceptions,) = re.findall(r"A test runs every command below, .*? except (.*?)\. In outputs", begins)
    skipped = [section.partition(".")[0] for section in sections if "\n```sh\n" in section]
    assert re.findall(r"in section (\d+)", exceptions) == skipped


def test_there_is_something_to_test() -> None:
    assert len(HEADRACE) > 10
    assert len(LINKS) > 3


@pytest.mark.parametrize("line", HEADRACE)
def test_a_command_is_understood(line: str) -> None:
    command, *_ = re.split(r"  | #| [<>] ", line)
    _, *arguments = shlex.split(command)
    if not arguments or arguments[0].startswith("--"):
        return
    if arguments[0] == "-m":
        choices = [
            [f"{key}={value}" for value in values.split(",")] for key, values in (a.split("=") for a in arguments[1:])
        ]
        for combination in itertools.product(*choices):
            check_settings(combination)
        return
    if arguments[0] in COMMANDS:
        words, arguments = arguments, understood(*arguments)[1]
        name = words[0]
        if name == "study" and words[1:2] and words[1] in studies():  # whose first arm is composed with them
            size = words[words.index("--size") + 1] if "--size" in words else "tiny"
            study = read_study(words[1]).at(size)
            arm_plan(words[1], study, size, next(iter(study.arms)), arguments)
            return
    check_settings(tuple(arguments))


@functools.cache
def check_settings(overrides: tuple[str, ...]) -> None:
    """Composes and checks ``overrides``, which many commands share."""
    decoded(compose(overrides))


def test_the_runs_of_the_set_up_are_understood() -> None:
    """They make numba compile functions, so that the first runs of a user do not."""
    found = re.findall(r"\$\(abspath \$\(HEADRACE\)\) (.*?) >", (ROOT / "Makefile").read_text())
    assert len(found) == 2
    for settings in found:
        check_settings(tuple(settings.split()))


def test_every_link_leads_somewhere() -> None:
    broken = []
    for name, path, anchor in LINKS:
        target = (ROOT / name).parent / path if path else ROOT / name
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            broken.append(f"{name}: {path}#{anchor}")
    assert broken == []


@functools.cache
def anchors(markdown: str) -> set[str]:
    """The anchors that GitHub makes from the headings: lower case, without punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_linked() -> None:
    """A newcomer reaches each page of docs/ from the index, and the index from the README."""
    linked = {(ROOT / name).parent / path for name, path, _ in LINKS if name in ("README.md", "docs/README.md")}
    assert {path.name for path in ROOT.glob("docs/*.md")} <= {path.name for path in linked}
    assert ("README.md", "docs/README.md", "") in LINKS


def test_the_menu_of_the_site_has_every_page() -> None:
    pages = {f"{path.stem}.md" for path in ROOT.glob("docs/*.md")} - {"README.md"}
    entries = {f"{line}.md" for line in menu(TEXTS["docs/README.md"]).splitlines()}
    assert pages <= entries


def test_make_knows_every_target() -> None:
    known = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [(name, target) for name, target in TARGETS if target not in known] == []


@pytest.mark.parametrize("picture", sorted(ROOT.glob("docs/images/*.svg")), ids=lambda path: path.name)
def test_a_picture_shows_no_machine_and_loads_nothing(picture: Path) -> None:
    text = picture.read_text()
    assert not re.search(r"/(?:work|tmp|root|home)/|\broot@", text)
    hosts = set(re.findall(r"https?://([\w.-]+)", text))
    assert {host for host in hosts if not host.endswith(".example")} <= {"www.w3.org", "www.textualize.io"}
