import numba
import pytest

from headrace.data_prep.kernel import kernel


def add_one(value):
    return value + 1


def test_kernel_compiles():
    compiled = kernel(add_one)
    assert compiled(1) == 2
    assert compiled.nopython_signatures


def test_without_a_writable_cache_it_compiles_in_memory(monkeypatch):
    njit = numba.njit

    def without_cache(function, cache=False):
        if cache:
            raise RuntimeError("cannot cache function 'add_one': no locator available")
        return njit(function)

    monkeypatch.setattr(numba, "njit", without_cache)
    with pytest.warns(
        RuntimeWarning, match=r"^no writable folder for numba's cache: add_one is compiled in every process$"
    ):
        compiled = kernel(add_one)
    assert compiled(1) == 2
