"""DeepSpeed, and nothing else of it elsewhere: one update from micro-batches, its state, whole weights.

The loss of an update is the mean over the target tokens of the whole global batch, however they are spread over
micro-batches and ranks. DeepSpeed divides each micro-batch's loss by their number and averages gradients over ranks,
which is right only when all hold equally many targets; so each micro-batch's sum of NLL goes in as

    sum · accumulation · world / targets of the global batch

and both divisions cancel. The learning rate is set before each update; DeepSpeed's schedulers are not used.
"""

import contextlib
import logging
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("DEEPSPEED_LOG_LEVEL", "warning")

import deepspeed
import torch
from deepspeed.utils import safe_get_full_fp32_param
from torch import Tensor, nn

from headrace.pipeline.core.errors import TaskError
from headrace.train.config import TrainingConfig, ZeroConfig
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.engine import fragments, optimizers, partitions, zero
from headrace.train.engine.fragments import Fragment, Snapshot
from headrace.train.engine.optimizers import Optimizer
from headrace.train.objectives.causal import DeviceBatch

Objective = Callable[[nn.Module, DeviceBatch], Tensor]
"""(model, batch) -> the sum of NLL over the batch's targets."""


def _no_shared_memory_kernel() -> None:
    """Stands in for DeepSpeed's ``build_shm_op``, which compiles C++ for half a minute at the first start on a CPU."""
    return None


@contextlib.contextmanager
def _launcher_variables(ranks: Ranks) -> Iterator[None]:
    """What DeepSpeed reads from the environment; it would ask MPI otherwise. Stage 3 reads LOCAL_RANK later, too."""
    os.environ.setdefault("LOCAL_RANK", str(ranks.local_rank))
    variables = {"RANK": ranks.rank, "WORLD_SIZE": ranks.world}
    added = {name: str(value) for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@contextlib.contextmanager
def _linear_layers(function: Callable[..., Tensor]) -> Iterator[None]:
    """Linear layers compute with ``function``; afterwards as before.

    DeepSpeed's stage 3 replaces torch's function for good and for the whole process, by one that rounds otherwise.
    """
    before = nn.functional.linear
    nn.functional.linear = function
    try:
        yield
    finally:
        nn.functional.linear = before


class Engine:
    """A model, its optimizer, and the ranks that share them."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        training: TrainingConfig,
        zeroing: ZeroConfig,
        ranks: Ranks,
    ) -> None:
        """Spread ``model`` over ``ranks``; every rank passes the same weights.

        Raises:
            ConfigError: when the settings do not fit the number of ranks or each other.
        """
        self.plan = zero.plan_batches(training, ranks.world)
        self.ranks = ranks
        self._optimizer = optimizer
        self._clip = training.gradient_clip or math.inf
        self._stage = zero.stage_on(ranks.world, training, zeroing)
        self._host: dict[str, Tensor] = {}
        config = zero.deepspeed_config(self.plan, training, zeroing)
        first: dict[str, Tensor] = {}
        if training.precision == "bf16":
            first = {name: value.detach() for name, value in model.named_parameters()}  # DeepSpeed gives them others
        # `import deepspeed.comm.torch` binds another module of that name.
        sys.modules["deepspeed.comm.torch"].build_shm_op = _no_shared_memory_kernel  # type: ignore[attr-defined]
        logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
        with _launcher_variables(ranks), _linear_layers(nn.functional.linear):
            self._engine: Any = deepspeed.initialize(
                model=model, optimizer=optimizers.build(model, optimizer), config=config
            )[0]
            self._linear = nn.functional.linear
        if self._stage == 0 and ranks.world == 1:
            self._engine.enable_backward_allreduce = False  # it copies all gradients, and sends them to nobody
        processes.wait_equally()
        if first:
            partitions.restore_master_weights(self._engine, self._stage, ranks.rank, first)

    def update(
        self, objective: Objective, batches: Sequence[DeviceBatch], targets: float, learning_rate: float
    ) -> tuple[float, float]:
        """One update from this rank's micro-batches: ``gradient``, then ``step``.

        Returns:
            What each of them returns.
        """
        nll = self.gradient(objective, batches, targets)
        return nll, self.step(learning_rate)

    def gradient(self, objective: Objective, batches: Sequence[DeviceBatch], targets: float) -> float:
        """The gradient of the next ``step``.

        Args:
            objective: the sum of NLL of a batch.
            batches: this rank's share, ``plan.accumulation`` of them.
            targets: number of target tokens in the shares of all ranks.

        Returns:
            This rank's sum of NLL in nats.
        """
        self._engine.train()
        scale = self.plan.accumulation * self.plan.world / targets
        nll = torch.zeros((), dtype=torch.float64, device=self.ranks.device)
        for number, batch in enumerate(batches):
            if number:
                self._engine.step()  # counts the micro-batch before; the last one's is the update
            with _linear_layers(self._linear):
                loss = objective(self._engine, batch)
            nll += loss.detach()
            self._engine.backward(loss * scale)
        return float(nll)

    def step(self, learning_rate: float, applied: bool = True) -> float:
        """The update that ``gradient`` was for; one that is not ``applied`` leaves the weights and AdamW's state alone.

        Returns:
            The norm of the whole gradient before it was clipped.

        Raises:
            TaskError: when the gradient is not finite; the weights are then of no use.
        """
        optimizers.set_learning_rate(self._engine.optimizer, learning_rate)
        built = partitions.torch_optimizer(self._engine, self._stage)
        with contextlib.nullcontext() if applied else optimizers.skip_step(built):
            norm = self._step()
        if not math.isfinite(norm) or not self._engine.was_step_applied():
            raise TaskError(
                "weights", f"the gradient's norm is {norm}", "lower the learning rate or lengthen the warm-up"
            )
        return norm

    def _step(self) -> float:
        norm = math.nan
        if self._stage == 0:
            norm = float(nn.utils.clip_grad_norm_(self._engine.module.parameters(), self._clip))
        self._engine.step()
        return norm if self._stage == 0 else float(self._engine.get_global_grad_norm())

    @torch.no_grad()
    def evaluate(self, objective: Objective, batch: DeviceBatch) -> float:
        """The sum of NLL of ``batch`` in nats. All ranks must call it equally often."""
        self._engine.eval()
        with _linear_layers(self._linear):
            return float(objective(self._engine, batch))

    def fragments(self) -> Iterator[Fragment]:
        """What this rank holds of the state, alive."""
        return partitions.fragments(self._engine, self._stage, self.ranks.rank, self._optimizer)

    def snapshot(self) -> Snapshot:
        """This rank's share of the state, copied to host memory that the next call overwrites (12 bytes a value)."""
        for fragment in self.fragments():
            mine = fragment if self._stage else fragment.share(self.ranks.rank, self.ranks.world)
            for kind, values in mine.values.items():
                name = fragments.key(mine, kind)
                if name not in self._host:
                    self._host[name] = torch.empty_like(values, device="cpu", pin_memory=values.is_cuda)
                self._host[name].copy_(values, non_blocking=True)
        if self.ranks.device.type == "cuda":
            torch.cuda.synchronize(self.ranks.device)
        return Snapshot(self._host, partitions.updates(self._engine, self._stage))

    def load(self, files: Sequence[Path]) -> None:
        """Take up the state that any number of ranks of any ZeRO stage wrote to ``files``; all ranks call it."""
        partitions.master_weights_changed(self._engine, self._stage, fragments.read(files, self.fragments()))

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Name and whole fp32 value on the CPU of every parameter, tied ones once; all ranks iterate in step."""
        for name, parameter in self._engine.module.named_parameters():
            whole = parameter.detach() if self._stage == 0 else safe_get_full_fp32_param(parameter)
            yield name, whole.float().cpu().reshape(getattr(parameter, "ds_shape", parameter.shape)).clone()
