"""Modules of a model that only its training needs: no export has them, and no weights that others publish do.

learned_maps     of the student's hidden states to its teacher's width (distillation_config.py)
boundary_head    of the span boundary objective (model/span_boundaries.py)
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from torch import Tensor, nn

from headrace.train.families.hf_config import read_model_config
from headrace.train.loop.pretraining import Pretraining
from headrace.train.model.empty import without_values
from headrace.train.model.initialization import first_weights
from headrace.train.model.layer_records import EMBEDDED, HIDDEN, MAPS
from headrace.train.model.pair import Pair, build_empty
from headrace.train.model.span_boundaries import BOUNDARY_HEAD, SpanBoundaryHead
from headrace.train.model.transformer import Transformer

PREFIXES = (f"{MAPS}.", f"{BOUNDARY_HEAD}.")
"""The beginnings of the names of their weights."""


def empty_model(stage: Pretraining, vocabulary: int) -> Transformer | Pair:
    """Returns the model of ``stage`` on the meta device, with what only its training needs."""
    model, settings = build_empty(stage.model, vocabulary), stage.distillation
    with without_values():
        if isinstance(model, Transformer) and getattr(stage.objective, "span_boundary", False):
            model.boundary_head = SpanBoundaryHead(stage.model)
        if settings.teacher is not None and settings.hidden_weight:
            width, of_teacher = stage.model.width, read_model_config(Path(settings.teacher))[0].width
            maps = {name: nn.Linear(width, of_teacher, bias=False) for name in (EMBEDDED, HIDDEN)}
            if width != of_teacher:
                model.add_module(MAPS, nn.ModuleDict(maps))
    return model


def first_values(model: Transformer | Pair, seed: int) -> Iterator[tuple[str, Tensor]]:
    """Yields name and first value of what only the training of ``model`` needs."""
    if any(name.startswith(PREFIXES) for name, _ in model.named_parameters()):
        yield from ((name, value) for name, value in first_weights(model, seed) if name.startswith(PREFIXES))


def exported(weights: Iterable[tuple[str, Tensor]], say: Callable[[str], None]) -> Iterator[tuple[str, Tensor]]:
    """Yields the ``weights`` of an export, and calls ``say`` with a line for each module that it leaves out."""
    left_out = set[str]()
    for name, value in weights:
        module = name.partition(".")[0]
        if not name.startswith(PREFIXES):
            yield name, value
        elif module not in left_out:
            left_out.add(module)
            say(f"weights: the export leaves out {module}, which training alone needs")
