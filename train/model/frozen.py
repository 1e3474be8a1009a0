"""Weights that a training leaves as they are.

    parameter ── freeze ──> buffer      no gradient, no decay, no optimizer state, in no checkpoint; each rank holds it

Engine, optimizer, partitions and checkpoints see the parameters alone, so none of them knows of frozen weights.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

import torch
from torch import Tensor, nn


class Frozen:
    """The frozen weights of a model, by the names that they had as parameters."""

    def __init__(
        self, model: nn.Module, names: Collection[str], dtype: torch.dtype, device: torch.device | None = None
    ) -> None:
        """Makes buffers of ``dtype`` of the parameters ``names`` of ``model``; one that several modules share is one
        buffer. Their values are 0 until ``taken_out`` sets them."""
        self._model = model
        self._places = defaultdict[str, list[str]](list)
        chosen = {parameter: name for name, parameter in model.named_parameters() if name in names}
        values = {parameter: torch.zeros(parameter.shape, dtype=dtype, device=device) for parameter in chosen}
        for name, parameter in list(model.named_parameters(remove_duplicate=False)):
            if parameter in chosen:
                self._places[chosen[parameter]].append(name)
                path, _, leaf = name.rpartition(".")
                module = model.get_submodule(path)
                delattr(module, leaf)
                module.register_buffer(leaf, values[parameter], persistent=False)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    @torch.no_grad()
    def taken_out(self, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """Yields those of ``weights`` that are trained, and sets the others in the model."""
        for name, value in weights:
            if name not in self:
                yield name, value
                continue
            for place in self._places[name]:
                self._model.get_buffer(place).copy_(value)

    def chosen(self, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """Yields the frozen ones of ``weights``."""
        return ((name, value) for name, value in weights if name in self)
