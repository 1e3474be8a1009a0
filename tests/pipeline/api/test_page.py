"""Every block of docs/python.md runs, in one script without a main guard, and names nothing that does not exist."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from tests.pipeline.api.conftest import Root
from tests.small_runs import c4_corpus

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/python.md").read_text()
PIECES = (ROOT / "docs/pieces.md").read_text()
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [block for _, block in BLOCK.findall(PAGE)]


@pytest.mark.slow
def test_every_block_runs(root: Root, tmp_path: Path) -> None:
    shutil.copytree(root.path, tmp_path / "runs")
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in c4_corpus()[1]))
    has_pandas = importlib.util.find_spec("pandas") is not None
    blocks = [block for block in BLOCKS if has_pandas or "needs pandas" not in block]
    assert len(blocks) > 7
    (tmp_path / "page.py").write_text("\n".join(blocks))
    variables = os.environ | {"PYTHONPATH": str(ROOT / "src"), "HEADRACE_CORES": "1"}
    command = [sys.executable, "page.py"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "unknown key 'modle.layers'; did you mean 'model.layers'?" in done.stdout


@pytest.mark.slow
def test_every_block_of_the_engines_runs(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<h1>Mill</h1>" + "<p>The mill turns in the river by day and by night." * 9)
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in c4_corpus()[1]))
    variables = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    blocks = BLOCK.findall(PIECES)
    scripts = {kind: "\n".join(block for of_kind, block in blocks if of_kind == kind) for kind in ("python", "bash")}
    for command in ([sys.executable, "-c", scripts["python"]], ["bash", "-ec", scripts["bash"]]):
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Mill\n\nThe mill turns")
    assert "headrace clean: " in done.stderr
    assert (tmp_path / "blocks/00000.jsonl").read_text().count("\n") == 1


def test_every_public_name_is_on_the_page() -> None:
    functions = {name for name in headrace.__all__ if name.islower()}
    assert all(f"headrace.{name}(" in PAGE + PIECES for name in functions)
    public = {name for name in vars(headrace.Run) if not name.startswith("_")}
    assert [name for name in public if f"run.{name}" not in PAGE] == []
    errors = {name for name in headrace.__all__ if name.endswith("Error")}
    assert all(f"`{name}`" in PAGE or f"headrace.{name}" in PAGE for name in errors)
