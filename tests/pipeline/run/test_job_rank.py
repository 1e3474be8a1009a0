"""A rank in a job: inputs that are not finished, a job of another version, and the modules that it loads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.run import job_rank
from headrace.pipeline.run.planner import plan, save
from headrace.pipeline.tracking.tracker import Recorder

OF_DATA = ("headrace.pipeline.config", "headrace.data_prep.filters", "headrace.data_prep.sources", "numba", "datatrove")


def test_an_input_whose_last_task_was_killed_is_finished_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pages.jsonl").write_text(json.dumps({"text": "One page."}) + "\n")
    settings = ["source=jsonl", f"source.paths=[{tmp_path}/pages.jsonl]", f"root={tmp_path}/root", "until=clean"]
    values = compose(settings)
    texts, clean, report = plan(decoded(values))
    run_json = save(decoded(values), values, [texts, clean, report])
    texts.executor(texts.phases[0]).run_task_when_free(0)
    seen = []
    monkeypatch.setattr(job_rank, "run_rank", lambda step, run: seen.append((step.name, texts.is_whole)))
    job_rank.run_in_job(run_json, clean)
    assert seen == [("clean", True)]


@pytest.mark.parametrize(("number", "recorded"), [("0", ["texts"]), ("1", [])])
def test_a_stage_that_is_done_is_recorded_by_rank_0_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str, recorded: list[str]
) -> None:
    (tmp_path / "pages.jsonl").write_text(json.dumps({"text": "One page."}) + "\n")
    settings = ["source=jsonl", f"source.paths=[{tmp_path}/pages.jsonl]", f"root={tmp_path}/root", "until=texts"]
    values = compose(settings)
    texts, report = plan(decoded(values))
    run_json = save(decoded(values), values, [texts, report])
    texts.executor(texts.phases[0]).run_task_when_free(0)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_PROCID", number)
    seen: list[str] = []
    monkeypatch.setattr(Recorder, "record", lambda _, stage, folder: seen.append(stage))
    job_rank.run_in_job(run_json, texts)
    assert seen == recorded


def test_a_job_of_a_version_that_wrote_no_such_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert job_rank.main([str(tmp_path / "run-ab.json"), "weights"]) == 2
    said = capsys.readouterr().err
    expected = (
        f"headrace: {tmp_path}/weights.run-ab.json: is not there: another version of headrace submitted this job; "
    )
    assert said.startswith(expected)


def test_the_modules_of_the_data_stages_are_not_loaded() -> None:
    code = "import sys, headrace.pipeline.run.job_rank; print([name for name in sys.argv[1:] if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code, *OF_DATA], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
