"""Many runs for one question: all are checked before the first is started."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import TaskError
from headrace.pipeline.experiments import arms
from headrace.pipeline.experiments.arms import SweptRun
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.saved_run import SavedRun, named_file
from tests.command_line import headrace_here

RUNS = "runs"
SWEEP = ("source=jsonl", "source.paths=[raw/a.jsonl]", "cleaning=none", "until=clean", "workers=1", "name=sw")


def test_a_sweep_ends_with_a_table_of_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings that differ, the states, and a name for each run; a run that fails does not hide the others."""
    monkeypatch.chdir(tmp_path)
    Path("raw").mkdir()
    Path("raw/a.jsonl").write_text('{"text": "One page."}\n')
    carry_out = arms.carry_out

    def failing(run: Run) -> None:
        if run.config.source.task_bytes == 1_000:
            raise TaskError("clean", "failed", "look")
        carry_out(run)

    monkeypatch.setattr(arms, "carry_out", failing)
    done = headrace_here("-m", "source.task_bytes=1_000,2_000", *SWEEP)
    assert done.returncode == 1
    head, first, second = done.stdout.rstrip().splitlines()[-3:]
    assert head.split() == ["run", "source.task_bytes", "validation", "loss", "state"]
    assert "failed: clean: failed; look" in first
    assert second.split() == ["sw-2", "2000", "–", "done"]
    assert SavedRun.read(named_file(RUNS, "sw-2")).name == "sw-2"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("packing.row_tokens=64,100000", "packing.row_tokens=100000: packing.row_tokens: 100000 is longer than model."),
        (
            "source.paths=raw/a.jsonl,raw/none.jsonl",
            "source.paths=raw/none.jsonl: source.paths: 'raw/none",
        ),
        ("until=clean,clea", "until=clea: until: no stage is named 'clea'"),
        ("cleaning=none,none", "cleaning=none: has the results of combination 1: cleaning=none: other settings"),
        ("source.paths=raw/a.jsonl,raw/broken.jsonl", "source.paths=raw/broken.jsonl: "),
    ],
)
def test_all_runs_of_a_sweep_are_checked_before_the_first_is_started(
    values: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("raw").mkdir()
    Path("raw/a.jsonl").write_text('{"text": "One page."}\n')
    Path("raw/broken.jsonl").write_text("no JSON\n" * 50)
    done = headrace_here("-m", *[one for one in SWEEP if one.partition("=")[0] != values.partition("=")[0]], values)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"headrace: combination 2: {message}")
    assert done.stderr.endswith("(nothing was started)\n")
    assert not Path(RUNS).exists()


STUDY = """title: Two rates
question: Which one?
expectation: The higher one.
overrides: [experiment=demo]
arms: {slow: [optimizer.learning_rate=1e-4], fast: [optimizer.learning_rate=1e-3]}
sizes: {tiny: [], small: [], paper: []}
held_equal: []
measures: {loss: validation_loss}
claims: [{claim: The higher rate is better., rising: [fast, slow]}]
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["study", "rates", "--arm", "fast:source.paths=[raw/none.jsonl]"],
            "fast, seed 0: source.paths: 'raw/none.jso",
        ),
        (
            ["ladder", "--rates", "1e-3,2e-3", "training.branch_from=null", "dedup.against=[raw]"],
            "learning rate 0.001: ",
        ),
    ],
)
def test_all_runs_of_a_study_and_a_ladder_are_checked_before_the_first_is_started(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("raw").mkdir()
    Path("raw/a.jsonl").write_text('{"text": "One page."}\n')
    Path("conf/study").mkdir(parents=True)
    Path("conf/study/rates.yaml").write_text(STUDY)
    done = headrace_here(*arguments, "source=jsonl", "source.paths=[raw/a.jsonl]", "cleaning=none")
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert done.stderr.endswith("(nothing was started)\n")
    assert not Path(RUNS).exists()


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize(
    ("names", "compared"),
    [(["lr-1", "lr-2"], ["lr-1", "lr-2"]), (["lr", "lr"], ["ID", "ID"]), ([None, "lr-2"], ["ID", "lr-2"])],
)
def test_the_command_that_compares_has_names_if_they_are_unique(
    names: list[str | None],
    compared: list[str],
    is_whole: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also without scores; arms on a cluster are compared later."""
    monkeypatch.setattr(arms, "accuracies", lambda steps: [])
    monkeypatch.setattr(arms, "validation_loss", lambda steps: None)
    config = decoded(compose([]))
    steps: list[Any] = [SimpleNamespace(name="weights", is_whole=is_whole)]
    runs = [Run(replace(config, name=name), {}, steps, [f"ranks={number}"]) for number, name in enumerate(names)]
    found = [SweptRun(run, "") for run in runs]
    arms.show_sweep(found)
    expected = [one.run.id if name == "ID" else name for one, name in zip(found, compared, strict=True)]
    when = "compare them" if is_whole else "when they are done"
    assert capsys.readouterr().out.splitlines()[-1] == f"{when}: headrace compare {' '.join(expected)}"
