"""Memory for copies of the state: its buffers, and their registration with CUDA."""

import gc

import pytest
import torch
from safetensors.torch import load_file

from headrace.train.engine import fragments
from headrace.train.engine.fragments import MASTER, Fragment, HostCopy, key

SIZES = {"a": 5, "none of it": 0, "b": 3}


def shares() -> list[Fragment]:
    return [
        Fragment(name, 2, {MASTER: torch.randn(size), "exp_avg": torch.randn(size)}) for name, size in SIZES.items()
    ]


class Cuda:
    """In the place of CUDA's runtime."""

    def __init__(self, error: int) -> None:
        self.error = self.last_error = error
        self.registered: dict[int, int] = {}

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:  # noqa: N802
        if not self.error:
            self.registered[address] = size
        return self.error

    def cudaHostUnregister(self, address: int) -> None:  # noqa: N802
        del self.registered[address]

    def ones(self, *sizes: int, device: str) -> None:
        """A kernel; the check after it raises the last error and resets it (c10_cuda_check_implementation)."""
        assert (sizes, device) == ((1,), "cuda")
        error, self.last_error = self.last_error, 0
        if error:
            raise torch.AcceleratorError("CUDA error: out of memory")


@pytest.fixture(params=[0, 2])
def cuda(request, monkeypatch):
    runtime = Cuda(request.param)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch, "ones", runtime.ones)
    return runtime


def test_each_kind_has_one_buffer_of_the_size_that_is_needed_and_is_written(tmp_path):
    pieces = shares()
    memory = fragments.host_memory(pieces)
    values = {key(share, kind): each for share in pieces for kind, each in share.values.items()}
    assert memory.keys() == values.keys()
    for name, each in values.items():
        memory[name].copy_(each)
    buffers = {part.untyped_storage().data_ptr(): part.untyped_storage().nbytes() for part in memory.values()}
    assert list(buffers.values()) == [4 * sum(SIZES.values())] * 2
    HostCopy(memory, updates=1).write(tmp_path / "file")
    written = load_file(tmp_path / "file")
    assert written.keys() == values.keys()
    assert all(torch.equal(written[name], each) for name, each in values.items())


def test_a_buffer_is_registered_as_long_as_a_part_of_it_exists_or_a_line_says_that_it_is_not(cuda, capfd):
    buffer = torch.empty(1000)
    part, address = buffer[10:20], buffer.data_ptr()
    fragments.page_lock(buffer)
    del buffer
    gc.collect()
    assert cuda.registered == ({} if cuda.error else {address: 4000})
    assert not cuda.last_error, "the next kernel would raise it"
    assert ("could not be page-locked (CUDA error 2)" in capfd.readouterr().err) == bool(cuda.error)
    del part
    gc.collect()
    assert not cuda.registered
