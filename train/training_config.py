"""The settings of training. This module imports no torch, so that the pipeline can read them anywhere.

    group       class            decides
    model       ModelConfig      the shape of the Transformer: train/config.py
    training    TrainingConfig   steps, batch size, precision, logging and saving
    zero        ZeroConfig       the division of the training state over the ranks
    optimizer   AnyOptimizer     the update from a gradient: train/engine/optimizers
    schedule    Schedule         the learning rate of each step: train/loop/schedule.py

Fields marked ``unhashed`` determine how a result is computed, not the result, and are not in the address.
"""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import (
    LARGEST,
    FilePath,
    Natural,
    Positive,
    PositiveNumber,
    Seed,
    TextList,
    by_content,
    settings,
    unhashed,
)

BRANCH_POINT = re.compile(r"[^@\s]+(@[0-9]{1,18})?")


def _branch_point(value: str) -> str:
    if not BRANCH_POINT.fullmatch(value):
        raise ValueError("must be RUN@STEP, or RUN alone")
    return value


AttentionKernel = Literal["auto", "flash"]
"""The kernel of fused attention; train/model/attention.py."""
Recompute = Literal["none", "selective", "full"]
"""Activations that are computed again; each keeps less than the one before and takes longer."""
BranchPoint = Annotated[str, AfterValidator(_branch_point)]
"""A run, or the address of weights, and a step: ``small@600``."""

HANG_SECONDS = 1800.0
"""The limit for what is not measured yet, or takes longer than an update."""


@settings
class TrainingConfig:
    """The length of training, its batch size, precision, validation, logging and checkpoints."""

    steps: Positive
    """The number of updates of the weights."""
    batch_rows: Positive
    """Packed rows of one update, summed over all ranks."""
    ramp_steps: Natural = 0
    """The number of first updates in which the batch grows, in equal jumps, to ``batch_rows`` (Brown et al. 2020,
    section 2.1: from 32,000 tokens, over the first 4 to 12 billion); 0: none."""
    ramp_first_rows: Positive | None = None
    """Rows of the first update and of each jump, with ``ramp_steps``; a divisor of ``batch_rows``."""
    micro_batch_rows: Positive = unhashed(8)
    """The maximum number of rows in a micro-batch of one rank; lower it when memory is short."""
    precision: Literal["fp32", "bf16", "fp16"] = "bf16"
    """Precision of the model's arithmetic; master weights and optimizer states are fp32 in all. fp16 scales the loss
    and leaves out an update whose gradient overflows."""
    gradient_sums: Literal["precision", "fp32"] = "precision"
    """Precision in which gradients of micro-batches and ranks are added: that of the arithmetic, or fp32, which takes 2
    to 4 bytes more a parameter and sends twice as many between ranks."""
    gradient_clip: PositiveNumber | None = 1.0
    """The maximum norm of the gradient; null: no clipping."""
    initial_weights: FilePath | None = by_content(None)
    """Folder of a Hugging Face model, of a family in train/families, whose weights training begins from; null: random
    weights. The result depends on its content, not on its path."""
    branch_from: BranchPoint | None = None
    """The checkpoint of another run below the same root that training goes on from, with its optimizer state and its
    position in the data: RUN@STEP, or RUN for the last step of a finished training. Steps are counted on. From there on
    all settings may differ but the model, the kind of optimizer and the tokenizer (docs/training.md). null: none."""
    seed: Seed = 0
    """Determines the random initial weights, the order of rows and dropout."""
    unique_rows: Positive | None = None
    """The number of rows to train on, again and again until the last step: those that the training would read first.
    The metric ``epoch`` counts how often; null: all rows."""
    validate_every: Positive = 250
    """Steps between two validations on held-out rows; there is always one after the last step."""
    validation_rows: Natural = 256
    """The maximum number of held-out rows, beginning with the first; 0: no validation."""
    seen_rows: Natural = 0
    """The maximum number of training rows, those that were read first, whose loss is computed as that of held-out rows
    are: ``seen_loss``, and how much higher the validation loss is, ``loss_gap``; 0: none."""
    source_rows: Natural = 0
    """The maximum number of held-out rows of each source of the mixture, beginning with the first, whose loss is
    computed wherever the training validates: ``source_loss:<source>``; 0: none."""
    evaluate_every: Positive | None = unhashed(None)
    """Steps between two scorings of benchmarks of ``evaluation``, with one after the last step; null: never."""
    evaluate: TextList = unhashed(())
    """Names of the benchmarks to score during training; empty: all."""
    evaluate_items: Positive | None = unhashed(100)
    """The maximum number of items of each benchmark; null: the number in its own settings."""
    save_every: Positive = unhashed(500)
    """Steps between two checkpoints; also after the last step and multiples of ``keep_every``."""
    log_every: Positive = unhashed(1)
    """Steps between two rows of metrics.jsonl."""
    keep_last: Positive = unhashed(2)
    """The number of newest checkpoints that are kept."""
    keep_every: Positive | None = unhashed(None)
    """There is a checkpoint of each step that is a multiple of this, and it is never removed; null: none."""
    spike_sigma: PositiveNumber | None = None
    """The update of a step is skipped when its loss is more than this many standard deviations above the mean of the
    steps before it (6 in OLMo-core); null: never."""
    spike_window_steps: Annotated[int, Field(ge=4, le=LARGEST)] = 128
    """The number of earlier steps that the mean is taken of; detection begins after half as many."""
    spike_rollback_every: Positive | None = None
    """A spike restores the checkpoint of the last step that is a multiple of this number, so the updates since then are
    skipped too. That checkpoint is kept until it is not needed. null, or before the first such step: only the update of
    the spike is skipped."""
    hang_seconds: PositiveNumber | None = unhashed(None)
    """The limit for one step. After it every rank prints its stacks and ends, and the run can be started again. null:
    for an update, 20 times the median one, and at least 3 minutes; half an hour for the first ones, for those in which
    the batch grows, and for validation, scoring and copies of the state after an update."""
    save_hang_seconds: PositiveNumber = unhashed(1800.0)
    """The same limit for the time that training waits for a checkpoint to be written, which is no part of a step."""
    sequence_ranks: Positive = unhashed(1)
    """The number of neighbouring ranks that compute each row together, each a part of its positions, and exchange heads
    for attention (Ulysses, Jacobs et al. 2023): for long rows. It divides the ranks, ``model.heads`` and the row."""
    device: Literal["auto", "cpu", "cuda"] = unhashed("auto")
    """auto: CUDA if it is available."""
    compile: Literal["auto", "on", "off", "tuned"] = unhashed("auto")
    """Compilation of each layer to one graph of fused kernels (torch.compile); auto: only on a GPU. tuned: on, with the
    kernels that are the fastest in trials, which take minutes at each start. Another start may choose others, so the
    last bits of a resumed training may differ from those of one that was not interrupted."""
    attention_kernel: AttentionKernel = unhashed("auto")
    """The kernel of attention in packed rows on a GPU. auto: that of FlexAttention; flash: FlashAttention 4, which
    needs a GPU, the package flash-attn-4, and a model without dropout and without a learned bias of positions."""
    pad_vocabulary: Literal["auto", "on", "off"] = unhashed("auto")
    """Padding of the output layer's matrix products to a multiple of 128 tokens, which are faster on a GPU; auto: only
    there. Weights, checkpoints and exports have no padding, and a padding token has no probability."""
    recompute: Recompute = unhashed("none")
    """Activations inside the layers that the backward pass computes again instead of keeping them: none; selective: all
    but the results of matrix products and of fused attention; full: all, which takes about a third more time. The bits
    are the same."""

    def __post_init__(self) -> None:
        if self.branch_from is not None and self.initial_weights is not None:
            problem = f"is {self.branch_from}, and initial_weights is {self.initial_weights}"
            raise ConfigError("training.branch_from", problem, "give one of them, or none")
        if self.spike_rollback_every is not None and self.spike_sigma is None:
            problem = f"is {self.spike_rollback_every}, and spike_sigma is null: no spikes"
            raise ConfigError("training.spike_rollback_every", problem, "give a spike_sigma, or null")
        if bool(self.ramp_steps) != (self.ramp_first_rows is not None):
            problem = f"is {self.ramp_first_rows or 'null'}, and ramp_steps is {self.ramp_steps}"
            raise ConfigError("training.ramp_first_rows", problem, "give both, or none")
        if self.batch_rows % (self.ramp_first_rows or 1):
            problem = f"is {self.ramp_first_rows}, and batch_rows={self.batch_rows} is no multiple of it"
            raise ConfigError("training.ramp_first_rows", problem, "give a divisor")

    def rows_at(self, step: int) -> int:
        """Returns the rows of the update after ``step`` updates, summed over all ranks."""
        if self.ramp_first_rows is None or step >= self.ramp_steps:
            return self.batch_rows
        jumps = self.batch_rows // self.ramp_first_rows - 1
        return self.ramp_first_rows * (1 + jumps * step // self.ramp_steps)

    def rows_between(self, first: int, last: int) -> int:
        """Returns the rows of the updates from step ``first`` to step ``last``."""
        ramp_end = min(last, max(first, self.ramp_steps))
        return sum(map(self.rows_at, range(first, ramp_end))) + (last - ramp_end) * self.batch_rows

    @property
    def longest_wait_seconds(self) -> float:
        """The longest time that the watchdog lets a rank wait for the others."""
        return max(self.hang_seconds or HANG_SECONDS, self.save_hang_seconds)

    def saves_at(self, step: int) -> bool:
        """Whether a checkpoint is saved after ``step``: a regular one, one to keep or to roll back to, or the last."""
        return step == self.steps or any(step % period == 0 for period in self.save_periods)

    @property
    def save_periods(self) -> set[int]:
        """The numbers of steps after whose multiples a checkpoint is saved."""
        return {self.save_every, self.keep_every or self.save_every, self.spike_rollback_every or self.save_every}

    def evaluates_at(self, step: int) -> bool:
        """Whether benchmarks are scored after ``step``."""
        return self.evaluate_every is not None and (step == self.steps or step % self.evaluate_every == 0)

    def compiles_on(self, device: str) -> bool:
        """Whether to compile for a ``device`` of this type."""
        return self.compile in ("on", "tuned") or (self.compile == "auto" and device == "cuda")

    def pads_on(self, device: str) -> bool:
        """Whether the output layer pads its vocabulary on a ``device`` of this type."""
        return self.pad_vocabulary == "on" or (self.pad_vocabulary == "auto" and device == "cuda")


@settings
class ZeroConfig:
    """The division of the training state over the ranks by DeepSpeed's ZeRO (Rajbhandari et al. 2020)."""

    stage: Literal["auto", 0, 1, 2, 3] = "auto"
    """0: every rank holds everything; 1: optimizer states are divided; 2: gradients too; 3: parameters too; auto: 1, or
    0 on a single rank in fp32 without ``offload``, where nothing can be divided and the copies for it would only cost
    time."""
    bucket_elements: Positive = 50_000_000
    """The number of values in one message between ranks."""
    overlap: bool = False
    """Whether gradients are sent while the backward pass goes on, from a second buffer of ``bucket_elements``."""
    offload: Literal["none", "optimizer"] = "none"
    """State that is kept in the memory of the CPU instead of the GPU's. optimizer: master weights and optimizer states,
    and the CPU computes the update (ZeRO-Offload, Ren et al. 2021); at stages 1 to 3, with ``optimizer=adamw``."""
