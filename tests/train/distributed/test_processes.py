import socket

import pytest
import torch
import torch.distributed as dist
from torch.distributed import DistBackendError

from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import ConfigError, HeadraceError, RetryableError
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks, from_environment
from headrace.train.engine.engine import Engine
from tests.train.test_weights import stage

MEETING = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29400"}
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environment", "ranks"),
    [
        ({}, Ranks(0, 1, 0, 1)),
        (TORCHRUN | MEETING, Ranks(1, 2, 1, 2)),
    ],
    ids=["alone", "torchrun"],
)
def test_ranks_come_from_the_launcher(environment, ranks):
    assert from_environment(environment) == ranks


def test_ranks_that_cannot_meet_are_refused():
    with pytest.raises(ConfigError) as error:
        from_environment(TORCHRUN | {"WORLD_SIZE": "8"})
    assert (
        str(error.value) == "weights: 8 ranks and no MASTER_ADDR and MASTER_PORT; launch with torchrun, or export both"
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_a_gpu_is_refused():
    with pytest.raises(ConfigError) as error:
        processes.start("cuda")
    assert str(error.value) == "training.device: is 'cuda', but torch finds no GPU; give auto or cpu"


def test_a_rank_takes_the_gpu_of_its_number_or_the_only_one_that_it_sees():
    assert processes.device_index(Ranks(5, 8, 1, 4), 4, "training.device") == 1
    assert processes.device_index(Ranks(5, 8, 1, 4), 1, "training.device") == 0


def test_a_rank_without_a_gpu_of_its_own_is_refused():
    with pytest.raises(ConfigError) as error:
        processes.device_index(Ranks(6, 8, 2, 4), 2, "evaluation.device")
    assert str(error.value) == (
        f"evaluation.device: rank 6 is number 2 on {socket.gethostname()}, which has 2 GPUs;"
        " start as many ranks on a machine as it has GPUs"
    )


def test_two_ranks_that_see_one_gpu_are_refused():
    store = dist.HashStore()
    for rank, uuid in ((0, "GPU-a"), (1, "GPU-b"), (0, "GPU-a")):
        processes.claim_device(Ranks(rank, 3, rank, 3), uuid, store, "training.device")
    with pytest.raises(ConfigError) as error:
        processes.claim_device(Ranks(2, 3, 2, 3), "GPU-b", store, "training.device")
    assert str(error.value) == (
        f"training.device: ranks 1 and 2 share the GPU GPU-b of {socket.gethostname()};"
        " start as many ranks on a machine as it has GPUs, each with one of its own"
    )


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
