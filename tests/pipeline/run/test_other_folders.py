"""A run that was started with relative paths has one id, also in commands that are given from another folder."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.documents.audit_sheet import SHEET
from headrace.pipeline.run.saved_run import named_file
from tests.command_line import headrace_here
from tests.small_runs import page


@pytest.fixture
def run_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of relative paths; the current folder is another one afterwards."""
    (tmp_path / "home").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    rows = [{"text": page(seed), "url": f"https://a.example/{seed}"} for seed in range(6)]
    Path("raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = ("source=jsonl", "source.paths=raw.jsonl", "cleaning=none", "until=clean", "workers=1")
    succeeds("run", *settings)
    monkeypatch.chdir(tmp_path / "elsewhere")
    (folder,) = (tmp_path / "home/runs/runs").iterdir()
    return folder / "run.json"


def succeeds(*arguments: str) -> str:
    """Carries out a command; returns what it prints."""
    result = headrace_here(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_commands_name_the_run_by_its_id(run_json: Path, tmp_path: Path) -> None:
    run, id, root = str(run_json), run_json.parent.name, f"root={tmp_path}/home/runs"
    succeeds("export", "clean", "--format", "parquet", "--to", "exported", "--run", run)
    assert f"# {id}" in Path("exported/README.md").read_text().splitlines()
    succeeds("audit", run, "--number", "1", "--sheet", "sheet.jsonl")
    assert read_sealed(run_json.parent / SHEET)["run"] == id
    assert named_file(f"{tmp_path}/home/runs", id) == run_json
    succeeds("release", id, "--to", "released", root)
    assert Path("released/artifacts/runs", id, "run.json").read_bytes() == run_json.read_bytes()
    assert Path("released/README.md").read_text().startswith(f"# {id}\n")
    assert " 0 DIFFERS" in succeeds("release", "--check", "released", root)
