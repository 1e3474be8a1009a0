import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headrace.pipeline.core import claim as claims
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.claim import (
    DAY_SECONDS,
    SILENCE_SECONDS,
    UNFINISHED,
    Owner,
    Waiting,
    claimed,
    claimed_when_free,
    remove_silent,
    remove_unfinished,
    temporary_path,
)
from headrace.pipeline.core.environment import JOB, RESTARTS

ELSEWHERE = "node7~4026531836~4711~88231"


def dead() -> Owner:
    """A process of this machine that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    me = Owner.current()
    return Owner(me.node, me.namespace, process.pid, "1")


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    (tmp_path / "parts").mkdir()
    return tmp_path / "parts" / "write-00000.claim"


def test_one_process_holds_a_claim_and_leaves_nothing_behind(claim: Path) -> None:
    with claimed(claim) as first:
        if (child := os.fork()) == 0:
            with claimed(claim) as second:
                os._exit(0 if first and not second else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert list(claim.parent.iterdir()) == []


def test_only_one_of_many_processes_gets_a_claim(claim: Path) -> None:
    """Twenty processes count up a number that only the holder of the claim may touch."""
    number = claim.with_name("number")
    number.write_text("0")
    children = []
    for _ in range(20):
        if (child := os.fork()) == 0:
            with claimed_when_free(claim, "count"):
                number.write_text(str(int(number.read_text()) + 1))
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 20
    assert number.read_text() == "20"


def test_the_claim_of_a_dead_process_is_taken_over_at_once(claim: Path) -> None:
    claim.symlink_to(f"{dead()}~~0")
    with claimed(claim) as is_ours:
        assert is_ours


@pytest.mark.parametrize(
    ("job", "restarts", "is_taken"), [("117", "0", True), ("117", "1", False), ("118", "0", False), ("", "0", False)]
)
def test_a_requeued_job_takes_over_what_it_claimed_on_another_node(
    claim: Path, monkeypatch: pytest.MonkeyPatch, job: str, restarts: str, is_taken: bool
) -> None:
    monkeypatch.setenv(JOB, "117")
    monkeypatch.setenv(RESTARTS, "1")
    claim.symlink_to(f"{ELSEWHERE}~{job}~{restarts}")
    with claimed(claim) as is_ours:
        assert is_ours is is_taken


def test_without_a_heartbeat_a_claim_of_another_node_ends(claim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the other node does not matter, only the time since the last change."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    claim.symlink_to(f"{ELSEWHERE}~~0")
    os.utime(claim, (1, 1), follow_symlinks=False)
    printed: list[str] = []
    waiting = Waiting("clean.clean", printed.append)
    waiting.start()
    for now[0], beat, is_free in [(0, 1, False), (170, 1, False), (190, 2, False), (365, 2, False), (371, 2, True)]:
        os.utime(claim, (beat, beat), follow_symlinks=False)
        assert waiting.any_free([claim]) is is_free, now
    assert printed == ["clean.clean waits for node7 PID 4711"]
    assert not claim.is_symlink()


HOUR = 3600.0


@pytest.mark.parametrize("ahead_seconds", [HOUR, 0.0, -HOUR])
def test_for_a_day_a_removal_takes_the_owner_of_another_node_for_live(claim: Path, ahead_seconds: float) -> None:
    claim.symlink_to(f"{ELSEWHERE}~~0")
    for age_seconds, is_live in ((0, True), (2 * DAY_SECONDS, False)):
        beat = time.time() + ahead_seconds - age_seconds
        os.utime(claim, (beat, beat), follow_symlinks=False)
        assert bool(claims.live_owners([claim], DAY_SECONDS)) is is_live


@pytest.mark.parametrize("text", [f"{ELSEWHERE}~117~0", "no owner"])
@pytest.mark.parametrize("age_seconds", [0, SILENCE_SECONDS + 5])
def test_a_silent_claim_of_another_node_is_removed_without_a_wait(claim: Path, text: str, age_seconds: float) -> None:
    claim.symlink_to(text)
    then = time.time() - age_seconds
    os.utime(claim, (then, then), follow_symlinks=False)
    remove_silent(claim)
    assert claim.is_symlink() is (age_seconds == 0)
    with claimed(claim) as is_ours:
        assert is_ours is (age_seconds > 0)


def test_a_silent_claim_of_a_running_process_of_this_machine_stays(claim: Path) -> None:
    remove_silent(claim)  # there is none
    claim.symlink_to(f"{Owner.current()}~~0")
    os.utime(claim, (1, 1), follow_symlinks=False)
    remove_silent(claim)
    assert claim.is_symlink()


def test_a_suspended_process_of_this_machine_keeps_its_claim(claim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    claim.symlink_to(f"{Owner.current()}~~0")
    waiting = Waiting("clean.clean", print)
    assert not waiting.any_free([claim])
    now[0] = 10_000.0
    assert not waiting.any_free([claim])


def test_a_holder_keeps_its_claim_alive(claim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "HEARTBEAT_SECONDS", 0.01)
    with claimed(claim):
        os.utime(claim, (1, 1), follow_symlinks=False)
        deadline = time.monotonic() + 30
        while claim.lstat().st_mtime == 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert claim.lstat().st_mtime > 1
    deadline = time.monotonic() + 30
    while any(thread.name == "heartbeat" for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(thread.name == "heartbeat" for thread in threading.enumerate())


def test_a_claim_that_changed_hands_is_put_back_and_not_released(claim: Path) -> None:
    with claimed(claim):
        claim.unlink()
        claim.symlink_to(f"{ELSEWHERE}~~0")
        claims._remove(claim, f"{dead()}~~0")
    assert os.readlink(claim) == f"{ELSEWHERE}~~0"
    assert list(claim.parent.iterdir()) == [claim]


def test_a_file_that_is_no_claim_counts_as_an_unknown_process(claim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim.write_text("a file that somebody put here")
    with claimed(claim) as is_ours:
        assert not is_ours
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    printed: list[str] = []
    waiting = Waiting("clean.clean", printed.append)
    for now[0], is_free in [(0, False), (2, False), (200, True)]:
        assert waiting.any_free([claim]) is is_free
    assert printed == ["clean.clean waits for an unknown process"]


def finished(folder: Path) -> Artifact:
    out = TaskOutput(folder, "write", 0)
    out.done({})
    return finish(folder, {}, {"write": 1})


def test_finish_keeps_the_files_of_running_processes(tmp_path: Path, claim: Path) -> None:
    stays = [
        temporary_path(tmp_path / "documents.bin").name,
        f"{UNFINISHED}{ELSEWHERE}-documents.bin",  # it holds a claim
    ]
    goes = [
        f"{UNFINISHED}{dead()}-documents.bin",
        f"{UNFINISHED}node7~4026531836~4712~88231-documents.bin",
        f"{UNFINISHED}of-an-older-version",
    ]
    for name in (*stays, *goes):
        (tmp_path / name).touch()
    claim.symlink_to(f"{ELSEWHERE}~~0")
    finished(tmp_path)
    assert sorted(path.name for path in tmp_path.glob(f"{UNFINISHED}*")) == sorted(stays)
    assert not claim.is_symlink(), "claims are no part of an artifact"


def test_a_name_leads_back_to_its_process() -> None:
    me = Owner.current()
    assert me.pid == os.getpid()
    assert Owner.parse(str(me)) == me
    assert Owner.of_unfinished(temporary_path(Path("clean/00007-of-9.bin")).name) == me
    assert (me.is_here, me.is_dead) == (True, False)


@pytest.mark.parametrize("text", ["", "node~1~-1~5", "node~1~12345678901~5", "no/de~1~2~3", "\x1b[31m~1~2~3", "a~b"])
def test_other_text_names_no_process(text: str) -> None:
    assert Owner.parse(text) is None


def test_a_forked_child_is_somebody_else() -> None:
    parent = Owner.current()
    if (child := os.fork()) == 0:
        os._exit(0 if Owner.current() != parent else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_process_is_dead_once_it_ended_even_before_anybody_waited_for_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    me = Owner.current()
    child = Owner(me.node, me.namespace, process.pid, stat[19])
    assert not child.is_dead
    assert Owner(me.node, me.namespace, process.pid, "1").is_dead, "its number belongs to another process by now"
    assert Owner(me.node, me.namespace, 1, "999999").is_dead, "of another user, too"
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert child.is_dead, "a zombie"
    process.communicate()
    assert child.is_dead


def test_nothing_is_known_of_another_node() -> None:
    me = Owner.current()
    for other in (Owner("elsewhere", me.namespace, 2**30, "1"), Owner(me.node, "1", 2**30, "1")):
        assert (other.is_here, other.is_dead) == (False, False)


def test_what_killed_processes_left_of_a_path_is_removed_and_nothing_else(tmp_path: Path) -> None:
    killed, mine = dead(), temporary_path(tmp_path / "a.json").name
    kept = [f"tmp-{killed}-other", mine, "tmp-a.json", "a.json", f"tmp-{killed}-a.json-b"]
    for name in [*kept, f"tmp-{killed}-a.json"]:
        (tmp_path / name).write_text("")
    (tmp_path / f"tmp-{killed}-a.json-old/inner").mkdir(parents=True)
    remove_unfinished(tmp_path / "a.json", "-old")
    assert {path.name for path in tmp_path.iterdir()} == set(kept)
    remove_unfinished(tmp_path / "none/a.json")
