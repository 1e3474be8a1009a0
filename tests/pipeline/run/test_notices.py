"""Notices of whole runs and jobs: what is told, what is not told twice, and that no notifier is waited for."""

import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.clusters.base import Job
from headrace.pipeline.command_line.request import opened
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.environment import JOB, NOTICES
from headrace.pipeline.core.errors import TaskError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.signals import Stop
from headrace.pipeline.run import jobs, notice_program, run_execution, submission, worker
from headrace.pipeline.run.planner import load, load_stages, plan, save
from headrace.pipeline.run.saved_run import SavedRun
from headrace.pipeline.tracking import notices
from headrace.pipeline.tracking.notices import AGAIN_SECONDS, NoNotices, is_due, noticed, send
from tests.command_line import headrace_here
from tests.other_processes import DEADLINE_SECONDS, wait_until
from tests.pipeline.tracking.test_stage_runs import source

TELL = """
import os, sys
text = sys.stdin.read() + "\\n"
os.write(os.open(sys.argv[1], os.O_CREAT | os.O_APPEND | os.O_WRONLY), text.encode())
"""


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (JOB, NOTICES):
        monkeypatch.delenv(name, raising=False)
    finished()
    notices._programs.clear()


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    """A run of texts alone, whose notices are lines of a file."""
    (tmp_path / "tell.py").write_text(TELL)
    command = f"notify.command=[{sys.executable},{tmp_path}/tell.py,{tmp_path}/told]"
    own = [*source(tmp_path), "until=texts", "tracking=file", "name=mill"]
    return [*(one for one in own if one != "until=unique"), "notify=command", command]


def told(folder: Path, number: int) -> list[dict[str, Any]]:
    """Waits for ``number`` notices and returns all that were sent."""
    path = folder / "told"
    wait_until(lambda: path.exists() and path.read_text().count("\n") >= number)
    return [json.loads(line) for line in path.read_text().splitlines()]


def saved(settings: Sequence[str]) -> Path:
    """Returns the run.json of a run that is planned alone."""
    values = compose(list(settings))
    config = decoded(values)
    return save(config, values, plan(config), settings)


def finished() -> None:
    """Waits for the processes that were started."""
    for process in notices._programs:
        process.wait(DEADLINE_SECONDS)


def test_the_end_of_a_run_is_told_once_with_its_report(settings: list[str], tmp_path: Path) -> None:
    assert headrace_here(*settings).returncode == 0
    (notice,) = told(tmp_path, 1)
    (page,) = (tmp_path / "runs" / "report").glob("*/report.html")
    assert notice["event"] == "ended"
    assert notice["text"] == f"all stages are done; report: {page}"
    assert notice["subject"] == f"headrace: mill ended (report on {notice['host']})"
    assert notice["next"] == f"headrace status mill root={tmp_path}/runs"
    finished()
    assert "ended report: sent (command)" in next(tmp_path.rglob("notices.log")).read_text()
    notices._programs.clear()
    assert headrace_here(*settings).returncode == 0, "nothing was left to do"
    assert notices._programs == []
    assert NOTICES not in os.environ


def test_a_module_in_the_current_folder_does_not_stand_in_the_way(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    with noticed(saved(settings)):
        send("died", "texts", "no luck")
    assert [notice["text"] for notice in told(tmp_path, 1)] == ["no luck"]


def test_a_run_that_died_is_told_with_the_command_that_goes_on(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(workers: Any, stage: Any, config: Any) -> None:
        (stage.folder / "logs").mkdir(parents=True, exist_ok=True)
        (stage.folder / "logs" / "texts.log").write_text("first\n\x1b[31mlast\n")
        raise TaskError("texts", "no luck", "try again")

    monkeypatch.setattr(run_execution, "execute_in", fails)
    for number in (1, 2):  # a second start is told again
        assert headrace_here(*settings).returncode == 1
        notice = told(tmp_path, number)[-1]
    assert (notice["event"], notice["stage"], notice["text"]) == ("died", "texts", "texts: no luck; try again")
    assert notice["lines"][0] == "first"
    assert "\x1b" not in notice["lines"][1]
    assert notice["next"] == f"cd {os.getcwd()} && {shlex.join(['headrace', *settings])}"


@pytest.mark.parametrize(("number", "is_told"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_a_stop_by_another_than_ctrl_c_waits_for_a_person(
    number: signal.Signals, is_told: bool, settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any) -> None:
        raise Stop(number)

    monkeypatch.setattr(run_execution, "execute_in", stopped)
    assert headrace_here(*settings).returncode == 128 + number
    assert len(notices._programs) == is_told
    if is_told:
        (notice,) = told(tmp_path, 1)
        assert (notice["event"], notice["stage"]) == ("waits", "texts")
        assert notice["text"].startswith("texts was stopped by SIGTERM: stopped; run the same command again")


def test_a_notifier_that_hangs_is_not_waited_for(settings: list[str]) -> None:
    assert headrace_here(*settings[:-1], "notify.command=[sleep,60]").returncode == 0
    (process,) = notices._programs
    assert process.poll() is None, "it still runs after the end of the run"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_job_waits_for_its_notifier_for_a_bounded_time(settings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JOB, "7")
    monkeypatch.setattr(notices, "CLOSING_SECONDS", 0.5)
    run_json = saved([*settings[:-1], "notify.command=[sleep,60]"])
    begun = time.monotonic()
    with noticed(run_json):
        send("died", "texts", "no luck")
    assert time.monotonic() - begun >= 0.5
    (process,) = notices._programs  # those that still run
    os.killpg(process.pid, signal.SIGKILL)


def test_a_notifier_that_fails_is_a_line_in_the_log(settings: list[str], tmp_path: Path) -> None:
    done = headrace_here(*settings[:-1], "notify.command=[false]")
    assert done.returncode == 0
    finished()
    log = next(tmp_path.rglob("notices.log")).read_text()
    assert "ended report: not sent: notify: false ended with status 1: it printed no error; correct it\n" in log


def test_a_notifier_that_cannot_work_is_refused_before_the_run(settings: list[str], tmp_path: Path) -> None:
    done = headrace_here(*settings[:-1], "notify.command=[no-such-program]")
    assert done.returncode == 2
    assert done.stderr.startswith("headrace: notify.command: no program 'no-such-program' on this machine; ")
    done = headrace_here(*settings[:-2], "notify=apprise", "notify.url_variable=NO_SUCH_URL")
    assert "notify.url_variable: the environment variable NO_SUCH_URL is not set" in done.stderr
    assert not (tmp_path / "runs" / "texts").exists()


def test_settings_of_notices_change_no_address(settings: list[str]) -> None:
    with_notices, without = decoded(compose(settings)), decoded(compose(settings[:-2]))
    assert with_notices.id == without.id
    assert [stage.address for stage in plan(with_notices)] == [stage.address for stage in plan(without)]


def test_many_processes_tell_of_one_event_once_an_hour(tmp_path: Path) -> None:
    with ThreadPoolExecutor(20) as pool:
        first = list(pool.map(lambda _: is_due(tmp_path / "marks", "died-texts"), range(200)))
    assert sum(first) == 1
    assert is_due(tmp_path / "marks", "died-clean")
    old = time.time() - AGAIN_SECONDS - 1
    os.utime(tmp_path / "marks" / "died-texts", (old, old))
    assert [is_due(tmp_path / "marks", "died-texts") for _ in range(2)] == [True, False]
    (tmp_path / "file").write_text("")
    assert is_due(tmp_path / "file", "died-texts"), "a disk that takes no mark holds nothing back"
    moved = tmp_path / "moved" / "run" / notices.MARKS
    assert is_due(moved, "died-texts")
    assert not moved.parent.parent.exists(), "the folder of a run that was moved is not made again"


def test_all_indices_of_an_array_that_fail_are_one_notice(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise TaskError("texts", "no luck", "try again")

    run_json = saved(settings)
    monkeypatch.setattr(worker, "run_stage", fails)
    for index in ("0", "1"):
        assert worker.main([str(run_json), "texts", "texts", index, "2"]) == 1
    finished()
    (notice,) = told(tmp_path, 1)
    assert (notice["event"], notice["text"]) == ("died", "texts: no luck; try again")


ENDS: list[tuple[list[str], bool, str]] = [
    (["8|N/A|TIMEOUT|TimeLimit|mill"], False, "TIMEOUT"),
    (["8|N/A|CANCELLED|None|mill"], False, "CANCELLED before it ran, job 8"),
    ([], False, "CANCELLED before it ran, job 8"),
    (["8|N/A|FAILED|NonZeroExitCode|mill"], True, ""),  # the process that failed has told of it
    (["8|N/A|RUNNING|None|mill"], False, ""),
]
"""What squeue says of the job of texts, whether a process told of its end, and what the last job tells; "": nothing."""


@pytest.mark.parametrize(("queue", "is_told", "said"), ENDS)
def test_the_last_job_tells_of_an_end_that_nobody_told_of(
    queue: list[str], is_told: bool, said: str, settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMTP_PASSWORD", "hunter2-hunter2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "squeue").write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in queue))
    (tmp_path / "bin" / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    run_json = saved(settings)
    texts = load(run_json)[1][0]
    jobs.record(texts, texts.phases[0], Job("8", str(tmp_path / "log"), None))
    if said and not said.startswith("CANCELLED"):
        (tmp_path / "log.log").write_text("hunter2-hunter2\nAuthorization: Bearer abc\n")
    if is_told:
        is_due(run_json.parent / notices.MARKS, "died-texts")
    for _ in range(2):
        notice_program.main(run_json, notice_program.LAST)
    if not said:
        assert not (tmp_path / "told").exists()
        return
    (notice,) = told(tmp_path, 1)
    assert (notice["event"], notice["stage"]) == ("died", "texts")
    assert notice["text"].startswith(said)
    assert notice["lines"] in ([], ["***", "Authorization: Bearer ***"])
    assert notice["next"].endswith(shlex.join(["headrace", *settings]))


def test_the_last_job_of_a_chain_that_is_whole_tells_that_it_ended_once(settings: list[str], tmp_path: Path) -> None:
    run_json = saved(settings)
    assert worker.main([str(run_json), "texts..report", "1"]) == 0
    finished()
    notice_program.main(run_json, notice_program.LAST)
    assert len(told(tmp_path, 1)) == 1
    shutil.rmtree(run_json.parent / notices.MARKS)  # the job of the report died before it told anybody
    notice_program.main(run_json, notice_program.LAST)
    assert [notice["event"] for notice in told(tmp_path, 2)] == ["ended", "ended"]


@pytest.mark.parametrize(
    ("overrides", "config"),
    [
        (["notify=slack"], {"notify": {"type": "slack", "url_variable": "HEADRACE_WEBHOOK_URL"}}),
        (["cluster.replaced_jobs=all"], {"cluster": {"type": "slurm", "replaced_jobs": "all"}}),
        (["price_per_core_hour=0.5", "currency=EUR"], {"price_per_core_hour": 0.5, "price_per_gpu_hour": None}),
    ],
)
def test_a_run_with_settings_that_are_gone_is_still_read(
    overrides: list[str], config: dict[str, object], settings: list[str]
) -> None:
    run_json = saved(settings)
    values = read_sealed(run_json)
    before = list(values["overrides"])
    values["config"] |= config
    values["overrides"] += overrides
    write_sealed(run_json, values)
    run = opened(SavedRun.read(run_json))
    assert (run.config.notify == NoNotices()) == ("notify" in config)
    assert run.overrides == before
    assert load_stages(run_json).keys() == {stage.name for stage in run.stages}


def test_the_rest_of_a_chain_that_cannot_be_read_is_one_line(tmp_path: Path, capsys) -> None:
    (tmp_path / "run.json").write_text("{")
    assert submission.main(tmp_path / "run.json") > 0
    assert capsys.readouterr().err.startswith("headrace: ")
