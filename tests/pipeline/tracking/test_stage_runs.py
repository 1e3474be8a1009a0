"""The wandb runs of finished stages, recorded by commands and jobs without a network."""

import dataclasses
import errno
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import signal
import time
from pathlib import Path

import pytest

from headrace.pipeline.clusters.slurm import SCRIPTS
from headrace.pipeline.command_line.request import planned
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.signals import Stop
from headrace.pipeline.run import worker
from headrace.pipeline.run.planner import load, save
from headrace.pipeline.tracking import tracker
from headrace.pipeline.tracking.stage_runs import CLAIM
from headrace.pipeline.tracking.tracker import RECORD, Recorder
from headrace.pipeline.tracking.wandb_run import Tracking
from tests.command_line import headrace_here
from tests.pipeline.run.conftest import fake
from tests.pipeline.run.fake_slurm import FakeSlurm
from tests.pipeline.tracking.wandb_records import OfflineRun, offline_runs
from tests.pipeline.tracking.wandb_server import server
from tests.small_runs import c4_corpus

__all__ = ["fake"]
STAGES = ("clean", "duplicates", "report", "signatures", "texts", "unique")


def source(folder: Path) -> list[str]:
    """The settings of a small run of the data stages; none of wandb."""
    folder.mkdir(exist_ok=True)
    for name, rows in zip("ab", c4_corpus(), strict=True):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [
        "source=jsonl", f"source.paths=[{folder}/a.jsonl,{folder}/b.jsonl]", "cleaning=c4", f"root={folder}/runs",
        "until=unique", "workers=1",
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, and no service of wandb that other tests have started."""
    for name in ("WANDB_API_KEY", "WANDB_SERVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def overrides(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The settings of a run that was recorded offline. Tests leave it recorded."""
    settings = [*source(tmp_path_factory.mktemp("recorded")), "name=mill", "tracking.wandb=offline"]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WANDB_API_KEY", "WANDB_SERVICE"):
            patch.delenv(name, raising=False)
        done = headrace_here(*settings)
    assert done.returncode == 0, done.stderr
    return settings


@pytest.fixture
def root(overrides: list[str]) -> Path:
    return next(Path(one.removeprefix("root=")) for one in overrides if one.startswith("root="))


def by_type(root: Path) -> dict[str, OfflineRun]:
    """The offline runs below ``root`` by job type: one for each stage."""
    found = {run.start.job_type: run for run in offline_runs(root)}
    assert len(found) == len(offline_runs(root))
    return found


def reported(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """The lines about wandb, but not the one about the key."""
    lines = capfd.readouterr().err.splitlines()
    return [line for line in lines if line.startswith("wandb: ") and "wandb.login" not in line]


@pytest.mark.slow
def test_each_stage_is_a_run_with_its_artifact_and_its_inputs(root: Path) -> None:
    runs = by_type(root)
    assert tuple(sorted(runs)) == STAGES
    assert {run.start.run_group for run in runs.values()} == {"mill"}
    assert {run.start.display_name for run in runs.values()} == {f"mill:{stage}" for stage in STAGES}
    versions = {run.config["headrace"] for run in runs.values()}
    assert versions == {importlib.metadata.version("headrace")}
    for stage, run in runs.items():
        (folder,) = (root / stage).iterdir()
        manifest = read_sealed(folder / "manifest.json")
        assert run.config["address"] == folder.name
        assert run.config["inputs"] == [f"{name}-{address}" for name, address in manifest["inputs"].items()]
        counts = {name: number for name, number in manifest["counts"].items() if ":" not in name}
        assert {name: run.summary[name] for name in counts} == counts


@pytest.mark.slow
def test_the_report_has_its_page(root: Path) -> None:
    report = by_type(root)["report"]
    (page,) = report.folder.glob("files/media/html/page_*.html")
    (written,) = root.glob("report/*/report.html")
    assert page.read_bytes() == written.read_bytes()


@pytest.mark.slow
def test_what_was_recorded_is_not_recorded_again_and_what_a_kill_left_out_is(root: Path, overrides: list[str]) -> None:
    before = {run.folder for run in offline_runs(root)}
    assert headrace_here(*overrides).returncode == 0
    assert {run.folder for run in offline_runs(root)} == before
    (record,) = root.glob(f"clean/*/{RECORD}")
    run_id = read_sealed(record)["id"]
    record.unlink()
    assert headrace_here(*overrides).returncode == 0
    assert by_type(root)["clean"].start.run_id == read_sealed(record)["id"] == run_id


@pytest.mark.slow
def test_sync_replaces_the_same_runs_and_prints_their_upload(root: Path, overrides: list[str]) -> None:
    before = {stage: run.start.run_id for stage, run in by_type(root).items()}
    done = headrace_here("export", "mill", "--wandb", f"root={root}")
    assert done.returncode == 0, done.stderr
    runs = by_type(root)
    assert {stage: run.start.run_id for stage, run in runs.items()} == before
    assert {run.start.run_group for run in runs.values()} == {"mill"}
    *_, title, command = done.stdout.splitlines()
    assert title == "upload with:"
    printed = shlex.split(command)
    assert printed[:2] == ["wandb", "sync"]
    assert {Path(one) for one in printed[2:]} == {run.folder for run in runs.values()}


@pytest.mark.slow
def test_a_moved_root_keeps_its_runs_also_one_that_a_kill_on_another_node_left_begun(
    root: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(root, moved)
    before = {stage: run.start.run_id for stage, run in by_type(moved).items()}
    (record,) = moved.glob(f"clean/*/{RECORD}")
    begun = {name: value for name, value in read_sealed(record).items() if name not in ("place", "offline")}
    write_sealed(record, {**begun, "id": "0123456789ab"})
    shutil.rmtree(next(run.folder for stage, run in by_type(moved).items() if stage == "clean"))
    claims = [record.parents[1] / CLAIM, *(folder / CLAIM for folder in moved.glob("texts/*"))]
    for claim, then in zip(claims, (1.0, time.time()), strict=True):
        claim.symlink_to("node7~4026531836~4711~88231~117~0")
        os.utime(claim, (then, then), follow_symlinks=False)
    done = headrace_here("export", "mill", "--wandb", f"root={moved}")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^texts +another process records it now$", done.stdout, re.MULTILINE)
    assert {stage: run.start.run_id for stage, run in by_type(moved).items()} == before | {"clean": "0123456789ab"}
    assert read_sealed(record)["place"].startswith(str(moved))
    assert not claims[0].is_symlink()


def test_a_recorder_that_cannot_start_fails_no_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refused(self: Recorder) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(Recorder, "_started", refused)
    run_json, folders = tmp_path / "run.json", {stage: tmp_path / stage for stage in ("texts", "clean")}
    write_sealed(run_json, {"config": {"tracking": {"wandb": "offline"}}, "descriptions": {}})
    with Recorder(run_json) as recorder:
        for stage, folder in folders.items():
            recorder.record(stage, folder)
            assert reported(capfd) == [], "it is not finished"
            folder.mkdir()
            (folder / "manifest.json").write_text("{}")
        for stage, folder in folders.items():
            recorder.record(stage, folder)
    line = f"wandb: [Errno 11] {os.strerror(errno.EAGAIN)}; headrace export RUN --wandb records the stages later"
    assert reported(capfd) == [line]


@pytest.mark.slow
def test_the_arms_of_a_sweep_are_one_group_also_after_sync(tmp_path: Path) -> None:
    settings = [*source(tmp_path), "name=arm", "tracking.wandb=offline", "tracking.report=false", "until=texts"]
    assert headrace_here("-m", *settings, "source.task_bytes=1,1000").returncode == 0
    assert headrace_here("export", "arm-2", "--wandb", f"root={tmp_path}/runs").returncode == 0
    runs = offline_runs(tmp_path)
    assert {run.start.run_group for run in runs} == {"arm"}
    assert sorted(run.start.display_name for run in runs) == ["arm-1:texts", "arm-2:texts"]


@pytest.mark.parametrize(
    ("tracking", "key", "trains", "is_recorded"),
    [
        (Tracking(), "", False, False),
        (Tracking(), "0" * 40, False, True),
        (Tracking(), "", True, True),
        (Tracking(wandb="offline"), "", False, True),
        (Tracking(wandb="off"), "0" * 40, True, False),
    ],
)
def test_a_run_on_data_alone_starts_no_wandb_unless_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tracking: Tracking, key: str, trains: bool, is_recorded: bool
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", key)
    assert tracking.records_stages(trains) == is_recorded
    stages = ("texts", "weights", "report")
    assert [tracker.wants(tracking, stage) for stage in stages] == [True, False, True], "a training records itself"
    without = dataclasses.replace(tracking, lineage=False, report=False)
    assert not any(tracker.wants(without, stage) for stage in stages)


@pytest.mark.slow
def test_a_server_that_hangs_and_a_missing_package_fail_no_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with server("hangs") as address:
        for name, value in {"BASE_URL": address, "API_KEY": "0" * 40, "INIT_TIMEOUT": "1", "MODE": "online"}.items():
            monkeypatch.setenv(f"WANDB_{name}", value)
        assert headrace_here(*source(tmp_path / "hangs"), "until=texts").returncode == 0
    assert [run.start.job_type for run in offline_runs(tmp_path / "hangs")] == ["report", "texts"]
    (line,) = reported(capfd)
    assert "; the run is recorded offline in " in line

    (tmp_path / "wandb.py").write_text("raise ImportError('no wandb here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert headrace_here(*source(tmp_path / "missing"), "until=texts").returncode == 0
    assert offline_runs(tmp_path / "missing") == []
    (line,) = reported(capfd)
    assert line == "wandb: ImportError: no wandb here; headrace export RUN --wandb records the stages later"


@pytest.mark.slow
def test_a_process_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hanging.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(tracker, "PROGRAM", "hanging")
    monkeypatch.setattr(tracker, "CLOSING_SECONDS", 0.1)
    monkeypatch.setattr(tracker, "MARGIN_SECONDS", 0.1)
    settings = [*source(tmp_path / "corpus"), "until=texts", "tracking.wandb=offline"]
    done = headrace_here(*settings)
    message = "wandb: its process hung and was ended; headrace export RUN --wandb records the stages later"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, message)

    monkeypatch.setattr(tracker, "CLOSING_SECONDS", 900)
    (run_json,) = tmp_path.glob("corpus/runs/runs/*/run.json")
    sender = Recorder(run_json)
    texts = load(run_json)[1][0]
    sender.record(texts.name, texts.folder)
    sender.__exit__(Stop, Stop(signal.SIGTERM), None)
    assert sender._process is not None
    assert sender._process.returncode == -signal.SIGKILL, "it was not waited for"


@pytest.mark.slow
def test_a_job_records_its_stages_and_the_report_those_of_killed_jobs(tmp_path: Path) -> None:
    settings = [*source(tmp_path), "until=texts", "tracking.wandb=offline", "tracking.group=jobs"]
    run = planned(compose(settings), settings)
    file = str(save(run.config, run.values, run.stages, settings))
    assert worker.main([file, "texts", "texts", "0"]) == 0
    assert list(by_type(tmp_path)) == ["texts"]
    texts = run.stages[0].folder
    (texts / RECORD).unlink()
    shutil.rmtree(texts / "wandb")
    assert worker.main([file, "report", "report", "0"]) == 0
    runs = by_type(tmp_path)
    assert sorted(runs) == ["report", "texts"]
    assert {one.start.run_group for one in runs.values()} == {"jobs"}


@pytest.mark.slow
def test_jobs_inherit_the_group_and_the_key(fake: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    settings = [*source(tmp_path), "cluster=slurm", "name=night", "until=tokens", "cluster.one_job=never"]
    assert headrace_here(*settings).returncode == 0
    (run_json,) = tmp_path.glob("runs/runs/*/run.json")
    assert read_sealed(run_json)["group"] == "night"
    assert len(fake.calls) > 10
    assert all(call["wandb"] == {"WANDB_RUN_GROUP": "night", "WANDB_API_KEY": "0" * 40} for call in fake.calls)
    for name in ("array", "data", "train"):
        assert "#SBATCH --export=ALL\n" in (SCRIPTS / f"{name}.sbatch").read_text()
