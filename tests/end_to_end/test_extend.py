"""The package of docs/extend.md is built, installed with Headrace and used by its names alone."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.installed_wheel import REPOSITORY, build_wheel, install

EXAMPLE = REPOSITORY / "examples" / "headrace_example"
NOTES = "The mill stands.\n\n12345 67890 12\n\nThe wheel turns.\n"
FAMILY = """
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.train.families.registry import family_of
config = decoded(compose(["experiment=spelling", "source.paths=notes.txt"]))
print(family_of(config.model).model_type, config.evaluation.benchmarks["spelling"].type)
"""


def test_the_page_shows_the_entry_points_of_the_package() -> None:
    page, project = (REPOSITORY / "docs" / "extend.md").read_text(), (EXAMPLE / "pyproject.toml").read_text()
    points = re.compile(r'^"?([\w.-]+)"? = "(headrace_example[\w.]*:\w+)"$', re.MULTILINE)
    assert points.findall(page) == points.findall(project) != []


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment with Headrace and the package."""
    folder = tmp_path_factory.mktemp("extended")
    (folder / "ours").mkdir()
    programs = install(build_wheel(folder / "ours"), folder / "environment", has_kernels=True)
    sources = shutil.copytree(EXAMPLE, folder / "sources", ignore=shutil.ignore_patterns("__pycache__"))
    wheel = build_wheel(folder / "theirs", sources)
    command = [sys.executable, "-m", "pip", f"--python={folder / 'environment'}", "install", "--no-deps", "--no-index"]
    subprocess.run([*command, wheel], check=True, capture_output=True)
    return programs


@pytest.mark.slow
def test_its_names_are_those_of_headrace(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(NOTES)
    environment = {
        name: value for name, value in os.environ.items() if name not in ("HEADRACE_EXTENSIONS", "PYTHONPATH")
    }

    others = [importlib.util.find_spec(point.module) for point in entry_points(group="headrace.options")]
    folders = {str(Path(spec.origin).parents[1]) for spec in others if spec and spec.origin}
    environment["PYTHONPATH"] = os.pathsep.join(sorted(folders))  # installed here, and found in that environment, too

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        return done.stdout

    headrace = str(programs / "headrace")
    shown = run(headrace, "experiment=spelling", "source.paths=notes.txt", "until=clean", "workers=1")
    assert "by many_digits 1" in shown
    (page,) = tmp_path.glob("runs/report/*/report.html")
    assert "Drops pages of which too large a share of the characters are digits." in page.read_text()
    assert "The largest share of a page that is kept." in run(headrace, "help", "many_digits")
    assert run(str(programs / "python"), "-c", FAMILY) == "post_norm_llama spelling\n"
