"""The set-up of Headrace's tests, with this package among the installed ones, as this checkout declares it."""

import os
import sys
import tempfile
from pathlib import Path

import tomllib

from headrace.pipeline.core.environment import EXTENSIONS
from tests.conftest import data_folder, pytest_collection_finish, pytest_make_parametrize_id
from tests.stage_run import run_clean, run_stage
from tests.train.small_models import encoder, gpt2, line, one_thread, write_lines

FIXTURES = (data_folder, encoder, gpt2, line, one_thread, run_clean, run_stage, write_lines)
HOOKS = (pytest_collection_finish, pytest_make_parametrize_id)

os.environ.pop(EXTENSIONS, None)


def declare(folder: Path) -> None:
    """Writes the entry points of pyproject.toml as an installed package has them: an installation may be older."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    facts = folder / f"headrace_courses-{project['version']}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    text = ""
    for group, points in project["entry-points"].items():
        text += f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
    (facts / "entry_points.txt").write_text(text)


DECLARED = tempfile.TemporaryDirectory(prefix="headrace-courses-")
declare(Path(DECLARED.name))
sys.path.insert(0, DECLARED.name)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (DECLARED.name, os.environ.get("PYTHONPATH"))))
