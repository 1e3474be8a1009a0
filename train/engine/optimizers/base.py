"""The common parts of all optimizers: their protocol, the factors of a role, the bytes and creation of their state.

    optimizer      state of a value, without its fp32 master weight    an update reads
    AdamW          8 bytes: exp_avg, exp_avg_sq                       the value's own gradient and moments
    StableAdamW    8 bytes: exp_avg, exp_avg_sq                       a sum over the parameter
    Muon           4 bytes in a hidden matrix: momentum_buffer;       the whole matrix
                   8 bytes elsewhere, as AdamW
    Adafactor      none in a matrix, but one value for each row and   sums over rows, columns and the matrix
                   column; 4 bytes in a vector: exp_avg_sq

State is of two kinds. Moments have the shape of their parameter. So ZeRO splits them over the ranks as it splits the
parameters. Statistics have a value for each row or column, say, and every rank has them all. A checkpoint holds both by
parameter and offset (train/engine/fragments.py). An optimizer declares their names, and from this declaration follow
partitions, checkpoints, the memory plan and the check of free disk space.

With ``ema_decay`` there is one more tensor of each parameter's shape: the moving average of its values.

The settings are read where torch must not be loaded, so it is imported only when an optimizer is built.
"""

import abc
import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, runtime_checkable

from pydantic import Field

from headrace.pipeline.core.settings import NaturalNumber, settings
from headrace.train.config import BelowOne, Epsilon
from headrace.train.parts import FP32, RoleName

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Rate = Annotated[float, Field(ge=0, le=10)]
Decay = Annotated[float, Field(ge=0, le=100)]
Shapes = Mapping[RoleName, Sequence[tuple[int, ...]]]
"""Role → shapes of the model's matrices; vectors may be listed as one. See train/cost/shapes.py."""
Group = dict[str, Any]
"""Parameters that are updated alike, as torch's optimizers know them: ``params``, and the options of their roles."""
CHUNK = 2**22
"""The most values for which an update that is not one kernel has temporary tensors at once."""
EMA = "ema"
"""The name of the moving average of the weights in the state of torch's optimizer."""


@settings
class RateFactors:
    """The learning rate of each role of parameters, as a factor of the optimizer's."""

    embedding: NaturalNumber = 1.0
    """Embeddings of tokens, positions and segments; an output layer that is tied to them, too."""
    head: NaturalNumber = 1.0
    """Output layers with weights of their own."""
    matrix: NaturalNumber = 1.0
    """All other matrices, those of the hidden layers."""
    vector: NaturalNumber = 1.0
    """Biases, and the weights of norms."""


@settings
class DecayFactors(RateFactors):
    """The weight decay of each role of parameters, as a factor of the optimizer's."""

    vector: NaturalNumber = 0.0
    """Biases, and the weights of norms; 0 is the practice of GPT-3 as nanoGPT wrote it down."""


@settings
class Optimizer(abc.ABC):
    """Base of the settings of an optimizer: its learning rate and decoupled weight decay, and their factors by role."""

    if TYPE_CHECKING:

        @property
        def type(self) -> str:
            """The name by which settings choose it."""
            ...

    scales_with_width: ClassVar[bool] = False
    """Whether it has Adam's rules of muP, which ``model.base_width`` needs."""
    learning_rate: Rate
    """The peak; the schedule scales it."""
    weight_decay: Decay = 0.1
    """Pull towards zero, times the learning rate."""
    ema_decay: BelowOne | None = None
    """d of the exponential moving average of the weights, d · average + (1-d) · weights after each update, which begins
    with the first weights: a second model, for ``headrace export --ema``. null: none."""
    rate_factors: RateFactors = RateFactors()
    """Factors of the learning rate: of embeddings, output layers, other matrices, biases and norms."""
    decay_factors: DecayFactors = DecayFactors()
    """Factors of the weight decay; by default biases and norms do not decay."""

    @abc.abstractmethod
    def moments(self, role: RoleName) -> tuple[str, ...]:
        """Returns the names, in the state of torch's optimizer, of the fp32 tensors with their parameter's shape that
        its updates read."""

    def statistics(self, shape: Sequence[int], role: RoleName) -> Mapping[str, int]:
        """Returns name and length of the fp32 tensors that every rank holds of a matrix or vector of this shape."""
        return {}

    @abc.abstractmethod
    def first_state(self, values: "Tensor", role: RoleName) -> dict[str, Any]:
        """Returns the state of parameters of one role, as torch's optimizer has it before its first update.

        It has the moments and, if the optimizer counts updates, the tensor ``step``.
        """

    @abc.abstractmethod
    def update_bytes(self, shapes: Shapes, is_divided: bool) -> int:
        """Returns the bytes that an update takes beyond gradients and state; ``is_divided``: ranks have parts of a
        matrix."""

    def options(self, role: RoleName) -> dict[str, Any]:
        """Returns torch's options of a group of parameters of this role: ``weight_decay``, say.

        ``rate_factor`` is the group's learning rate divided by that of the schedule; without it that is 1.
        """
        decay, rate = (getattr(factors, role) for factors in (self.decay_factors, self.rate_factors))
        return {"weight_decay": self.weight_decay * decay, "rate_factor": rate}


@settings
class Adaptive(Optimizer):
    """Adam's two moments (Kingma and Ba 2015); defaults of GPT-3 (Brown et al. 2020, app. B)."""

    beta1: BelowOne = 0.9
    """Decay of the mean of gradients."""
    beta2: BelowOne = 0.95
    """Decay of the mean of squared gradients."""
    epsilon: Epsilon = 1e-8
    """Added to the root of the second mean."""

    def moments(self, role: RoleName) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def first_state(self, values: "Tensor", role: RoleName) -> dict[str, Any]:
        """Returns moments of 0, and a count of updates on the device of ``values``, where the fused kernel needs it."""
        import torch

        step = torch.zeros((), dtype=torch.float32, device=values.device)
        return {"step": step, **{name: torch.zeros_like(values) for name in self.moments(role)}}


@dataclasses.dataclass(frozen=True)
class Whole:
    """A matrix or vector of the model: a parameter, or one of several matrices that are stacked in a parameter.

    Queries, keys and values of an attention are matrices of their own, and so are gate and value of a gated
    feed-forward layer: published models mostly have them apart.
    """

    parameter: str
    role: RoleName
    start: int
    """The offset of the first value in the flattened parameter."""
    shape: tuple[int, ...]

    @property
    def values(self) -> int:
        return math.prod(self.shape)


@runtime_checkable
class Elementwise(Protocol):
    """The settings of an optimizer of torch, which updates a value from its own gradient and state."""

    def build(self, groups: Sequence[Group]) -> "torch.optim.Optimizer":
        """Builds torch's optimizer over ``groups``."""
        ...


@settings
class MatrixOptimizer(Optimizer):
    """Base of the settings of an optimizer that needs more of a matrix; train/engine/by_parameter.py runs it."""

    @abc.abstractmethod
    def update(self, group: Mapping[str, Any], flat: Any) -> None:
        """Makes one update of a tensor.

        Args:
            group: the options of its role, ``role`` itself, and its learning rate ``lr``.
            flat: the tensor with its gradient and state, a ``Flat``.
        """

    def update_bytes(self, shapes: Shapes, is_divided: bool) -> int:
        """Counts two temporary tensors of the largest matrix, or of a chunk of it."""
        return 2 * FP32 * min(max(math.prod(shape) for of_role in shapes.values() for shape in of_role), CHUNK)


def divided_state(optimizer: Optimizer, role: RoleName) -> tuple[str, ...]:
    """Returns the names of all fp32 tensors with their parameter's shape: the moments, and the moving average."""
    return optimizer.moments(role) if optimizer.ema_decay is None else (*optimizer.moments(role), EMA)


def divided_bytes(optimizer: Optimizer, shapes: Shapes) -> int:
    """Returns the bytes of the state that ZeRO divides among the ranks."""
    return sum(
        FP32 * len(divided_state(optimizer, role)) * math.prod(shape)
        for role, of_role in shapes.items()
        for shape in of_role
    )


def statistic_bytes(optimizer: Optimizer, shapes: Shapes) -> int:
    """Returns the bytes of the statistics, which every rank holds."""
    lengths = (optimizer.statistics(shape, role).values() for role, of_role in shapes.items() for shape in of_role)
    return FP32 * sum(map(sum, lengths))


def checkpoint_bytes(optimizer: Optimizer, shapes: Shapes) -> int:
    """Returns the bytes of all parameters in a checkpoint: master values and the optimizer's state."""
    masters = FP32 * sum(math.prod(shape) for of_role in shapes.values() for shape in of_role)
    return masters + divided_bytes(optimizer, shapes) + statistic_bytes(optimizer, shapes)


def set_learning_rate(built: "torch.optim.Optimizer", learning_rate: float) -> None:
    """Sets the learning rate of the next update; each group multiplies it by its factor."""
    for group in built.param_groups:
        group["lr"] = learning_rate * group.get("rate_factor", 1.0)


@contextlib.contextmanager
def skip_step(built: "torch.optim.Optimizer") -> Iterator[None]:
    """Makes ``step`` of torch's optimizer do nothing: parameters and state stay as they are."""
    vars(built)["step"] = lambda: None
    try:
        yield
    finally:
        del vars(built)["step"]


def state_of(optimizer: Optimizer, built: "torch.optim.Optimizer", values: "Tensor", role: RoleName) -> dict[str, Any]:
    """Returns the state of ``values`` in torch's optimizer; creates it if there was no update yet."""
    kept: dict[str, Any] = built.state[values]
    if not kept or any(kept.get(name) is None for name in optimizer.moments(role)):
        kept.update(optimizer.first_state(values, role))
    if optimizer.ema_decay is not None and EMA not in kept:
        kept[EMA] = values.detach().clone()
    return kept


def average_weights(built: "torch.optim.Optimizer", ema_decay: float) -> None:
    """Makes torch's optimizer move the average of the weights, which its state already has, after each update."""

    def move(built: "torch.optim.Optimizer", args: Any, kwargs: Any) -> None:
        for group in built.param_groups:
            for values in group["params"]:
                built.state[values][EMA].lerp_(values.detach(), 1 - ema_decay)

    built.register_step_post_hook(move)
