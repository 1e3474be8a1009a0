import numba
import pytest

from headrace.data_prep.kernel import kernel


def add_one(value):
    return value + 1


def test_kernel_compiles():
    add = kernel(add_one)
    assert add(1) == 2
    assert add.compiled.nopython_signatures


@kernel
def inner(value):
    return value * 2


@kernel
def outer(value):
    return inner(value) + 1


def test_kernels_call_each_other():
    assert outer(3) == 7


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
        assert kernel(add_one)(1) == 2
