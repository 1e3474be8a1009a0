"""Calls that crash, never end, take all memory, raise, or are killed: what comes back, and that the next one works."""

import os
import signal
import time

import pytest

from headrace.data_prep.document import Drop
from headrace.data_prep.sources import isolation
from headrace.data_prep.sources.extraction import extract
from headrace.data_prep.sources.isolation import isolated
from headrace.pipeline.core.errors import RetryableError, TaskError


def shout(text: str) -> str:
    return text.upper()


def crash(text: str) -> str:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)
    return text


def spin(text: str) -> str:
    while True:
        text.upper()


def hoard(text: str) -> str:
    return str(len(bytearray(isolation.MEMORY_BYTES + (1 << 30))))


def fail(text: str) -> str:
    raise KeyError(text)


def killed(path: str) -> str:
    """Kills this process unless ``path`` records that this was done before."""
    if os.path.exists(path):
        return "second time"
    with open(path, "w", encoding="utf-8"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def killed_always(text: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return text


@pytest.fixture
def one_second(monkeypatch):
    """Isolated processes that have one second of CPU time for a call."""
    monkeypatch.setattr(isolation, "CPU_SECONDS", 1)
    monkeypatch.setattr(isolation, "_current", [])


def test_results_come_back_and_the_process_stays():
    assert [isolated(shout, text) for text in ("a", "b\ud800", "c" * 1_000_000)] == ["A", "B\ud800", "C" * 1_000_000]
    [process] = isolation._current
    isolated(shout, "d")
    assert isolation._current == [process]


def test_a_crash_is_a_reason_and_the_next_call_works():
    assert isolated(crash, "x") == Drop("crashed", "SIGSEGV")
    assert isolated(shout, "a") == "A"


def test_a_call_without_end_is_a_reason_and_each_call_has_its_own_time(one_second):
    assert isolated(spin, "x") == Drop("too_slow", "more than 1 s of CPU time")
    for _ in range(3):
        assert isolated(burn, "0.6") == "done"


def burn(seconds: str) -> str:
    end = time.process_time() + float(seconds)
    while time.process_time() < end:
        pass
    return "done"


def test_too_much_memory_is_a_reason():
    assert isolated(hoard, "x") == Drop("too_much_memory", f"more than {isolation.MEMORY_BYTES} bytes")
    assert isolated(shout, "a") == "A"


def test_an_error_of_the_function_is_an_error_of_the_task():
    with pytest.raises(TaskError) as error:
        isolated(fail, "x")
    assert str(error.value) == (
        "extraction: fail ended with an error, exit status 1; see the phase's log for its traceback"
    )
    assert isolated(shout, "a") == "A"


def test_who_is_killed_by_somebody_else_begins_again(tmp_path):
    assert isolated(killed, str(tmp_path / "once")) == "second time"
    with pytest.raises(
        RetryableError, match=r"^extraction: its process was killed 3 times; run again with fewer workers$"
    ):
        isolated(killed_always, "x")


def test_an_answer_that_never_comes_is_no_fault_of_the_text(monkeypatch, tmp_path):
    monkeypatch.setattr(isolation, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(isolation, "_current", [])
    assert isolated(sleep_once, str(tmp_path / "once")) == "second time"


def sleep_once(path: str) -> str:
    if os.path.exists(path):
        return "second time"
    with open(path, "w", encoding="utf-8"):
        time.sleep(60)
    return "never"


def test_a_forked_process_has_its_own(tmp_path):
    isolated(shout, "a")
    [parents] = isolation._current
    child = os.fork()
    if child == 0:
        answer = isolated(shout, "b")
        os._exit(0 if answer == "B" and isolation._current != [parents] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert isolated(shout, "c") == "C"
    assert isolation._current == [parents]


@pytest.mark.parametrize("page", ["<div></span>" * 100_000, "<p>" + "".join(f"<b c={i}>x</i>" for i in range(60_000))])
def test_pages_whose_real_depth_does_not_show(one_second, page):
    """Every tag seems to be closed. Read in the worker these would take hours."""
    assert extract(page, "resiliparse") == Drop("too_slow", "more than 1 s of CPU time")
    assert extract("<p>next page", "resiliparse") == "next page"
