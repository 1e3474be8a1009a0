"""A GPU that fails ends a training with an error that says which one, and whether to run again."""

import socket

import pytest
import torch
from torch.distributed import DistBackendError

from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import ConfigError, HeadraceError, RetryableError
from headrace.train.engine.engine import Engine
from tests.train.test_weights import stage

PLACE = f"rank 0 on {socket.gethostname()}, cpu"
AGAIN = "run again to go on from the newest checkpoint; leave out this node if it fails again"


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nSee documentation"),
            ConfigError,
            f"training.micro_batch_rows: is 4, and {PLACE} ran out of memory (CUDA out of memory. Tried to allocate "
            "2.00 GiB.); lower it, or give training.recompute=selective or full, or a higher zero.stage on several "
            "GPUs; headrace plan prints what fits",
        ),
        (
            torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
            RetryableError,
            f"weights: {PLACE} failed (CUDA error: an illegal memory access was encountered); {AGAIN}",
        ),
        (
            DistBackendError("NCCL error: remote process exited\nncclRemoteError"),
            RetryableError,
            f"weights: {PLACE} failed (NCCL error: remote process exited); {AGAIN}",
        ),
    ],
    ids=["memory", "gpu", "nccl"],
)
def test_a_failed_gpu_is_named(tmp_path, inputs, run_stage, monkeypatch, raised, kind, message):
    def fail(*_):
        raise raised

    monkeypatch.setattr(Engine, "gradient", fail)
    with pytest.raises(HeadraceError) as error:
        run_stage(stage(), inputs, tmp_path / "weights")
    assert (type(error.value), str(error.value)) == (kind, message)
    named = [socket.gethostname()] if isinstance(raised, torch.AcceleratorError) else []
    assert work_log.bad_nodes(tmp_path / "weights") == named
