"""``headrace ladder``: it goes on after an interruption, trains nothing twice, and shows what follows.

The trainings of the quick tests only write the files that a real one leaves; the last test has real ones.
"""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.signals import Stop
from headrace.pipeline.experiments import arms
from headrace.pipeline.experiments.ladder_results import climb, flops_of
from headrace.pipeline.run.planner import Run, save
from tests.command_line import headrace_here
from tests.finished import finished
from tests.pipeline.run.fake_slurm import FakeSlurm, option
from tests.small_runs import TRAINING, Corpus, build

GRID = ("16,32", "4e-3,1.6e-2,6.4e-2", "")
OWN = [*(one for one in TRAINING if "decay_fraction" not in one), "schedule.decay_fraction=0.2"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("ladder"), "none")


def leave_weights(run: Run) -> None:
    """Leaves the files of a finished training whose loss falls with width, steps and rate."""
    (step,) = (step for step in run.stages if step.name == "weights")
    config = run.config
    loss = 2 + 10 / config.model.width + 4 / config.training.steps - config.optimizer.learning_rate
    step.folder.mkdir(parents=True)
    row = {"step": config.training.steps, "validation_loss": loss, "epoch": 5.5}
    (step.folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    finished(step.folder)
    save(config, run.values, run.stages, run.overrides)


@pytest.fixture
def started(monkeypatch) -> list[str]:
    """Names of the runs that a ladder carries out; the third is interrupted, the highest rate fails."""
    names: list[str] = []

    def carry_out(run):
        names.append(run.config.name)
        if len(names) == 3:
            raise Stop(signal.SIGINT)
        if run.config.optimizer.learning_rate == 0.064:
            raise TaskError("weights", "the gradient's norm is nan", "lower the learning rate")
        leave_weights(run)

    monkeypatch.setattr(arms, "carry_out", carry_out)
    return names


def climbed(corpus: Corpus, grid: tuple[str, str, str], *more: str, starts: bool = True, **files: Path) -> None:
    settings = [*corpus.overrides, *OWN, "training.save_every=100", "training.steps=8", "name=t", *more]
    climb(settings, grid, ("", "", ""), files.get("page"), files.get("json_file"), starts)


def test_a_ladder_goes_on_where_it_was_interrupted(corpus, started, tmp_path, capsys):
    climbed(corpus, GRID, starts=False)
    assert started == []
    assert capsys.readouterr().out.endswith(" FLOP in all; no training is finished\n")
    with pytest.raises(Stop):
        climbed(corpus, GRID)
    assert started == ["t-16-0.004-8", "t-16-0.016-8", "t-16-0.064-8"]
    page, file = tmp_path / "page.html", tmp_path / "ladder.json"
    with pytest.raises(TaskError, match=r"weights: the gradient's norm is nan; lower the learning rate"):
        climbed(corpus, GRID, page=page, json_file=file)
    assert started[3:] == ["t-16-0.064-8", "t-32-0.004-8", "t-32-0.016-8", "t-32-0.064-8"]
    printed = capsys.readouterr().out.splitlines()
    rows = [line.strip("| ").split(" | ") for line in printed if re.match(r"\| (16|32) \|", line)]
    assert [row[0] + " " + row[3] for row in rows] == [f"{n} {r}" for n in (16, 32) for r in (0.004, 0.016, 0.064)]
    failed = "failed: weights: the gradient's norm is nan; lower the learning rate"
    assert [row[-1] for row in rows] == ["done", "done", failed] * 2
    assert "2 of 6 trainings have no result yet; the same command goes on." in printed
    assert any(line.startswith("A training read its rows 5.5 times. Beyond about 4 times, ") for line in printed)
    values = json.loads(file.read_text())
    assert len(values["arms"]) == 4
    assert values["arms"][0]["loss"] == 2 + 10 / 16 + 4 / 8 - 0.004
    text = page.read_text()
    assert re.findall(r'id="figure-([\w-]+)"', text) == ["rates", "by-flops"]
    assert "No law of the loss: it needs 3 sizes and 3 token counts with losses, and there are 2 and 1." in text


@pytest.mark.slow
def test_on_slurm_each_training_is_submitted_once(corpus, tmp_path, monkeypatch, capsys):
    """The queue is full after the first training; the same command goes on with the second."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    slurm, first = FakeSlurm(tmp_path / "bin"), ["s-0.002-24:weights", "s-0.002-24:report"]

    def submitted() -> list[str | None]:
        climbed(corpus, ("", "2e-3,4e-3", "12288"), "cluster=slurm", "name=s")
        return [option(argv, "job-name") for argv in slurm.argv]

    def states() -> list[str]:
        lines = capsys.readouterr().out.splitlines()
        return [line.strip("| ").rpartition(" | ")[2] for line in lines if line.startswith("| – |")]

    slurm.refuse(103, "sbatch: error: QOSMaxSubmitJobPerUserLimit")
    with pytest.raises(TaskError, match=r"sbatch refused the job of stage 'weights': .*QOSMaxSubmitJob"):
        submitted()
    started, failed = states()
    assert (started, failed.partition(":")[0]) == ("started", "failed")
    (slurm.folder / "refuse-103").unlink()
    waiting = [f"{job}|N/A|PENDING|Priority|{name}\n" for job, name in zip((101, 102), first, strict=True)]
    (slurm.folder / "queue").write_text("".join(waiting))
    assert submitted() == [*first, "s-0.004-24:weights", "s-0.004-24:report"]
    assert states() == ["started", "started"]


def test_a_budget_is_flop_or_hours_of_a_gpu():
    assert flops_of("1e21", "", "") == 1e21
    assert flops_of("10h", "A100", "0.5") == 10 * 3600 * 312e12 * 0.5
    assert flops_of("", "", "") is None
    for budget, gpu, wrong in (
        ("0", "", "--budget: must be above 0 (got '0'); correct the value"),
        ("1e21", "A100", "--gpu: is for a budget in hours; give --budget HOURSh"),
    ):
        with pytest.raises(ConfigError) as error:
            flops_of(budget, gpu, "")
        assert str(error.value) == wrong


@pytest.mark.slow
def test_real_trainings_go_on_after_a_kill(tmp_path):
    corpus = build(tmp_path, "none")
    line = [*corpus.overrides, *OWN, "training.steps=20", "schedule.decay_fraction=0.5"]
    command = ["ladder", "--rates=4e-3,1.6e-2", *line]
    started = [sys.executable, "-m", "headrace", *command]
    with subprocess.Popen(started, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        while not list(tmp_path.glob("runs/weights/*/checkpoints/step_*/manifest.json")):
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/weights/*/manifest.json")}
    done = headrace_here(*command)
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if "| done |" in line]
    assert [row[3] for row in rows] == ["0.004", "0.016"]
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
