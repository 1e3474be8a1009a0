"""Whole weights of a training that is not finished: those that the ranks hold now, or those of a checkpoint.

checkpoint ── state/00000.safetensors, 00001, … ── master values ──┐
engine ────── shares of all ranks, gathered ───────────────────────┴─> a model, as an export of that step holds it
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.checkpoint import store
from headrace.train.checkpoint.saver import verify_jointly
from headrace.train.config import ModelConfig
from headrace.train.context import ContextForm
from headrace.train.distributed.processes import Ranks
from headrace.train.engine import fragments
from headrace.train.engine.fragments import MASTER, Fragment
from headrace.train.model.transformer import Transformer, build_empty, put_weights


def assembled(
    weights: Iterable[tuple[str, Tensor]], config: ModelConfig, vocabulary: int, context_form: ContextForm
) -> Transformer:
    """Returns the model with these ``weights`` (our names, tied ones once), in evaluation mode.

    Those of modules that are only trained are left out. No random number is drawn.
    """
    model = build_empty(config, vocabulary)
    put_weights(model, dict(weights))
    model.context_form = context_form
    return model.eval()


def read_checkpoint(
    path: Path, config: ModelConfig, vocabulary: int, context_form: ContextForm, ranks: Ranks
) -> Transformer:
    """Returns the model of the checkpoint at ``path``, which any number of ranks wrote; all ``ranks`` read it together.

    Raises:
        ArtifactError: when it is damaged, or is removed in the meantime.
    """
    try:
        verify_jointly(path, ranks)
        values = _values(store.state_files(path), shapes_of(build_empty(config, vocabulary)), MASTER)
        return assembled(values, config, vocabulary, context_form)
    except FileNotFoundError:
        raise ArtifactError(str(path), "was removed while it was read", "take a newer one") from None


def shapes_of(model: nn.Module) -> dict[str, torch.Size]:
    """Returns the shape of each parameter of ``model``."""
    return {name: value.shape for name, value in model.named_parameters()}


def averaged(paths: Sequence[Path], shapes: Mapping[str, torch.Size], kind: str = MASTER) -> dict[str, Tensor]:
    """Returns the mean of the weights in the checkpoints at ``paths``, computed in float64 (our names, fp32).

    ``shapes`` are those of the model's parameters, ``kind`` is that of the values: the master values, or their moving
    average.

    The weights of one checkpoint are unchanged. The mean of the last ones of a training is LAWA (Kaddour 2022, "Stop
    Wasting My Time! Saving Days of ImageNet and BERT Training with Latest Weight Averaging").

    Raises:
        ArtifactError: when one is damaged.
    """
    sums: dict[str, Tensor] = {}
    for path in paths:
        store.verify(path)
        for name, value in _values(store.state_files(path), shapes, kind):
            sums[name] = sums[name].add_(value) if name in sums else value.double()
    return {name: (total / len(paths)).float() for name, total in sums.items()}


def _values(files: list[Path], shapes: Mapping[str, torch.Size], kind: str) -> Iterator[tuple[str, Tensor]]:
    wholes = [Fragment(name, 0, {kind: torch.empty(shape.numel())}) for name, shape in shapes.items()]
    fragments.read(files, wholes)
    return ((whole.parameter, whole.values[kind].view(shapes[whole.parameter])) for whole in wholes)
