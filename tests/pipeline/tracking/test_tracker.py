import dataclasses
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.pipeline.core.errors import ArtifactError, RetryableError
from headrace.pipeline.core.metrics_file import new_metrics, read_metrics
from headrace.pipeline.tracking import wandb_run
from headrace.pipeline.tracking.stage_runs import rebuild
from headrace.pipeline.tracking.tracker import Tracker
from headrace.pipeline.tracking.wandb_run import Tracking, grouped
from tests.pipeline.tracking.wandb_records import offline_runs
from tests.pipeline.tracking.wandb_server import FAULTS, MORE_FAULTS, server


def test_metrics_are_cut_at_the_resumed_step(tmp_path: Path) -> None:
    tracker = Tracker(tmp_path, Tracking(wandb="off"), "run", 0, {})
    for step in (1, 2, 3):
        tracker.log(step, {"loss": 4.0 - step})
    tracker.close()
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 4, "lo')  # a kill in the middle of a line

    tracker = Tracker(tmp_path, Tracking(wandb="off"), "run", 2, {})
    tracker.log(3, {"loss": 0.5})
    tracker.close()
    assert read_metrics(tmp_path / "metrics.jsonl") == [
        {"step": 1, "loss": 3.0},
        {"step": 2, "loss": 2.0},
        {"step": 3, "loss": 0.5},
    ]


def test_scores_have_rows_of_their_own_which_are_cut_like_the_others(tmp_path: Path) -> None:
    tracker = Tracker(tmp_path, Tracking(wandb="off"), "run", 0, {})
    scores = {"piqa": [score("acc", 0.5, "")]}
    for step in (1, 2):
        tracker.log(step, {"loss": 4.0 - step})
        tracker.log_scores(step, scores)
    tracker.close()
    Tracker(tmp_path, Tracking(wandb="off"), "run", 1, {}).close()
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": 3.0}, {"step": 1, "evaluation": scores}]


def test_wandb_receives_the_scores_of_all_items_at_once(tmp_path: Path) -> None:
    tracker, logged = Tracker(tmp_path, Tracking(wandb="off"), "run", 0, {}), list[dict[str, float]]()
    tracker._wandb = SimpleNamespace(log=logged.append, finish=lambda: None)
    tracker.log_scores(5, {"piqa": [score("acc", 0.5, ""), score("acc", 1.0, "simple"), score("acc_norm", 0.25, "")]})
    tracker.close()
    assert logged == [{"global_step": 5, "evaluation/piqa/acc": 0.5, "evaluation/piqa/acc_norm": 0.25}]


@pytest.mark.slow
def test_wandb_is_offline_without_a_key_and_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    tracker = Tracker(tmp_path, Tracking(), "abc123", 0, {"layers": 2})
    tracker.log(1, {"loss": 1.5})
    tracker.close()
    assert [path.name.endswith("-abc123") for path in (tmp_path / "wandb").glob("offline-run-*")] == [True]
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": 1.5}]


@pytest.mark.parametrize(
    ("variable", "mode"),
    [
        *((value, "online") for value in (None, "", "shared")),
        *((value, "offline") for value in ("dryrun", "no-such-mode")),
    ],
)
def test_wandb_sends_nothing_when_its_variable_says_so(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, mode: str
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_MODE", variable or "")
    if variable is None:
        monkeypatch.delenv("WANDB_MODE")
    assert wandb_run._mode(Tracking()) == mode


LOGGING = """
import os, sys
from pathlib import Path
from headrace.pipeline.tracking import tracker
tracker.CLOSING_SECONDS = float(sys.argv[2])
run = tracker.Tracker(Path(sys.argv[1]), tracker.Tracking(), "abc123", 0, {})
for step in range(1, 21):
    run.log(step, {"loss": 1 / step})
run.close()
sys.stderr.flush()
os._exit(0)  # as a rank ends
"""


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*FAULTS, *MORE_FAULTS])
def test_a_server_that_fails_costs_a_bounded_time_and_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.delenv("WANDB_SERVICE", raising=False)  # the service of the test process itself
    with server(fault) as address:
        variables = {
            "WANDB_BASE_URL": address,
            "WANDB_API_KEY": "0" * 40,
            "WANDB_INIT_TIMEOUT": "60" if fault == "hangs later" else "1",
            "WANDB_MODE": "online",
        }
        command = [sys.executable, "-c", LOGGING, str(tmp_path), "2" if fault == "hangs later" else "300"]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    assert done.returncode == 0, done.stderr
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.jsonl")] == list(range(1, 21))
    said, *others = [
        line for line in done.stderr.splitlines() if line.startswith("wandb: ") and "wandb.login" not in line
    ]
    assert not others, (said, others)
    if fault == "hangs later":
        later = "metrics.jsonl has every row, headrace export RUN --wandb sends them later"
        assert said == f"wandb: did not finish within 2 s; {later}"
    else:
        assert said.endswith(f"; the run is recorded offline in {tmp_path / 'wandb'}")
        (run,) = offline_runs(tmp_path)
        assert len(run.history) == 20


@pytest.mark.slow
def test_a_rebuild_without_a_server_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_INIT_TIMEOUT", "1")
    with server("errors") as address:
        monkeypatch.setenv("WANDB_BASE_URL", address)
        with pytest.raises(RetryableError) as error:
            rebuild(tmp_path, Tracking(), "refused", {})
    assert re.fullmatch(
        r"wandb: \w+: .*; run again when the server answers, or with WANDB_MODE=offline", str(error.value)
    )


def score(name: str, value: float, group: str) -> dict[str, Any]:
    return {"name": name, "value": value, "group": group}


@pytest.mark.slow
def test_the_wandb_run_is_rebuilt_from_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    tracker = Tracker(tmp_path, Tracking(wandb="off"), "abc123", 0, {})
    tracker.log(1, {"loss": 2.0})
    tracker.log(2, {"loss": 1.5, "validation_loss": 1.75})
    tracker.log_scores(2, {"piqa": [score("acc", 0.5, ""), score("acc", 1.0, "simple")]})
    tracker.close()
    beside = [(1, "watch 0a1b2c", {"piqa": [score("acc", 0.25, "")]})]
    where = rebuild(tmp_path, Tracking(wandb="off"), "abc123", {"layers": 2}, beside)
    (run,) = offline_runs(tmp_path)
    assert run.folder == Path(where)
    assert run.history == [
        {"global_step": 1, "loss": 2.0},
        {"global_step": 2, "loss": 1.5, "validation_loss": 1.75},
        {"global_step": 2, "evaluation/piqa/acc": 0.5},
        {"global_step": 1, "evaluation/piqa/acc (watch 0a1b2c)": 0.25},
    ]
    assert run.start.run_id == "abc123"


@pytest.mark.slow
def test_starts_that_go_on_offline_leave_one_folder_with_the_whole_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``wandb sync`` of several folders of one id keeps the rows of one. An earlier start was killed; the folder of
    another run stays."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("abc123", "abc123-1"):  # wandb numbers the second start within one second
        (tmp_path / f"wandb/offline-run-20200101_000000-{name}/files").mkdir(parents=True)
    (tmp_path / "wandb/offline-run-20200101_000000-other").mkdir()
    for resumed in (0, 2, 4):
        tracker = Tracker(tmp_path, Tracking(wandb="offline"), "abc123", resumed, {})
        for step in (resumed + 1, resumed + 2, resumed + 3):
            tracker.log(step, {"loss": 9.0 - step})
        tracker.log_scores(resumed + 3, {"piqa": [score("acc", 0.5, "")]})
        tracker.close()
    (tmp_path / "wandb/offline-run-20200101_000000-other").rmdir()
    (run,) = offline_runs(tmp_path)
    expected = [{"global_step": step, "loss": 9.0 - step} for step in range(1, 8)]
    assert run.history == [*expected, {"global_step": 7, "evaluation/piqa/acc": 0.5}]
    assert read_metrics(tmp_path / "metrics.jsonl")[-1]["step"] == 7


@dataclasses.dataclass
class OnlineRun:
    """A run of wandb that takes everything and sends nothing."""

    logged: list[dict[str, float]] = dataclasses.field(default_factory=list)
    offline: bool = False

    def log(self, values: dict[str, float]) -> None:
        self.logged.append(values)

    def finish(self) -> None: ...


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> OnlineRun:
    """The run that trackers open."""
    run = OnlineRun()
    monkeypatch.setattr("headrace.pipeline.tracking.tracker.opened", lambda *_: run)
    return run


def test_the_rows_of_a_run_online_are_not_sent_twice(tmp_path: Path, online: OnlineRun) -> None:
    for resumed in (0, 2):
        tracker = Tracker(tmp_path, Tracking(wandb="online"), "abc123", resumed, {})
        tracker.log(resumed + 1, {"loss": 1.0})
        tracker.log(resumed + 2, {"loss": 1.0})
        tracker.close()
    assert [row["global_step"] for row in online.logged] == [1, 2, 3, 4]


@pytest.mark.parametrize(("own", "group"), [(None, "sweep-1"), ("sizes", "sizes")])
def test_wandb_gets_the_group_the_type_the_tags_and_the_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None, group: str
) -> None:
    given: dict[str, Any] = {}
    run = SimpleNamespace(define_metric=lambda *_, **__: None)
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setattr("wandb.init", lambda **options: given.update(options) or run)
    tracking = Tracking(entity="mill", group=own, job_type="ablation", tags=("c4", "small"), notes="The *first* try.")
    with grouped("sweep-1"):
        assert wandb_run.opened(tmp_path, tracking, "abc123", {"layers": 2, "password": "hunter2"}) is run
    assert "WANDB_RUN_GROUP" not in os.environ
    assert (given["id"], given["resume"], given["mode"], given["dir"]) == ("abc123", "allow", "online", str(tmp_path))
    assert (given["entity"], given["group"], given["job_type"]) == ("mill", group, "ablation")
    assert (given["tags"], given["notes"]) == (("c4", "small"), "The *first* try.")
    assert given["config"]["layers"] == 2
    assert "hunter2" not in str(given["config"])


def test_a_kill_while_the_metrics_are_cut_leaves_them_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":1}\n{"step":2}\n')

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", kill)
    with pytest.raises(KeyboardInterrupt):
        Tracker(tmp_path, Tracking(wandb="off"), "run", 1, {})
    assert [row["step"] for row in read_metrics(path)] == [1, 2]


def test_what_a_lost_node_left_after_the_checkpoint_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":1}\n{"step":2}\n' + bytes(40) + b'\n{"step":4}\n')
    Tracker(tmp_path, Tracking(wandb="off"), "run", 2, {}).close()
    assert path.read_bytes() == b'{"step":1}\n{"step":2}\n'


@pytest.mark.parametrize("at", [3, 10, 21, None])
def test_a_damaged_row_before_the_checkpoint_is_named(tmp_path: Path, at: int | None) -> None:
    """A flipped digit, key, brace or line end; None: an empty file, as after a power cut."""
    tracker = Tracker(tmp_path, Tracking(wandb="off"), "run", 0, {})
    for step in (1, 2):
        tracker.log(step, {})
    sha256 = tracker.flush()
    tracker.log(3, {})
    tracker.close()
    path = tmp_path / "metrics.jsonl"
    rows = path.read_bytes()
    damaged = b"" if at is None else rows[:at] + bytes([rows[at] ^ 2]) + rows[at + 1 :]
    path.write_bytes(damaged)
    with pytest.raises(ArtifactError) as error:
        Tracker(tmp_path, Tracking(wandb="off"), "run", 2, {}, sha256)
    assert str(error.value) == (
        f"{path}: is damaged: its rows up to step 2 are not those that were written; "
        "restore it, or remove it and run again to continue without these rows"
    )
    assert path.read_bytes() == damaged
    path.write_bytes(rows)
    resumed = Tracker(tmp_path, Tracking(wandb="off"), "run", 2, {}, sha256)
    assert resumed.flush() == sha256
    resumed.close()
    assert path.read_bytes() == rows[:22]


@pytest.mark.parametrize("damaged", [b'{"step":3}\n', b"", None])
def test_a_damaged_curve_is_found_at_the_end_of_a_training(tmp_path: Path, damaged: bytes | None) -> None:
    tracker, path = Tracker(tmp_path, Tracking(wandb="off"), "run", 0, {}), tmp_path / "metrics.jsonl"
    tracker.log(1, {})
    tracker.verify()
    if damaged is None:
        path.unlink()
    else:
        path.write_bytes(damaged)
    with pytest.raises(ArtifactError, match=r"metrics\.jsonl: is damaged: its rows are not those that were written; "):
        tracker.verify()
    tracker.close()


def test_a_file_that_was_cut_and_grew_past_the_last_offset_is_read_again(tmp_path):
    """A resumed training cuts its metrics to the checkpoint while the launcher follows them."""
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":1}\n{"step":2}\n')
    rows, offset = new_metrics(path, 0)
    assert ([row["step"] for row in rows], offset) == ([1, 2], 22)
    path.write_bytes(b'{"step":1}\n{"step":2, "loss":1.5}\n{"step":3}\n')
    rows, _ = new_metrics(path, offset)
    assert [row["step"] for row in rows] == [1, 2, 3]


@pytest.mark.slow
def test_an_offline_run_does_not_ask_wandbs_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_MODE", "WANDB_SERVICE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    script = """
import sys
from pathlib import Path
from headrace.pipeline.tracking.wandb_run import Tracking
from headrace.pipeline.tracking.wandb_run import opened
run = opened(Path(sys.argv[1]), Tracking(), "run", {})
run.log({"loss": 2.0})
run.finish()
"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert len(offline_runs(tmp_path)) == 1


@pytest.mark.slow
def test_a_finished_offline_run_is_whole_if_wandbs_service_is_killed_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WANDB_MODE", "WANDB_SERVICE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    script = """
import contextlib, os, signal, sys
from pathlib import Path
from headrace.pipeline.tracking.wandb_run import Tracking
from headrace.pipeline.tracking.wandb_run import finish, opened
for name in ("a", "b"):
    run = opened(Path(sys.argv[1]), Tracking(), name, {})
    for step in range(50):
        run.log({"loss": 2.0 / (1 + step)})
    children = [one for task in Path("/proc/self/task").iterdir() for one in (task / "children").read_text().split()]
    finish(run)
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)
    assert children
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    assert [len(run.history) for run in offline_runs(tmp_path)] == [50] * 2
