"""The whole line through the command a person types: once, again, with other workers, and killed in every stage."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import documentation
from headrace.pipeline.core.metrics_file import read_metrics
from tests.command_line import headrace_here

DATA_STAGES = ("texts", "clean", "signatures", "duplicates", "unique", "overlaps", "tokenizer", "tokens", "packed")
STAGES = (*DATA_STAGES, "weights", "scores", "report")
FEW_DOCUMENTS = "source.paths=[documentation/fsspec.jsonl,documentation/rich.jsonl]"
"""A sixth of the documents of experiment=smoke."""


def command(root: Path, *overrides: str) -> list[str]:
    return [sys.executable, "-m", "headrace", "experiment=smoke", f"root={root}", "tracking=file", *overrides]


def headrace(root: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    return whole_run(subprocess.run(command(root, *overrides), capture_output=True, text=True, timeout=600))


def finish_here(root: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    """The same command in this process, without the seconds that a new one imports for."""
    return whole_run(headrace_here(*command(root, *overrides)[3:]))


def whole_run(result: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert result.returncode == 0, result.stderr
    return result


def written(root: Path, stages: tuple[str, ...] = DATA_STAGES) -> dict[str, bytes]:
    """The bytes of every file of the artifacts below ``root``; logs are not part of them."""
    files = (path.relative_to(root) for stage in stages for path in (root / stage).rglob("*") if path.is_file())
    return {path.as_posix(): (root / path).read_bytes() for path in files if path.parts[2] != "logs"}


def final_loss(root: Path) -> float:
    (metrics,) = (root / "weights").glob("*/metrics.jsonl")
    return float(read_metrics(metrics)[-1]["loss"])


def exported(root: Path) -> bytes:
    (weights,) = (root / "weights").glob("*/hf/model.safetensors")
    return weights.read_bytes()


@pytest.fixture(scope="module", autouse=True)
def _documentation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The current folder has what ``python -m headrace.documentation`` writes."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("current"))
    documentation.main(())
    yield
    os.chdir(before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of an undisturbed run."""
    root = tmp_path_factory.mktemp("whole")
    finish_here(root, FEW_DOCUMENTS, "workers=1")
    return root


@pytest.mark.slow
def test_the_line_ends_in_a_report_and_a_second_run_does_nothing(whole: Path) -> None:
    assert {path.name for path in whole.iterdir()} == {*STAGES, "runs"}
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()}
    again = finish_here(whole, FEW_DOCUMENTS)
    assert again.stderr.count("done before") == len(STAGES)
    for word in ("records in", "bits per byte", "- A model of ", "- Held-out text takes ", '- After "', "report:"):
        assert word in again.stdout
    after = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()}
    changed = {path.name for path in after if before.get(path) != after[path]}
    assert changed <= {"run.json"}


@pytest.mark.slow
def test_the_card_of_an_exported_model_names_the_rules_of_cleaning(whole: Path, tmp_path: Path) -> None:
    (run,) = (whole / "runs").iterdir()
    whole_run(headrace_here("export", str(run), "--to", str(tmp_path / "model")))
    assert "## Rules of cleaning" in (tmp_path / "model/README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_three_workers_write_the_same_bytes_as_one(whole: Path, tmp_path: Path) -> None:
    finish_here(tmp_path, FEW_DOCUMENTS, "workers=3", "until=packed")
    assert written(tmp_path) == written(whole)


@pytest.mark.slow
@pytest.mark.timeout(1_800)  # thirteen commands, one after the other
def test_a_kill_in_every_stage_changes_nothing(whole: Path, tmp_path: Path) -> None:
    """SIGKILL of the main process in each stage; the next command resumes it, and is killed in the stage after it."""
    for stage in STAGES:
        process = subprocess.Popen(
            command(tmp_path, FEW_DOCUMENTS), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until_at_work(tmp_path / stage, process, checkpoint=stage == "weights")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not list((tmp_path / stage).glob("*/manifest.json")), f"{stage} was over before it could be killed"
    finish_here(tmp_path, FEW_DOCUMENTS)
    for stage in (*DATA_STAGES, "scores"):
        assert written(tmp_path, (stage,)) == written(whole, (stage,)), stage
    assert (exported(tmp_path), final_loss(tmp_path)) == (exported(whole), final_loss(whole))
    assert written(tmp_path, ("report",)).keys() == written(whole, ("report",)).keys()  # the page shows times


def wait_until_at_work(folder: Path, process: "subprocess.Popen[bytes]", checkpoint: bool) -> None:
    """Waits until the stage has left a file in ``folder``: a log, or for training its first checkpoint."""
    deadline = time.monotonic() + 300
    pattern = "*/checkpoints/step_*/manifest.json" if checkpoint else "*/logs"
    while not list(folder.glob(pattern)):
        assert process.poll() is None, "ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
