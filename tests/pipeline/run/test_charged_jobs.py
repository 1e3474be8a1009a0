"""The charges of a scheduler: sacct's rows, what is kept of them, and what is asked again."""

import dataclasses
import sys
from pathlib import Path

import pytest

from headrace.pipeline.clusters import slurm_accounting
from headrace.pipeline.clusters.base import Job
from headrace.pipeline.core.attempts import FOLDER, Attempt
from headrace.pipeline.core.charges import Charge, read_charges
from headrace.pipeline.core.errors import TaskError
from headrace.pipeline.core.json_files import write_json, write_sealed
from headrace.pipeline.run import jobs
from headrace.pipeline.run.charged_jobs import account_of, ask_charges
from headrace.pipeline.run.saved_runs import SavedRun

RUN = "0123456789ab"
START = 1_763_822_160

SACCT = """#!{python}
import os, sys
open({folder!r} + "/asked", "a").write(os.environ.get("SLURM_TIME_FORMAT", "") + " " + " ".join(sys.argv[1:]) + "\\n")
jobs = [a for a in sys.argv if a.startswith("--jobs=")][0][7:].split(",")
for line in open({folder!r} + "/rows"):
    if line.split("|")[0] in jobs or not line[0].isdigit():
        print(line, end="")
sys.exit(int(open({folder!r} + "/status").read()))
"""
POOL = f"""
from headrace.pipeline.core.charges import Charge
from headrace.pipeline.core.settings import settings

@settings
class Pool:
    scheduler = None

    @staticmethod
    def charges(jobs):
        return [Charge(job, {START}, 100 * int(job), 16, 0, True) for job in jobs]
"""
ROWS = (
    "greeting of a wrapper",
    f"7|{START - 100 * 86400}|5000|64|cpu=64|COMPLETED",  # the numbers of jobs began again since
    f"7|{START}|60|16|billing=16,cpu=16,gres/gpu:h200=8,gres/gpu=8,node=2|NODE_FAIL",
    f"7|{START + 300}|120|16|billing=16,cpu=16,gres/gpu=8,node=2|CANCELLED by 1000",
    f"8|{START + 300}|40|4|cpu=4|RUNNING",
    "9|Unknown|0|0||PENDING",
)


@pytest.fixture
def sacct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a sacct that prints ``rows`` and ends with ``status``; it adds to ``asked``."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "rows").write_text("".join(f"{row}\n" for row in ROWS))
    (folder / "status").write_text("0")
    (folder / "sacct").write_text(SACCT.format(python=sys.executable, folder=str(folder)))
    (folder / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> SavedRun:
    """A run on SLURM: a stage by the jobs 7 and 8, one by another run, and one that was not begun."""
    root = tmp_path / "root"
    steps = [{"name": name, "address": "0" * 12, "phases": [[name, 1]]} for name in ("texts", "clean", "unique")]
    path = root / "runs" / RUN / "run.json"
    config = {"cluster": {"type": "slurm"}, "price_per_core_hour": 0.5, "currency": "EUR"}
    write_sealed(path, {"format": 4, "config": config, "descriptions": {}, "steps": steps})
    attempt = Attempt("n1", "CPU", 64, 64, (), START + 10.0, START + 50.0, None, RUN, "7", 16, 8)
    later = dataclasses.replace(attempt, start=START + 310, end=None, seen=START + 350, job="8", held_cores=4)
    others = dataclasses.replace(attempt, run="ba9876543210", job="5")
    for stage, number, one in (("texts", 1, attempt), ("texts", 2, later), ("clean", 1, others)):
        write_json(root / stage / ("0" * 12) / FOLDER / f"{number}.json", dataclasses.asdict(one))
    (root / "clean" / ("0" * 12) / "manifest.json").write_text("{}")
    saved = SavedRun.read(path)
    jobs.record(saved.stages[0], saved.stages[0].phases[0], Job("8", "texts.log", None, cluster="slurm"))
    return saved


def test_sacct_is_read(sacct: Path) -> None:
    assert slurm_accounting.charges(["7", "8", "9"])[1:] == [
        Charge("7", START, 60, 16, 8, True),
        Charge("7", START + 300, 120, 16, 8, True),
        Charge("8", START + 300, 40, 4, 0, False),
    ]
    (asked,) = (sacct / "asked").read_text().splitlines()
    assert asked.startswith("%s --noheader --parsable2 --duplicates --allocations --jobs=7,8,9 ")


def test_many_jobs_are_asked_for_in_several_calls(sacct: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_accounting, "JOBS_OF_A_CALL", 2)
    assert len(slurm_accounting.charges(["1", "2", "7"])) == 3
    assert [line.split()[5] for line in (sacct / "asked").read_text().splitlines()] == ["--jobs=1,2", "--jobs=7"]


def test_ended_jobs_are_kept_and_not_asked_for_again(sacct: Path, run: SavedRun) -> None:
    ask_charges(run)
    assert read_charges(run.file.parent) == {
        "7": [Charge("7", START, 60, 16, 8, True), Charge("7", START + 300, 120, 16, 8, True)]
    }
    texts, clean, unique = account_of(run).stages
    assert texts.core_hours * 3600 == pytest.approx(180 * 16 + 40 * 4), "job 8 still runs: it is measured"
    assert texts.gpu_hours * 3600 == pytest.approx(180 * 8 + 40 * 8)
    assert texts.price == pytest.approx(0.5 * texts.core_hours)
    assert (clean.attempts, clean.is_reused, unique.is_reused) == (0, True, False)
    (sacct / "rows").write_text(f"8|{START + 300}|100|4|cpu=4|COMPLETED\n")
    for _ in range(2):
        ask_charges(run)
    assert account_of(run).total.core_hours * 3600 == pytest.approx(180 * 16 + 100 * 4)
    asked = [line.split()[5] for line in (sacct / "asked").read_text().splitlines()]
    assert asked == ["--jobs=7,8", "--jobs=8"]


def test_a_cluster_class_of_the_users_own_is_asked(run: SavedRun, tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(POOL)
    stage = run.stages[0]
    jobs.record(stage, stage.phases[0], Job("8", "texts.log", None, cluster=f"{tmp_path}/pool.py:Pool"))
    ask_charges(run)
    assert {job: charge.seconds for job, (charge,) in read_charges(run.file.parent).items()} == {"7": 700, "8": 800}


@pytest.mark.parametrize("answer", ["no accounting", "no answer", "no sacct", "not writable"])
def test_without_charges_the_measured_times_stand(
    answer: str, sacct: Path, run: SavedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise TaskError("cluster=slurm", "sacct gave no answer", "run again")

    def is_full(*_: object, **__: object) -> None:
        raise OSError

    if answer == "no accounting":
        (sacct / "rows").write_text("")
        (sacct / "status").write_text("1")
    elif answer == "no answer":
        monkeypatch.setattr(slurm_accounting, "ask", fails)
    elif answer == "no sacct":
        monkeypatch.setenv("PATH", "")
    else:
        monkeypatch.setattr("headrace.pipeline.run.charged_jobs.keep_charges", is_full)
    ask_charges(run)
    assert account_of(run).total.core_hours * 3600 == pytest.approx(40 * 16 + 40 * 4)
