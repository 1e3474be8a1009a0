"""Errors of GPUs and of their network, as errors that the user, or the cluster's recovery, can act on."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import torch
from torch.distributed import DistBackendError

from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import ConfigError, RetryableError
from headrace.train.distributed.processes import Ranks
from headrace.train.training_config import Recompute, TrainingConfig


@contextlib.contextmanager
def device_errors(training: TrainingConfig, ranks: Ranks, folder: Path) -> Iterator[None]:
    """Translates errors of torch inside the block. The node of a GPU that fails is recorded below ``folder``; that of a
    rank that NCCL fails on is not, because the reason may be on any other node.

    Raises:
        ConfigError: when the memory of the GPU is not enough, which another start would not change.
        RetryableError: naming node and GPU, when the GPU or NCCL fails: a start on other nodes may succeed.
    """
    where = f"rank {ranks.rank} on {socket.gethostname()}, {ranks.device}"
    try:
        yield
    except torch.OutOfMemoryError as error:
        problem = f"is {training.micro_batch_rows}, and {where} ran out of memory ({_first_line(error)})"
        kinds = get_args(Recompute)
        less = " or ".join(kinds[kinds.index(training.recompute) + 1 :])
        recompute = f", or give training.recompute={less}" if less else ""
        remedy = f"lower it{recompute}, or a higher zero.stage on several GPUs; headrace plan prints what fits"
        raise ConfigError("training.micro_batch_rows", problem, remedy) from error
    except (torch.AcceleratorError, DistBackendError) as error:
        if isinstance(error, torch.AcceleratorError):
            work_log.add_bad_node(folder, work_log.this_node())
        remedy = "run again to go on from the newest checkpoint; leave out this node if it fails again"
        raise RetryableError("weights", f"{where} failed ({_first_line(error)})", remedy) from error


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
