"""The engine, by DeepSpeed: an update from micro-batches, the state of training, whole weights.

The loss of an update is the sum over the objective's terms of weight · sum / count, where sum and count are those of
the whole global batch, however it is divided into micro-batches and ranks. DeepSpeed divides each micro-batch's loss by
their number and averages gradients over ranks, which is right only if all have the same count. So each micro-batch's
sum goes in as

    weight · sum · accumulation · world / count of the global batch

and both divisions cancel. The learning rate is set before each update; DeepSpeed's schedulers are not used.
"""

import contextlib
import functools
import logging
import math
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import deepspeed
import torch
import torch._dynamo
from deepspeed.accelerator import get_accelerator
from deepspeed.runtime.zero import linear as of_stage_3
from deepspeed.runtime.zero.utils import is_zero_param
from deepspeed.utils import safe_get_full_fp32_param, set_z3_leaf_module
from torch import Tensor, nn

from headrace.pipeline.core.errors import TaskError
from headrace.pipeline.core.extras import uncollected
from headrace.train.data.batches import Tensors
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.engine import fragments, partitions, zero
from headrace.train.engine.by_parameter import ByParameter, build
from headrace.train.engine.fragments import Fragment, HostCopy, host_memory
from headrace.train.engine.optimizers.base import Optimizer, average_weights, set_learning_rate, skip_step
from headrace.train.engine.zero import LossScale
from headrace.train.model.execution import give_row_keys, share_rows
from headrace.train.model.head import Head
from headrace.train.model.roles import roles, shape_of
from headrace.train.model.row_parts import SplitRows
from headrace.train.model.stack import Stack
from headrace.train.model.transformer import replace_parameters
from headrace.train.objectives.base import Terms, trained_weights
from headrace.train.training_config import TrainingConfig, ZeroConfig


@contextlib.contextmanager
def linear_layers(function: Callable[..., Tensor]) -> Iterator[None]:
    """Makes linear layers compute with ``function`` until the end of the block.

    DeepSpeed's stage 3 replaces torch's function in the whole process and for ever, by one that rounds differently.
    """
    before = nn.functional.linear
    nn.functional.linear = function
    try:
        yield
    finally:
        nn.functional.linear = before


def with_bias_apart(linear: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns ``linear`` of DeepSpeed's stage 3, which adds the bias to a copy of the product. The bits are the same.

    DeepSpeed adds it in place. In compiled layers torch 2.11 then computes gradients of 0, without an error. Selective
    recomputation keeps the product, so it would add the bias twice.
    """

    def function(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if bias is None or x.dim() == 2:  # the product of two matrices and the sum are one operation
            return linear(x, weight, bias)
        return linear(x, weight) + bias

    return function


def ask_for_weights(asks: bool) -> None:
    """Sets whether DeepSpeed's function asks, in the backward pass, if it must gather the weight itself.

    Blocks that are gathered whole have it there already. A compiled block that asks depends on the number that
    DeepSpeed gives each parameter: torch 2.11 compiled a graph for each layer, and none after the eighth.
    """
    of_stage_3.is_zero_param = is_zero_param if asks else _has_it


def _has_it(parameter: nn.Parameter) -> bool:
    """Answers for a weight that is whole, so nothing needs to be gathered."""
    return False


os.environ.setdefault("DEEPSPEED_LOG_LEVEL", "warning")


T = TypeVar("T")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""The type of values by ``training.precision``."""


def _no_shared_memory_kernel() -> None:
    """Stands in for DeepSpeed's ``build_shm_op``, which compiles C++ for half a minute at the first start on a CPU."""
    return None


@contextlib.contextmanager
def _variables(ranks: Ranks) -> Iterator[None]:
    """Sets variables for DeepSpeed: its rank, since it would ask MPI otherwise, and no compiler.

    Its Muon, which no training here uses, would load torch's compiler: more than a second. Stage 3 reads LOCAL_RANK
    later, too.
    """
    os.environ.setdefault("LOCAL_RANK", str(ranks.local_rank))
    variables = {"RANK": ranks.rank, "WORLD_SIZE": ranks.world, "TORCHDYNAMO_DISABLE": 1}
    added = {name: str(value) for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _gather_blocks_whole(model: nn.Module) -> None:
    """Makes stage 3 gather the parameters of a block before it, and not those of each layer inside it.

    Its hooks would break a compiled block into many graphs. Shared layers stay as they are: DeepSpeed reduces the
    gradients of such a block after each of its calls, and fails at the second one.
    """
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    whole = [stack for stack in stacks if not stack.config.shared_layers]
    for stack in whole:
        for block in stack.blocks:
            set_z3_leaf_module(block, True)
    ask_for_weights(not stacks or len(whole) < len(stacks))


def _allocate(model: nn.Module, dtype: torch.dtype, device: torch.device, stage_3: Mapping[str, Any] | None) -> None:
    """Allocates the parameters of ``model``, which are on the meta device; all values are 0.

    With DeepSpeed's configuration of stage 3 each is divided over the ranks at once, so only one is ever whole.
    """
    division: Any = None
    if stage_3 is not None:  # a module, if only an empty one, makes DeepSpeed replace the function of linear layers
        deepspeed.init_distributed()
        division = deepspeed.zero.Init(nn.ParameterList(), config_dict_or_path=stage_3, dtype=dtype)

    def allocated(name: str, parameter: nn.Parameter) -> nn.Parameter:
        new = nn.Parameter(torch.zeros(parameter.shape, dtype=dtype, device=device))
        if division is not None:
            division._convert_to_zero_parameters([new])
        return new

    replace_parameters(model, allocated)


class Engine:
    """Trains one model with one optimizer over all ranks."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        training: TrainingConfig,
        zeroing: ZeroConfig,
        ranks: Ranks,
        rate_factors: Mapping[str, float] | None = None,
    ) -> None:
        """Spreads ``model`` over ``ranks``; every rank passes the same weights.

        ``rate_factors`` are factors of the learning rates of parameters, by name, besides those of the optimizer.

        A model on the meta device gets its memory here, divided at once at stage 3, and its weights by ``begin`` or
        ``load``.

        Raises:
            ConfigError: when the settings do not fit the number of ranks or each other.
        """
        self.plan = zero.plan_batches(training, ranks.world)
        self.ranks = ranks
        part = share_rows(model, ranks, training.sequence_ranks)
        self._optimizer, self._roles = optimizer, roles(model)
        self._clip = training.gradient_clip or math.inf
        self._stage = zero.stage_on(ranks.world, training, zeroing)
        self._host: dict[str, Tensor] = {}
        self.loss_scale = LossScale() if training.precision == "fp16" else None
        """The factor of the next loss; None in other precisions than fp16."""
        self._heads = [module for module in model.modules() if isinstance(module, Head)]
        config = zero.deepspeed_config(self.plan, training, zeroing)
        zero.check_offload(zeroing, optimizer)
        first = {name: value.detach() for name, value in model.named_parameters()}  # DeepSpeed replaces their data
        is_empty = any(value.is_meta for value in first.values())
        # `import deepspeed.comm.torch` binds another module of that name.
        sys.modules["deepspeed.comm.torch"].build_shm_op = _no_shared_memory_kernel  # type: ignore[attr-defined]  # on a module
        logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
        _gather_blocks_whole(model)
        if ranks.device.type == "cpu":
            get_accelerator().is_fp16_supported = lambda: True  # torch has it on every CPU; DeepSpeed asks for oneDNN's
        with _variables(ranks), linear_layers(nn.functional.linear), uncollected():
            if is_empty:
                _allocate(model, DTYPES[training.precision], ranks.device, config if self._stage == 3 else None)
            optimizing = build(model, optimizer, rate_factors)
            self._engine: Any = deepspeed.initialize(model=model, optimizer=optimizing, config=config)[0]
            self._linear = nn.functional.linear
        if self._stage == 3:
            self._linear = with_bias_apart(self._linear)
        self._model: Any = self._engine if part is None else SplitRows(self._engine, part)
        if self._stage < 2 and ranks.world == 1 and not hasattr(self._engine.optimizer, "reduce_gradients"):
            self._engine.enable_backward_allreduce = False  # one rank would only copy all its gradients
        built = partitions.torch_optimizer(self._engine, self._stage)
        if self._stage and isinstance(built, ByParameter):
            built.place(partitions.locations(self._engine, self._stage, ranks.rank))
        processes.wait_longer_than(training.longest_wait_seconds)
        if optimizer.ema_decay is not None:
            average_weights(built, optimizer.ema_decay)
        if not is_empty:
            self.begin(first.items())

    def begin(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Sets the first weights, before any update: name and fp32 value of every parameter; all ranks call it.

        One value is taken at a time, and each rank keeps its part of it.
        """
        partitions.set_master_weights(self._engine, self._stage, self.ranks.rank, weights)
        if self._optimizer.ema_decay is not None:
            partitions.create_state(self._engine, self._stage, self.ranks.rank, self._optimizer, self._roles)

    def gradient(
        self,
        objective: Terms,
        batches: Sequence[Tensors],
        counts: Mapping[str, float],
        row_keys: Sequence[Tensor] | None = None,
    ) -> dict[str, float]:
        """Computes the gradient for the next ``step``.

        Args:
            objective: what is trained.
            batches: this rank's micro-batches: ``plan.accumulation`` of them, or fewer while the batch grows.
            counts: each term's count over the micro-batches of all ranks, those of a row once.
            row_keys: for a model with dropout, the keys of the rows of each micro-batch (model/dropout.py).

        Returns:
            Each term's sum over this rank's micro-batches.
        """
        self._engine.train()
        parts = self.plan.accumulation * self.plan.world  # DeepSpeed divides by it, however many batches there are
        weights = trained_weights(objective)
        scales = {name: weight * parts / counts[name] if counts[name] else 0.0 for name, weight in weights.items()}
        if self.loss_scale is not None:
            self._scale_loss(self.loss_scale.factor, max(scales.values()) / self.plan.accumulation)
        sums = {name: torch.zeros((), dtype=torch.float64, device=self.ranks.device) for name in weights}
        for number, batch in enumerate(batches):
            if number:
                self._engine.step()  # counts the micro-batch before; the last one's is the update
            self._engine.set_gradient_accumulation_boundary(is_boundary=number == len(batches) - 1)
            if row_keys is not None:
                give_row_keys(self._engine.module, row_keys[number])
            with linear_layers(self._linear):  # the backward pass, too, where it computes activations again
                losses = objective.losses(self._model, batch)
                self._engine.backward(functools.reduce(operator.add, [losses[name] * scales[name] for name in weights]))
            for name, loss in losses.items():
                sums[name] += loss.detach()
        return {name: float(value) for name, value in sums.items()}

    def _scale_loss(self, factor: float, term_scale: float) -> None:
        """Multiplies the next loss by ``factor``, and its largest term's gradients inside the head by nearly as much.

        Args:
            factor: the loss scale.
            term_scale: the scale that the backward pass gives the term without it.
        """
        self._engine.optimizer.loss_scaler.cur_scale = factor
        for head in self._heads:
            head.gradient_scale = 2.0 ** math.floor(math.log2(factor * term_scale)) if term_scale else 1.0

    def step(self, learning_rate: float, applied: bool = True, stage: str = "weights") -> float | None:
        """Makes the update from ``gradient``. If it is not ``applied``, weights and optimizer state stay as they are.

        Errors name ``stage``.

        Returns:
            The norm of the whole gradient before clipping; None when it overflowed in fp16, so there was no update.

        Raises:
            TaskError: when the gradient is not finite; the weights are then of no use. In fp16 only when it overflows
                with the smallest loss scale.
        """
        set_learning_rate(self._engine.optimizer, learning_rate)
        built = partitions.torch_optimizer(self._engine, self._stage)
        with contextlib.nullcontext() if applied else skip_step(built):
            norm = self._step()
        overflowed = not math.isfinite(norm) or not self._engine.was_step_applied()
        if self.loss_scale is not None:
            self.loss_scale = self.loss_scale.after(overflowed, stage)
            return None if overflowed else norm
        if overflowed:
            raise TaskError(stage, f"the gradient's norm is {norm}", "lower the learning rate or lengthen the warm-up")
        return norm

    def _step(self) -> float:
        norm = math.nan
        if self._stage == 0:
            norm = float(nn.utils.clip_grad_norm_(self._engine.module.parameters(), self._clip))
        self._engine.step()
        return norm if self._stage == 0 else float(self._engine.get_global_grad_norm())

    @torch.no_grad()
    def evaluate(self, objective: Terms, batch: Tensors) -> dict[str, float]:
        """Returns each term's sum over ``batch``. All ranks must call it equally often."""
        return {name: float(loss) for name, loss in self.computed(objective.losses, batch).items()}

    @torch.no_grad()
    def computed(self, function: Callable[[nn.Module, Tensors], T], batch: Tensors) -> T:
        """Returns ``function`` of the model and ``batch``, without dropout. All ranks must call it equally often."""
        self._engine.eval()
        with linear_layers(self._linear):
            return function(self._model, batch)

    def fragments(self) -> Iterator[Fragment]:
        """Yields this rank's part of the state, in the training's own memory."""
        return partitions.fragments(self._engine, self._stage, self.ranks.rank, self._optimizer, self._roles)

    def snapshot(self) -> HostCopy:
        """Copies this rank's share of the state to host memory, which the next call overwrites."""
        shares = [fragment.share(self.ranks.rank, self.ranks.world) for fragment in self.fragments()]
        if not self._host:
            self._host = host_memory(shares)
        for share in shares:
            for kind, values in share.values.items():
                self._host[fragments.key(share, kind)].copy_(values, non_blocking=True)
        if self.ranks.device.type == "cuda":
            torch.cuda.synchronize(self.ranks.device)
        return HostCopy(self._host, partitions.updates(self._engine, self._stage))

    def load(self, files: Sequence[Path]) -> None:
        """Loads the state that any number of ranks of any ZeRO stage wrote to ``files``; all ranks call it."""
        begin = self.ranks.rank * len(files) // self.ranks.world
        partitions.master_weights_changed(self._engine, self._stage, fragments.read(files, self.fragments(), begin))

    def resume_loss_scale(self, loss_scale: LossScale | None) -> None:
        """Continues with the scale of a checkpoint, if this training and that of the checkpoint are in fp16."""
        if self.loss_scale is not None and loss_scale is not None:
            self.loss_scale = loss_scale

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yields name and whole fp32 value on the CPU of every parameter, tied ones once; all ranks iterate in step."""
        for name, parameter in self._engine.module.named_parameters():
            whole = parameter.detach() if self._stage == 0 else safe_get_full_fp32_param(parameter)
            yield name, whole.float().cpu().reshape(shape_of(parameter)).clone()
