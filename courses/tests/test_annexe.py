"""Headrace finds this package by its entry points alone; its options and pages are those of Headrace's house."""

import re
import shlex
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import tomllib
import yaml

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.options import groups, installed_folders
from headrace.pipeline.stages import stages
from tests.test_docs import LINK, anchors

ANNEXE = Path(__file__).parents[1]
ROOT = ANNEXE.parent
CONF = ANNEXE / "src/headrace_courses/conf"
PAGES = [ANNEXE / "README.md", *sorted(ANNEXE.glob("docs/*.md"))]
NEEDED = {"wikitext103": ["source.paths=[articles.jsonl]"]}
EXPERIMENTS = sorted(path.stem for path in CONF.glob("experiment/*.yaml"))


def test_the_entry_points_are_those_of_the_project_file() -> None:
    declared = tomllib.loads((ANNEXE / "pyproject.toml").read_text())["project"]["entry-points"]
    for group, points in declared.items():
        installed = {point.name: point.value for point in entry_points(group=group)}
        assert points.items() <= installed.items(), group
    assert CONF in installed_folders()


def test_every_option_has_its_name() -> None:
    for file in CONF.glob("*/*.yaml"):
        names = yaml.safe_load(file.read_text()).get("options", [file.stem])
        assert file.parent.name == "study" or {*names} <= {*groups()[file.parent.name]}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_a_whole_run(name: str) -> None:
    line = stages(decoded(compose([f"experiment={name}", *NEEDED.get(name, [])])))
    assert line[-1].name == "scores"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_commands_of_a_page(page: Path) -> None:
    text = page.read_text()
    for path, anchor in LINK.findall(text):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target.read_text()), anchor
    for name in re.findall(r"python -m headrace_courses\.(\w+)", text):
        assert (ANNEXE / f"src/headrace_courses/{name}.py").is_file()
    for line in re.findall(r"^    headrace experiment=.*", text, re.MULTILINE):
        decoded(compose(shlex.split(re.split(r"  +#", line.strip())[0])[1:]))
