"""The fragments of parameters whose fp32 master values and optimizer moments DeepSpeed keeps on this rank.

    stage 0     every rank     each parameter whole; the optimizer runs over the parameters themselves
    stage 1, 2  flat tensors   the parameters of a group one after the other, cut into equal parts: one for each rank
    stage 3     flat tensors   this rank's part of every parameter of a sub-group, the last one padded

The optimizer runs over the flat tensors, and its moments are flat tensors of the same shape. So a fragment is a range
of one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor

from headrace.train.engine.by_parameter import ByParameter
from headrace.train.engine.fragments import MASTER, Fragment
from headrace.train.engine.optimizers.base import Optimizer, divided_state, state_of
from headrace.train.parts import RoleName

FragmentLocation = tuple[str, int, Tensor, int, int]
"""(name, start offset in the parameter, tensor, offset in the tensor, length)"""


def fragments(
    engine: Any, stage: int, rank: int, optimizer: Optimizer, roles: Mapping[str, RoleName]
) -> Iterator[Fragment]:
    """Yields the part of the state of DeepSpeed's ``engine`` that ``rank`` holds, in the order of the parameters."""
    built = torch_optimizer(engine, stage)
    for parameter, start, tensor, offset, length in locations(engine, stage, rank):
        role = roles[parameter]
        state = state_of(optimizer, built, tensor, role)
        if length:
            tensors = {MASTER: tensor.detach()} | {name: state[name] for name in divided_state(optimizer, role)}
            values = {kind: whole.view(-1)[offset : offset + length] for kind, whole in tensors.items()}
            yield Fragment(parameter, start, values, is_shared=stage == 0)
        if isinstance(built, ByParameter):
            for kind, first, statistic in built.statistics(parameter, tensor.device):
                yield Fragment(parameter, first, {kind: statistic}, is_shared=True)


def create_state(engine: Any, stage: int, rank: int, optimizer: Optimizer, roles: Mapping[str, RoleName]) -> None:
    """Creates the optimizer's state before the first update, which would create the moments alone."""
    for parameter, _, tensor, _, _ in locations(engine, stage, rank):
        state_of(optimizer, torch_optimizer(engine, stage), tensor, roles[parameter])


def set_master_weights(engine: Any, stage: int, rank: int, weights: Iterable[tuple[str, Tensor]]) -> None:
    """Sets the master weights to ``weights``, name and whole fp32 value of every parameter.

    DeepSpeed would build them from the weights in the precision of the arithmetic, so they would be rounded.
    """
    of_rank = {location[0]: location for location in locations(engine, stage, rank)}
    for name, value in weights:
        _, start, tensor, offset, length = of_rank.pop(name)
        tensor.detach().view(-1)[offset : offset + length].copy_(value.flatten()[start : start + length])
    assert not of_rank, f"no first weights of {', '.join(of_rank)}"
    master_weights_changed(engine, stage, 0)


def updates(engine: Any, stage: int) -> int:
    """Returns the optimizer's count of updates, the same for all parameters; 0 if it counts them for none."""
    states = torch_optimizer(engine, stage).state.values()
    return next((int(state["step"]) for state in states if "step" in state), 0)


def master_weights_changed(engine: Any, stage: int, count: int) -> None:
    """Updates all that DeepSpeed derives from the values in ``fragments``, and sets the count of updates."""
    for state in torch_optimizer(engine, stage).state.values():
        if "step" in state:
            state["step"].fill_(count)
    if stage in (1, 2):
        engine.optimizer.update_lp_params()
    if stage == 3:
        for sub_group in range(len(engine.optimizer.fp32_partitioned_groups_flat)):
            engine.optimizer._reassign_or_swap_out_partitioned_parameters(sub_group)
        persistent = engine.optimizer.persistent_parameters
        if persistent:
            persistent[0].partition(persistent)
        if persistent:
            persistent[0].all_gather(persistent)


def torch_optimizer(engine: Any, stage: int) -> Any:
    """Returns torch's optimizer inside DeepSpeed's ``engine``."""
    return engine.optimizer.optimizer if stage else engine.optimizer


def locations(engine: Any, stage: int, rank: int) -> Iterator[FragmentLocation]:
    """Yields the location of each parameter on ``rank``, in an order that all ranks share; the length may be 0.

    A parameter is in the same tensor on all ranks: at the same position of the optimizer's groups.
    """
    return (_whole, _flat, _flat, _padded)[stage](engine, rank)


def _whole(engine: Any, rank: int) -> Iterator[FragmentLocation]:
    for name, parameter in engine.module.named_parameters():
        yield name, 0, parameter, 0, parameter.numel()


def _flat(engine: Any, rank: int) -> Iterator[FragmentLocation]:
    zero, built = engine.optimizer, engine.optimizer.optimizer
    groups = getattr(zero, "bit16_groups", None) or zero.bf16_groups  # the latter of DeepSpeed's BF16_Optimizer
    flats = {
        parameter: flat
        for parameters, group in zip(groups, built.param_groups, strict=True)
        for parameter, flat in zip(parameters, group["params"] * len(parameters), strict=True)
    }
    for name, parameter in engine.module.named_parameters():
        mapping = parameter._hp_mapping
        if mapping is None:
            yield name, 0, flats[parameter], 0, 0
        else:
            address = mapping.hp_fragment_address
            yield name, mapping.lp_fragment_address.start, flats[parameter], address.start, address.numel


def _padded(engine: Any, rank: int) -> Iterator[FragmentLocation]:
    zero3 = engine.optimizer
    for name, parameter in engine.module.named_parameters():
        sub_group, offset, padded = zero3.grad_position[zero3.get_param_id(parameter)]
        start = rank * padded
        length = max(0, min(padded, parameter.ds_numel - start))
        yield name, start, zero3.fp32_partitioned_groups_flat[sub_group], offset, length
