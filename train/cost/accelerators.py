"""The accelerators that a cost can be asked for: memory, its bandwidth, and peak FLOP/s. Free of torch.

    peak         dense FLOP/s of matrix products in 16 bits with sums in fp32: bf16, or fp16 where a chip has no bf16
    fp32 peak    of ordinary fp32 (not TF32); None: the maker states none
    bandwidth    bytes of the chip's own memory in a second

Values are those of the makers' data sheets for the SXM parts, and of a whole TPU chip, which has two cores.
"""

import dataclasses
from typing import Literal

HalfPrecision = Literal["bf16", "fp16"]


@dataclasses.dataclass(frozen=True)
class Accelerator:
    """The limits of a chip."""

    memory_gb: float
    bandwidth: float
    peak_flops: float
    fp32_flops: float | None
    half: HalfPrecision
    """The precision of ``peak_flops``."""
    source: str


ACCELERATORS = {
    "H100": Accelerator(80, 3.35e12, 989e12, 67e12, "bf16", "NVIDIA, data sheet of H100 SXM"),
    "H200": Accelerator(141, 4.8e12, 989e12, 67e12, "bf16", "NVIDIA, data sheet of H200 SXM"),
    "A100": Accelerator(80, 2.039e12, 312e12, 19.5e12, "bf16", "NVIDIA, data sheet of A100 80GB SXM"),
    "V100": Accelerator(32, 0.9e12, 125e12, 15.7e12, "fp16", "NVIDIA, data sheet of V100 SXM2"),
    "T4": Accelerator(16, 0.32e12, 65e12, 8.1e12, "fp16", "NVIDIA, data sheet of T4"),
    "TPUv2": Accelerator(16, 0.7e12, 46e12, None, "bf16", "Jouppi et al. 2020, table 3"),
    "TPUv3": Accelerator(32, 0.9e12, 123e12, None, "bf16", "Jouppi et al. 2020, table 3"),
    "TPUv4": Accelerator(32, 1.2e12, 275e12, None, "bf16", "Jouppi et al. 2023, table 4"),
}
"""Name → chip. V100 also exists with 16 GB, A100 with 40 GB."""
