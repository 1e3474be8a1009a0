"""The cost of a training before it begins: floating-point operations, and the days they take. Free of torch.

    FLOP per token = 6 N + 12 L d T        N parameters, L layers, d width of attention, T positions
    days           = FLOP / (devices · peak FLOP/s · MFU) / 86,400

The first is PaLM's count of forward and backward pass (Chowdhery et al. 2022, appendix B): two operations for each
parameter's multiplication and addition, three such passes; and the products of queries, keys and values, counted as if
every position saw every other. In a layer with a window, T is the window with global tokens and random keys: every
position is counted as if it saw all of them. In an encoder–decoder each stack has its own N, L and T, cross-attention
is counted as attention to all positions of the encoder, and the sum is divided by these positions, which are the
tokens. A petaflop/s-day is 8.64e19 operations (Brown et al. 2020, table D.1). That table counts 6 N
alone (``parameter_flops``).
"""

import dataclasses
from typing import Literal

from headrace.train.config import ModelConfig
from headrace.train.training_config import TrainingConfig

HalfPrecision = Literal["bf16", "fp16"]


@dataclasses.dataclass(frozen=True)
class Accelerator:
    """The limits of a chip, by its maker's data sheet: SXM parts, and whole TPU chips, which have two cores."""

    memory_gb: float
    bandwidth: float
    """Bytes of its own memory in a second."""
    peak_flops: float
    """Dense FLOP/s of matrix products in 16 bits with sums in fp32."""
    fp32_flops: float | None
    """FLOP/s of ordinary fp32, not TF32; None: the maker states none."""
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


PEAK_FLOPS = {name: accelerator.peak_flops for name, accelerator in ACCELERATORS.items()}
"""Dense 16-bit FLOP/s, by a word of the device's name."""

DAY_SECONDS = 86_400
HOUR_SECONDS = 3_600
PLANNED_MFU = 0.4
"""The share of the peak with which a plan counts; 0.4 to 0.55 is usual."""


def flops_per_token(config: ModelConfig, vocabulary: int, row_tokens: int, target_tokens: int | None = None) -> float:
    """Returns the FLOP of forward and backward pass for one token, as the formula of MFU counts them.

    ``target_tokens`` are the positions of the decoder in an encoder–decoder; None: there is one stack. Shared layers
    and stacks compute as much as others.
    """
    attention = _attention_flops(config, row_tokens, target_tokens)
    return parameter_flops(config, vocabulary, row_tokens, target_tokens) + attention


def parameter_flops(config: ModelConfig, vocabulary: int, row_tokens: int, target_tokens: int | None = None) -> float:
    """Returns the part 6 N of ``flops_per_token``: no products of queries, keys and values (Kaplan et al. 2020)."""
    config = dataclasses.replace(config, shared_layers=False, shared_stacks=False)
    if target_tokens is None:
        return 6.0 * config.parameters(vocabulary)
    of_encoder = config.encoder.stack_parameters
    of_decoder = config.parameters(vocabulary) - of_encoder
    return 6.0 * (of_encoder + of_decoder * target_tokens / row_tokens)


def _attention_flops(config: ModelConfig, row_tokens: int, target_tokens: int | None) -> float:
    if target_tokens is None:
        return 12.0 * config.heads * config.head_width * config.seen_tokens(row_tokens)
    seen = config.seen_tokens(target_tokens) + config.layers * row_tokens
    of_encoder = config.encoder.seen_tokens(row_tokens)
    return 12.0 * config.heads * config.head_width * (of_encoder + seen * target_tokens / row_tokens)


def petaflop_days(flops: float) -> float:
    """Converts ``flops`` operations to petaflop/s-days."""
    return flops / (1e15 * DAY_SECONDS)


@dataclasses.dataclass(frozen=True)
class Compute:
    """The cost of all updates of a training, with every row full."""

    parameters: int
    flops_per_token: float
    parameter_flops_per_token: float
    """6 N: the part of it that the parameters cost."""
    update_tokens: int
    tokens: int

    @classmethod
    def of(
        cls,
        model: ModelConfig,
        vocabulary: int,
        row_tokens: int,
        training: TrainingConfig,
        target_tokens: int | None = None,
    ) -> "Compute":
        update_tokens = training.batch_rows * row_tokens
        return cls(
            parameters=model.parameters(vocabulary),
            flops_per_token=flops_per_token(model, vocabulary, row_tokens, target_tokens),
            parameter_flops_per_token=parameter_flops(model, vocabulary, row_tokens, target_tokens),
            update_tokens=update_tokens,
            tokens=training.rows_between(0, training.steps) * row_tokens,
        )

    @property
    def flops(self) -> float:
        return self.flops_per_token * self.tokens

    @property
    def parameter_flops(self) -> float:
        """6 N D, as papers often count: Brown et al. 2020, table D.1."""
        return self.parameter_flops_per_token * self.tokens

    def days(self, devices: int, peak_flops: float, mfu: float) -> float:
        """Returns the days on ``devices`` of ``peak_flops`` FLOP/s each, of which the share ``mfu`` is reached."""
        return self.flops / (devices * peak_flops * mfu) / DAY_SECONDS
