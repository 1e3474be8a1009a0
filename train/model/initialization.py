"""First weights of a model by ``config.initialization``, the same on every machine and for every number of ranks.

names and shapes, seed ── first_weights ──> name, fp32 values, one parameter at a time

Names and shapes alone, without memory, are those of a model that is built ``without_values``.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from headrace.train.config import ModelConfig
from headrace.train.model.roles import HasRoles, roles
from headrace.train.parts import NORMS, RoleName


class Initializable(HasRoles, Protocol):
    """A model with the settings that its first weights follow from."""

    config: ModelConfig


def initialize(model: Initializable, seed: int) -> None:
    """Sets the weights of ``model`` to ``first_weights``."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in first_weights(model, seed):
            parameters[name].copy_(value)


def first_weights(model: Initializable, seed: int) -> Iterator[tuple[str, Tensor]]:
    """Yields name and first value of every parameter by ``config.initialization``, in fp32 on the CPU, one at a time.

    They are the same on every machine and for every number of ranks. Matrices and embeddings are normal, biases are 0,
    norms 1, or 0 where 1 is added to them. ``model`` may be on the meta device: only its names and shapes matter.
    """
    generator = torch.Generator().manual_seed(seed)
    draw = {"gpt": _draw_as_gpt, "t5": _draw_as_t5}[model.config.initialization]
    of_norms, role_of = NORMS[model.config.norm].first_weight, roles(model)
    for name, parameter in model.named_parameters():
        is_bias = name.rpartition(".")[2].startswith("bias")  # bias_ih_l0 in a recurrent layer
        value = torch.full(parameter.shape, 0.0 if is_bias else of_norms, device="cpu")
        if value.dim() >= 2:
            draw(name, role_of[name], value, model.config, generator)
        yield name, value


def _draw_as_gpt(name: str, role: RoleName, parameter: Tensor, config: ModelConfig, generator: torch.Generator) -> None:
    """Draws a matrix as GPT-1 and GPT-2 do, with the standard deviation of its role: 0.02 (2018, section 4.1). Google's
    code for BERT, ALBERT and ELECTRA cuts this normal at two deviations; ``transformers`` does not.

    In a pre-norm or parallel model the matrices that end in the residual stream are scaled by 1/sqrt(2·layers), for
    the number of additions to it (Radford et al. 2019, section 2.3); with cross-attention there are 3 a layer. Weights
    that both stacks share have the decoder's deviation. A post-norm model normalizes each addition and has the same
    everywhere (2018). With ``base_width``, hidden matrices have their deviation over sqrt(width factor). Matrices of
    recurrent layers have that of torch: of a uniform draw between -1/sqrt(M) and 1/sqrt(M).
    """
    stack = config.encoder if name.startswith("encoder.") else config
    parts = 3 if stack.stack == "encoder_decoder" else 2
    deviation: float = getattr(config.deviations, role)
    if ".cells." in name:
        deviation = (3 * config.width) ** -0.5
    elif role == "matrix":
        deviation /= math.sqrt(config.width_factor)
    is_scaled = config.residual and config.norm_place in ("pre", "parallel")
    if is_scaled and name.endswith(("attention.output.weight", "cross.output.weight", "mlp.down.weight")):
        deviation /= math.sqrt(parts * stack.layers)
    parameter.normal_(0.0, deviation, generator=generator)


def _draw_as_t5(name: str, role: RoleName, parameter: Tensor, config: ModelConfig, generator: torch.Generator) -> None:
    """Draws a matrix as T5 does: with standard deviation 1/sqrt(inputs), the embedding with 1, the bias by distance
    with 1/sqrt(M). Queries are divided by sqrt(D) here, because T5 does not divide its logits by it."""
    name = name.removeprefix("encoder.")
    inputs = 1 if name == "embedding.weight" else parameter.shape[1]
    if name.startswith("positions."):
        inputs = config.width
    parameter.normal_(0.0, inputs**-0.5, generator=generator)
    if name.endswith(("attention.qkv.weight", "cross.query.weight")):
        parameter[: config.heads * config.head_width] *= config.head_width**-0.5


@contextlib.contextmanager
def without_values() -> Iterator[None]:
    """Creates the parameters of the modules that are built inside the block on the meta device.

    They are not initialized: on the meta device torch draws normal numbers by Python code for which it first loads its
    compiler, 2 s of CPU time.
    """
    with torch.device("meta"), _WithoutInitialization():
        yield


class _WithoutInitialization(TorchFunctionMode):
    """Replaces the functions of torch.nn.init, each of which returns its tensor, by ones that only return it."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        values = kwargs or {}
        if getattr(func, "__module__", None) == torch.nn.init.__name__:
            return args[0] if args else values["tensor"]
        return func(*args, **values)
