"""The model of a fine-tuning: its first weights, the learning rates of its layers, and its export."""

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from headrace.pipeline.core.errors import ConfigError
from headrace.train.config import ModelConfig
from headrace.train.context import LEFT_TO_RIGHT, ContextForm
from headrace.train.families.hf_config import read_context_form
from headrace.train.families.hf_folder import export, read_predecessor, read_task_weights, read_weights
from headrace.train.families.registry import OWN
from headrace.train.families.task_names import TaskFields, exported_family, task_family
from headrace.train.finetune.tasks.task import Fitted
from headrace.train.finetune.tuning import layers_of
from headrace.train.model.initialization import first_weights, without_values
from headrace.train.model.layers import TaskLayers
from headrace.train.model.task_model import BACKBONE, HEAD, TaskModel, first_head_weights
from headrace.train.model.transformer import Transformer


@dataclasses.dataclass(frozen=True)
class Network:
    """The model for ``task``: with a head, or with its own output layer where the task has no kind of head."""

    model: ModelConfig
    vocabulary: int
    task: Fitted
    weights_folder: Path | None
    """The Hugging Face folder that training begins from; None: random weights."""

    def empty(self) -> TaskModel | Transformer:
        """Returns the model on the meta device."""
        with without_values():
            backbone = Transformer(self.model, self.vocabulary)
            if self.task.kind is None:
                return backbone
            head = task_family(self.model, self.task.kind).task_head(self.task.kind)
            layers = TaskLayers(
                self.model,
                self.task.outputs_per_position,
                head.activation,
                has_dense=head.dense_name is not None,
                dense_bias=head.dense_bias,
                has_norm=head.norm_name is not None,
                drops_first=head.drops_first,
                drops_last=head.drops_last,
                bias=head.bias,
            )
            return TaskModel(backbone, layers)

    def first_weights(self, seed: int) -> Iterator[tuple[str, Tensor]]:
        """Yields name and first value of every parameter: those of the folder, random ones for the rest."""
        model = self.empty()
        missing = dict(model.named_parameters())
        for name, value in self._found(model, seed):
            del missing[name]
            yield name, value
        yield from first_head_weights(missing, seed)

    def _found(self, model: TaskModel | Transformer, seed: int) -> Iterable[tuple[str, Tensor]]:
        folder, kind = self.weights_folder, self.task.kind
        if isinstance(model, Transformer) or kind is None:
            assert isinstance(model, Transformer)
            return first_weights(model, seed) if folder is None else read_weights(model, folder)
        if folder is None:
            return ((f"{BACKBONE}{name}", value) for name, value in first_weights(model.backbone, seed))
        return read_task_weights(model, folder, kind)

    def frozen(self, freeze: str | int) -> frozenset[str]:
        """Returns the names of the parameters that ``finetune.freeze`` leaves as they are.

        Raises:
            ConfigError: when no other is left.
        """
        if freeze == "none":
            return frozenset()
        layers = layers_of(self.model)
        most_above = layers - freeze if isinstance(freeze, int) else {"embeddings": layers, "all": 0}[freeze]
        names = [name for name, _ in self.empty().named_parameters()]
        frozen = frozenset(name for name in names if layers_above(name, self.model) > most_above)
        if len(frozen) == len(names):
            problem = f"is {freeze}, and the task has no head of its own: nothing is left to learn"
            raise ConfigError("finetune.freeze", problem, "give embeddings, or fewer layers")
        return frozen

    def rate_factors(self, layer_decay: float) -> dict[str, float] | None:
        """Returns the factor of the learning rate of each parameter by name; None where all are 1."""
        if layer_decay == 1:
            return None
        return {name: layer_decay ** layers_above(name, self.model) for name, _ in self.empty().named_parameters()}

    @property
    def _context_form(self) -> ContextForm:
        form = LEFT_TO_RIGHT if self.weights_folder is None else read_context_form(self.weights_folder)
        return self.task.context_form or form

    def has_own_format(self, tokenizer_file: Path) -> bool:
        """Whether no class of ``transformers`` computes this model, so that ``export`` writes our own format."""
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
        form = self._context_form if self.task.kind is None else LEFT_TO_RIGHT
        model = dataclasses.replace(self.model, base_width=None, output_multiplier=1.0)
        return exported_family(model, tokenizer, form, self.task.kind) is OWN

    def export(self, weights: Iterable[tuple[str, Tensor]], tokenizer_file: Path, folder: Path) -> None:
        """Writes the Hugging Face folder of ``weights``."""
        common = (self.model, self.vocabulary, tokenizer_file, folder)
        predecessor = None
        if self.weights_folder is not None:
            with without_values():
                backbone = Transformer(self.model, self.vocabulary)
            predecessor = read_predecessor(backbone, self.weights_folder)
        if self.task.kind is None:
            export(weights, *common, self._context_form, predecessor=predecessor)
            self.task.complete(folder)
        else:
            bare = ((name.removeprefix(BACKBONE), value) for name, value in weights)
            export(bare, *common, task=TaskFields(self.task.kind, self.task.hf_fields), predecessor=predecessor)


def layers_above(name: str, model: ModelConfig) -> int:
    """Returns how many layers are above the parameter ``name``: 0 for the head, 1 for the last block, blocks + 1 for
    the embeddings (google-research/electra, model/optimization.py, ``_get_layer_lrs``).

    The encoder of two stacks is below the decoder. Layers that share one block count as that block.
    """
    if name.startswith(HEAD):
        return 0
    name, stack, above = name.removeprefix(BACKBONE), model, 0
    if name.startswith("encoder."):
        name, stack, above = name.removeprefix("encoder."), model.encoder, model.blocks
    if name.startswith("blocks."):
        return above + stack.blocks - int(name.split(".")[1])
    if name.startswith("norm."):
        return above + 1
    return 1 + layers_of(model)


class Frozen:
    """The weights of a model that a training leaves as they are, by the names that they had as parameters.

    They become buffers, which have no gradient, decay or optimizer state and are in no checkpoint; each rank holds
    them. Engine, optimizer, partitions and checkpoints see the parameters alone.
    """

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
