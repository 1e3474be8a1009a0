"""Reading ahead: the same values in the same order, read while the loop is elsewhere."""

import gc
import threading
import time

import pytest

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.data.batches import Prefetch


def test_the_next_position_is_read_while_the_loop_works():
    read, second_was_read = [], threading.Event()

    def reader(position: int) -> str:
        read.append((position, threading.current_thread() is threading.main_thread()))
        if position == 8:
            second_was_read.set()
        return f"rows from {position}"

    ahead = Prefetch(reader)
    assert ahead.take(0, 8) == "rows from 0"
    assert second_was_read.wait(300)
    assert ahead.take(8, None) == "rows from 8"
    assert read == [(0, False), (8, False)]


def test_another_position_than_foretold_is_read_anew():
    ahead = Prefetch(lambda position: position)
    assert [ahead.take(position, 8) for position in (0, 24, 8, 8)] == [0, 24, 8, 8]


def test_what_a_reading_raises_comes_out_where_it_is_asked_for():
    def reader(position: int) -> int:
        if position == 8:
            raise ArtifactError("tokens/00003.bin", "is gone", "run again")
        return position

    ahead = Prefetch(reader)
    assert ahead.take(0, 8) == 0
    with pytest.raises(ArtifactError, match=r"tokens/00003.bin: is gone; run again"):
        ahead.take(8, 16)


def test_the_time_of_waiting_is_measured():
    ahead = Prefetch(lambda position: time.sleep(0.1))
    ahead.take(0, None)
    assert ahead.waited_seconds >= 0.1


def test_the_thread_ends_with_the_object():
    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]

    before = set(threads())
    ahead = Prefetch(lambda position: position)
    ahead.take(0, 8)
    (thread,) = set(threads()) - before
    del ahead
    gc.collect()
    thread.join(300)
    assert not thread.is_alive()
