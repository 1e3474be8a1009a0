"""Modules of a model that only its training needs: no export has them, and no weights that others publish do.

learned_maps     of the student's hidden states to its teacher's width (distillation_config.py)
others           those that an objective adds (``AddsModules``)
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from torch import Tensor, nn

from headrace.train.families.hf_config import read_model_config
from headrace.train.loop.pretraining import Pretraining
from headrace.train.model.initialization import first_weights, without_values
from headrace.train.model.layer_records import EMBEDDED, HIDDEN, MAPS
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.base import AddsModules


def empty_model(stage: Pretraining, vocabulary: int) -> Transformer:
    """Returns the model of ``stage`` on the meta device, with what only its training needs."""
    settings = stage.distillation
    with without_values():
        build = stage.objective.build if isinstance(stage.objective, AddsModules) else Transformer
        model = build(stage.model, vocabulary)
        if settings.teacher is not None and settings.hidden_weight:
            width, of_teacher = stage.model.width, read_model_config(Path(settings.teacher))[0].width
            maps = {name: nn.Linear(width, of_teacher, bias=False) for name in (EMBEDDED, HIDDEN)}
            if width != of_teacher:
                model.add_module(MAPS, nn.ModuleDict(maps))
    return model


def _modules(stage: Pretraining) -> tuple[str, ...]:
    """Returns the names of the modules that only the training of ``stage`` needs."""
    return (MAPS, *(stage.objective.training_modules if isinstance(stage.objective, AddsModules) else ()))


def first_values(stage: Pretraining, model: Transformer) -> Iterator[tuple[str, Tensor]]:
    """Yields name and first value of what only the training of ``model`` needs."""
    prefixes = tuple(f"{module}." for module in _modules(stage))
    if any(name.startswith(prefixes) for name, _ in model.named_parameters()):
        weights = first_weights(model, stage.training.seed)
        yield from ((name, value) for name, value in weights if name.startswith(prefixes))


def exported(
    stage: Pretraining, weights: Iterable[tuple[str, Tensor]], say: Callable[[str], None]
) -> Iterator[tuple[str, Tensor]]:
    """Yields the ``weights`` of an export, and calls ``say`` with a line for each module that it leaves out."""
    modules, left_out = _modules(stage), set[str]()
    for name, value in weights:
        module = name.partition(".")[0]
        if module not in modules:
            yield name, value
        elif module not in left_out:
            left_out.add(module)
            say(f"weights: the export leaves out {module}, which training alone needs")
