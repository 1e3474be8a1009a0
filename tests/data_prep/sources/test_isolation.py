"""Pages that crash, never end, take all memory or raise, and killed readers: what comes back, and what comes next."""

import os
import signal
import tempfile
import time

import pytest

from headrace.data_prep.document import Drop
from headrace.data_prep.sources import isolation
from headrace.data_prep.sources.isolation import isolated, supervised
from headrace.data_prep.sources.other_extractors import extract_with
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
def least_time(monkeypatch):
    """Limits a call to the rest of the second of CPU time that its process has begun: the least that can be set."""
    monkeypatch.setattr(isolation, "CPU_SECONDS", 0)


def read(functions, texts) -> list[tuple[int, str | Drop]]:
    """The records of a reading that calls each of ``functions`` with its text, and the process that made each."""
    return list(
        supervised(lambda: ((os.getpid(), isolated(f, text)) for f, text in zip(functions, texts, strict=True)))
    )


def test_results_come_back_in_order_from_one_process():
    texts = ("a", "b\ud800", "c" * 1_000_000, *map(str, range(1000)))
    found = read([shout] * len(texts), texts)
    assert [text for _, text in found] == [text.upper() for text in texts]
    assert len({process for process, _ in found}) == 1
    assert found[0][0] != os.getpid()


def test_a_page_that_ends_the_reader_costs_its_neighbours_nothing(least_time):
    """Each record comes once, in order, although two readers died."""
    functions = [shout, shout, crash, shout, spin, hoard, shout]
    found = read(functions, "abcdefg")
    assert [text for _, text in found] == [
        "A", "B", Drop("crashed", "SIGSEGV"), "D", Drop("too_slow", "more than 0 s of CPU time"),
        Drop("too_much_memory", f"more than {isolation.MEMORY_BYTES} bytes"), "G",
    ]  # fmt: skip


def test_what_was_received_is_not_computed_again(monkeypatch, tmp_path):
    """The next reader only passes over it."""
    monkeypatch.setattr(isolation, "BATCH_BYTES", 1)
    functions = [count, count, crash, count]
    assert [text for _, text in read(functions, [str(tmp_path)] * 4)] == [
        str(tmp_path), str(tmp_path), Drop("crashed", "SIGSEGV"), str(tmp_path),
    ]  # fmt: skip
    assert len(list(tmp_path.iterdir())) == 3


def count(folder: str) -> str:
    tempfile.mkstemp(dir=folder)
    return folder


def test_the_second_call_of_a_record_is_dropped_alone():
    """A record may call several functions: the page that ends the second one keeps the result of the first."""
    records = lambda: ((isolated(shout, text), isolated(crash if text == "b" else shout, text)) for text in "abc")  # noqa: E731
    assert list(supervised(records)) == [("A", "A"), ("B", Drop("crashed", "SIGSEGV")), ("C", "C")]


def test_an_error_of_reading_is_raised_after_the_records_before_it(monkeypatch):
    monkeypatch.setattr(isolation, "BATCH_BYTES", 1)

    def records():
        yield isolated(shout, "a")
        raise RetryableError("a.warc", "has changed", "run again")

    reading = supervised(records)
    assert next(reading) == "A"
    with pytest.raises(RetryableError, match=r"^a\.warc: has changed; run again$"):
        next(reading)


def test_a_reading_that_is_not_finished_leaves_no_process():
    reading = supervised(lambda: ((os.getpid(), isolated(shout, text * 1000)) for text in "x" * 10_000))
    process, _ = next(reading)
    reading.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_crash_outside_of_the_extractor_is_an_error():
    with pytest.raises(TaskError) as error:
        list(supervised(lambda: (crash(text) for text in "a")))
    assert str(error.value) == (
        "extraction: reading ended with SIGSEGV, outside of the extractor; run again; if it happens again, remove the "
        "file that causes it"
    )


def test_a_call_without_end_is_a_reason_and_each_call_has_its_own_time(least_time):
    assert isolated(spin, "x") == Drop("too_slow", "more than 0 s of CPU time")
    for _ in range(2):
        assert isolated(burn, "0.6") == "done"


def burn(seconds: str) -> str:
    end = time.process_time() + float(seconds)
    while time.process_time() < end:
        pass
    return "done"


def test_an_error_of_the_function_is_an_error_of_the_task():
    with pytest.raises(TaskError) as error:
        isolated(fail, "x")
    assert str(error.value) == (
        "extraction: reading ended with an error, exit status 1; see the phase's log for its traceback"
    )
    assert isolated(shout, "a") == "A"


def test_who_is_killed_by_somebody_else_begins_again(tmp_path):
    assert isolated(killed, str(tmp_path / "once")) == "second time"
    with pytest.raises(
        RetryableError, match=r"^extraction: its process was killed 3 times; run again with fewer workers$"
    ):
        isolated(killed_always, "x")


def test_an_answer_that_never_comes_is_no_fault_of_the_text(monkeypatch, tmp_path):
    monkeypatch.setattr(isolation, "IDLE_SECONDS", 0.5)
    assert isolated(sleep_once, str(tmp_path / "once")) == "second time"


def sleep_once(path: str) -> str:
    if os.path.exists(path):
        return "second time"
    with open(path, "w", encoding="utf-8"):
        time.sleep(60)
    return "never"


@pytest.mark.parametrize("page", ["<div></span>" * 100_000, "<p>" + "".join(f"<b c={i}>x</i>" for i in range(60_000))])
def test_pages_whose_real_depth_does_not_show(least_time, page):
    """Every tag seems to be closed. Read in the worker these would take hours."""
    assert extract_with("resiliparse", page) == Drop("too_slow", "more than 0 s of CPU time")
    assert extract_with("resiliparse", "<p>next page") == "next page"
