"""The garbage collector during imports."""

import gc

import pytest

from headrace.pipeline.core.imports import loading, uncollected


def test_the_collector_is_off_inside_and_on_again_afterwards() -> None:
    def fail() -> None:
        with uncollected():
            assert not gc.isenabled()
            raise ImportError

    with pytest.raises(ImportError):
        fail()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_was_loaded_is_searched_no_more() -> None:
    loaded: list[object] = []
    with loading():
        assert not gc.isenabled()
        loaded.append(loaded)
    assert gc.isenabled()
    assert not any(one is loaded for one in gc.get_objects())
