"""The GPUs that a plan or a budget is for, as options of a command give them."""

import dataclasses
from typing import Annotated

from pydantic import Field

from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import Positive, PositiveNumber, value_of
from headrace.train.cost.flops import PEAK_FLOPS

Utilization = Annotated[float, Field(gt=0, le=1)]


@dataclasses.dataclass(frozen=True)
class Hardware:
    """The GPUs that a training will run on."""

    gpus: int = 1
    gpu: str = "H100"
    mfu: float = 0.4
    """Share of the peak that is reached; 0.4 to 0.55 is usual."""
    memory_gb: float = 80.0

    @classmethod
    def of(cls, gpus: str, gpu: str, mfu: str, memory_gb: str) -> "Hardware":
        """Reads command-line arguments; an empty one takes the default.

        Raises:
            ConfigError: naming the option that is not a number, or is out of range.
        """
        if gpu and gpu not in PEAK_FLOPS:
            raise ConfigError("--gpu", f"unknown GPU {gpu!r}", suggestion(gpu, PEAK_FLOPS))
        return cls(
            gpus=value_of(Positive, gpus, "--gpus") if gpus else cls.gpus,
            gpu=gpu or cls.gpu,
            mfu=value_of(Utilization, mfu, "--mfu") if mfu else cls.mfu,
            memory_gb=value_of(PositiveNumber, memory_gb, "--gpu-memory-gb") if memory_gb else cls.memory_gb,
        )
