"""The GPUs that a plan or a budget is for, as options of a command give them."""

import dataclasses
from typing import Annotated

from pydantic import Field

from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import Positive, PositiveNumber, value_of
from headrace.train.cost.accelerators import ACCELERATORS, Accelerator

Utilization = Annotated[float, Field(gt=0, le=1)]
HOUR_SECONDS = 3_600


@dataclasses.dataclass(frozen=True)
class Hardware:
    """The GPUs that a training will run on."""

    gpus: int = 1
    gpu: str = "H100"
    mfu: float = 0.4
    """Share of the peak that is reached; 0.4 to 0.55 is usual."""
    memory_gb: float = 80.0
    price: float | None = None
    """The price of one GPU for an hour, in any currency; None: not asked."""

    @classmethod
    def of(cls, gpus: str, gpu: str, mfu: str, memory_gb: str, price: str = "") -> "Hardware":
        """Reads command-line arguments; an empty one takes the default, of the memory that of the GPU.

        Raises:
            ConfigError: naming the option that is not a number, or is out of range.
        """
        if gpu and gpu not in ACCELERATORS:
            raise ConfigError("--gpu", f"unknown GPU {gpu!r}", suggestion(gpu, ACCELERATORS))
        memory = ACCELERATORS[gpu or cls.gpu].memory_gb
        return cls(
            gpus=value_of(Positive, gpus, "--gpus") if gpus else cls.gpus,
            gpu=gpu or cls.gpu,
            mfu=value_of(Utilization, mfu, "--mfu") if mfu else cls.mfu,
            memory_gb=value_of(PositiveNumber, memory_gb, "--gpu-memory-gb") if memory_gb else memory,
            price=value_of(PositiveNumber, price, "--price") if price else None,
        )

    @property
    def accelerator(self) -> Accelerator:
        """The limits of one GPU."""
        return ACCELERATORS[self.gpu]

    def hours(self, flops: float) -> float:
        """Returns the GPU-hours of ``flops`` operations, summed over all GPUs."""
        return flops / (self.accelerator.peak_flops * self.mfu) / HOUR_SECONDS


def money(amount: float) -> str:
    """Returns an amount of money: whole from 100 on, else to three digits."""
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:,.3g}"
