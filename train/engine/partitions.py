"""Where DeepSpeed keeps the fp32 values and AdamW's means on this rank, as fragments of parameters.

    stage 0     every rank     each parameter whole, AdamW over the parameters themselves
    stage 1, 2  flat tensors   the parameters of a group one after the other, cut into equal parts: one for each rank
    stage 3     flat tensors   of every parameter of a sub-group the part of this rank, the last one padded

AdamW runs over the flat tensors, and its means are flat tensors of the same shape. So a fragment is a range of one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from headrace.train.engine import optimizer
from headrace.train.engine.fragments import MASTER, MEANS, Fragment

Place = tuple[str, int, Tensor, int, int]
"""A parameter, the first of its values that are here, the tensor that holds them, from which place on, and how many."""


def fragments(engine: Any, stage: int, rank: int) -> Iterator[Fragment]:
    """What ``rank`` holds of the state of DeepSpeed's ``engine``, in the order of the parameters."""
    inner = adamw(engine, stage)
    for parameter, start, tensor, first, length in _places(engine, stage, rank):
        state = optimizer.state(inner, tensor)
        tensors = {MASTER: tensor.detach()} | {kind: state[kind] for kind in MEANS}
        yield Fragment(parameter, start, {kind: t.view(-1)[first : first + length] for kind, t in tensors.items()})


def begin(engine: Any, stage: int, rank: int, first: Mapping[str, Tensor]) -> None:
    """Have the fp32 values begin as ``first``, of each parameter: DeepSpeed makes them of those that it has rounded."""
    for parameter, start, tensor, place, length in _places(engine, stage, rank):
        values = first[parameter].flatten()[start : start + length]
        tensor.detach().view(-1)[place : place + length].copy_(values)
    take_over(engine, stage, 0)


def updates(engine: Any, stage: int) -> int:
    """AdamW's count of updates, the same for all parameters."""
    return next((int(state["step"]) for state in adamw(engine, stage).state.values()), 0)


def take_over(engine: Any, stage: int, count: int) -> None:
    """Have all that DeepSpeed derives from the values in ``fragments`` follow them, after ``count`` updates."""
    for state in adamw(engine, stage).state.values():
        state["step"].fill_(count)
    if stage in (1, 2):
        engine.optimizer.update_lp_params()
    if stage == 3:
        for sub_group in range(len(engine.optimizer.fp32_partitioned_groups_flat)):
            engine.optimizer._reassign_or_swap_out_partitioned_parameters(sub_group)
        persistent = engine.optimizer.persistent_parameters
        if persistent:
            persistent[0].partition(persistent)
            persistent[0].all_gather(persistent)


def adamw(engine: Any, stage: int) -> Any:
    """torch's optimizer inside DeepSpeed's ``engine``."""
    return engine.optimizer.optimizer if stage else engine.optimizer


def _places(engine: Any, stage: int, rank: int) -> Iterator[Place]:
    return (_whole, _flat, _flat, _padded)[stage](engine, rank)


def _whole(engine: Any, rank: int) -> Iterator[Place]:
    for name, parameter in engine.module.named_parameters():
        yield name, 0, parameter, 0, parameter.numel()


def _flat(engine: Any, rank: int) -> Iterator[Place]:
    groups = engine.optimizer.optimizer.param_groups
    for name, parameter in engine.module.named_parameters():
        mapping = parameter._hp_mapping
        if mapping is not None:
            (flat,) = groups[mapping.param_group_index]["params"]
            here = mapping.hp_fragment_address
            yield name, mapping.lp_fragment_address.start, flat, here.start, here.numel


def _padded(engine: Any, rank: int) -> Iterator[Place]:
    zero3 = engine.optimizer
    for name, parameter in engine.module.named_parameters():
        sub_group, first, padded = zero3.grad_position[zero3.get_param_id(parameter)]
        start = rank * padded
        length = min(padded, parameter.ds_numel - start)
        if length > 0:
            yield name, start, zero3.fp32_partitioned_groups_flat[sub_group], first, length
