import socket

import pytest
import torch

from headrace.pipeline.core.errors import ConfigError
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks, from_environment

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


def test_a_rank_without_a_gpu_of_its_own_is_refused():
    processes.check_devices(Ranks(5, 8, 1, 4), 2, "evaluation.device")
    with pytest.raises(ConfigError) as error:
        processes.check_devices(Ranks(6, 8, 2, 4), 2, "evaluation.device")
    assert str(error.value) == (
        f"evaluation.device: rank 6 is number 2 on {socket.gethostname()}, which has 2 GPUs;"
        " start as many ranks on a machine as it has GPUs"
    )
