"""A model family: the names that Hugging Face gives to a model's sizes and weights, both ways. Free of torch.

    ModelConfig                          config.json
    layers, width, …                <->  n_layer, n_embd, … or num_hidden_layers, hidden_size, …

    our weights                          weights of GPT2LMHeadModel         of LlamaForCausalLM
    embedding                            transformer.wte                    model.embed_tokens
    positions                            transformer.wpe                    –
    blocks.N.attention_norm              transformer.h.N.ln_1               model.layers.N.input_layernorm
    blocks.N.attention.qkv               ….attn.c_attn (transposed)         ….self_attn.{q,k,v}_proj
    blocks.N.attention.output            ….attn.c_proj (transposed)         ….self_attn.o_proj
    blocks.N.mlp_norm                    ….ln_2                             ….post_attention_layernorm
    blocks.N.mlp.up                      ….mlp.c_fc (transposed)            ….mlp.{gate,up}_proj
    blocks.N.mlp.down                    ….mlp.c_proj (transposed)          ….mlp.down_proj
    norm                                 transformer.ln_f                   model.norm
    head                                 lm_head                            lm_head

Each family is one module with one class; registry.py lists them. No other module asks which family a model is of.
"""

import abc
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT, decoder_start, document_end
from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.context import ContextForm
from headrace.train.families.task_heads import OWN_HEADS, TaskHead, TaskKind
from headrace.train.parts import StackName

BLOCKS = "blocks"
"""The prefix of our weights in Transformer blocks: ``blocks.<number>.<part>.<leaf>``."""
ENCODER = "encoder."
"""The prefix of our weights in the encoder of an encoder–decoder."""

SIZES = frozenset(("layers", "width", "heads", "kv_heads", "context", "mlp_width", "norm_epsilon", "tied"))
"""Fields of ModelConfig that are numbers of every model, not parts."""
OF_TRAINING = frozenset(("dropout", "dropout_places", "deviations"))
"""Fields of ModelConfig on which no output of a trained model depends."""


@dataclasses.dataclass(frozen=True)
class Preset:
    """The published size of a model that conf/model has a file for."""

    vocabulary: int
    """Tokens that its authors used."""
    parameters: float
    """The published number of parameters."""
    rounding: float = 0.0
    """The relative error of a published number that is rounded; 0: it is exact."""


@dataclasses.dataclass(frozen=True)
class WeightNames:
    """The Hugging Face names of our weights; a part that is not listed keeps our name."""

    block: str = BLOCKS
    """The prefix of the weights in blocks."""
    inner: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Part of a block → its Hugging Face names. Several names share one matrix of ours, split by rows."""
    outer: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Module outside the blocks → its Hugging Face name."""
    transposed: bool = False
    """Whether the matrices of blocks are stored as (inputs, outputs)."""
    qkv_by_head: bool = False
    """Whether the fused matrix of queries, keys and values is ordered by head: queries, keys and values of head 0, then
    of head 1, …; ours has all queries first."""
    prefix: str = ""
    """The first part of the names below the head, which a model that was saved without its head lacks."""
    further: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Hugging Face name of a weight → further names that a file may have it under. Those that are there come first."""
    encoder: "WeightNames | None" = None
    """The names of the encoder's weights in an encoder–decoder; the others are those of its decoder."""

    def of(self, name: str) -> tuple[str, ...]:
        """Returns the Hugging Face names of our weight ``name``."""
        if self.encoder is not None and name.startswith(ENCODER):
            return self.encoder.of(name.removeprefix(ENCODER))
        module, leaf = name.rsplit(".", 1)
        if not self.is_in_block(name):
            return (f"{self.outer.get(module, module)}.{leaf}",)
        _, number, part = module.split(".", 2)
        return tuple(f"{self.block}.{number}.{hf_part}.{leaf}" for hf_part in self.inner.get(part, (part,)))

    def all_of(self, name: str) -> tuple[str, ...]:
        """Returns all Hugging Face names of our weight ``name``, which has one in the class, the first choice first."""
        (hf_name,) = self.of(name)
        return (*self.further.get(hf_name, ()), hf_name)

    def is_in_block(self, name: str) -> bool:
        """Whether our weight ``name`` belongs to a Transformer block."""
        return name.removeprefix(ENCODER).startswith(f"{BLOCKS}.")


class Family(abc.ABC):
    """Models that one Hugging Face class computes. Subclasses are stateless."""

    model_type: ClassVar[str]
    """The value of ``model_type`` in config.json."""
    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)
    """The values of ``model.stack`` of its models."""
    weight_names: ClassVar[WeightNames] = WeightNames()
    special_tokens: ClassVar[Mapping[str, str]] = dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT)
    """Role → token for tokenizer_config.json and config.json, in a tokenizer that has end of text."""
    zero_weights: ClassVar[tuple[str, ...]] = ()
    """Hugging Face names of weights that ours have no place for: they must be 0."""
    padding_id: ClassVar[int | None] = None
    """The id of padding from which the class counts positions; None: its positions do not depend on it. A model whose
    tokenizer has another has our own format."""
    always_ties: ClassVar[bool] = False
    """Whether the class ties its output layer to the embedding, whatever ``tie_word_embeddings`` says."""
    width_and_heads: ClassVar[tuple[str, str] | None] = None
    """The names in config.json of the width and the number of heads, where the heads share the width evenly."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """The values that the class has for fields that a config.json leaves out, where they are not read by ``get``."""
    presets: ClassVar[Mapping[str, Preset]] = {}
    """Name of a file in conf/model → its published size."""
    task_heads: ClassVar[Mapping[TaskKind, TaskHead]] = {}
    """Kind of a task → the head of the family's class for it."""

    def names(self, config: ModelConfig) -> WeightNames:
        """Returns the names of the weights of the model that ``config`` describes."""
        return self.weight_names

    def task_head(self, kind: TaskKind) -> TaskHead:
        """Returns the head of a task; that of BERT, in our own format, where the family has no class for it."""
        return self.task_heads.get(kind, OWN_HEADS[kind])

    def decoder_start(self, ids: Mapping[str, int]) -> str | None:
        """Returns the token, of those with ``ids``, that the decoder of two stacks begins with."""
        return decoder_start(ids)

    def context_form(self, start: int, ids: Mapping[str, int]) -> ContextForm:
        """Returns the form in which a published encoder–decoder reads contexts: what follows is the decoder's text.

        Args:
            start: the id of the token that the decoder begins with.
            ids: the id of each token; none, if the tokenizer is not known.
        """
        ends = tuple(ids[token] for token in (document_end(ids),) if token is not None)
        return ContextForm(looks_ahead=True, ending=ends, given=(start,))

    @abc.abstractmethod
    def computes(self, config: ModelConfig) -> bool:
        """Whether the Hugging Face class computes the model that ``config`` describes."""

    @abc.abstractmethod
    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        """Returns config.json for ``config``, without the size of the vocabulary and special tokens."""

    @abc.abstractmethod
    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        """Returns our settings of the model that ``hf_config`` describes; dropout is left out, as in inference.

        It has ``defaults`` for fields that config.json leaves out. A field that is missing all the same, or null, may
        raise KeyError or TypeError: the caller names it.

        Raises:
            ArtifactError: naming ``folder``, when the model has a part that ``Transformer`` does not compute.
        """


def has_parts(config: ModelConfig, *free: str, **parts: object) -> bool:
    """Whether ``config`` has these ``parts``, and defaults elsewhere; sizes, dropout and the fields ``free`` may be
    any."""
    expected = {field.name: field.default for field in dataclasses.fields(ModelConfig)} | parts
    any_value = SIZES.union(OF_TRAINING, free)
    return all(getattr(config, name) == value for name, value in expected.items() if name not in any_value)


def common_fields(model_type: str, architecture: str, config: ModelConfig) -> dict[str, Any]:
    """Returns the fields of config.json that all classes of ``transformers`` share."""
    return {
        "model_type": model_type,
        "architectures": [architecture],
        "tie_word_embeddings": config.tied,
        "dtype": "float32",
    }


def require(folder: Path, hf_config: Mapping[str, Any], values: Mapping[str, object]) -> None:
    """Checks that each of ``values`` is what ``hf_config`` has under that name, or that it has nothing there.

    Raises:
        ArtifactError: naming ``folder`` and the first value that differs.
    """
    for key, value in values.items():
        if hf_config.get(key, value) not in (value, None):
            problem = f"has {key}={hf_config[key]!r} in config.json"
            raise ArtifactError(str(folder), problem, f"only {value!r} is computed")
