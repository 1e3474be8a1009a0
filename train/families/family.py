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
from headrace.train.parts import ActivationName, StackName

FieldTable = dict[str, Any]
"""Values by name; a subclass adds to that of its base."""
FieldNames = dict[str, str]
BLOCKS = "blocks"
"""The prefix of our weights in Transformer blocks: ``blocks.<number>.<part>.<leaf>``."""
ENCODER = "encoder."
"""The prefix of our weights in the encoder of an encoder–decoder."""

SIZES = frozenset(("layers", "width", "heads", "kv_heads", "context", "mlp_width", "norm_epsilon", "tied"))
"""Fields of ModelConfig that are numbers of every model, not parts."""
OF_TRAINING = frozenset(("dropout", "dropout_places", "deviations"))
"""Fields of ModelConfig on which no output of a trained model depends."""
EPSILON = 1e-5
"""The ε of norms of classes that have no field for it."""


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
    """Models that one Hugging Face class computes: tables, and methods for what no table says. It has no state."""

    model_type: ClassVar[str]
    """The value of ``model_type`` in config.json."""
    architecture: ClassVar[str] = ""
    """The name of the class."""
    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)
    """The values of ``model.stack`` of its models."""
    parts: ClassVar[FieldTable] = {}
    """The fields of ModelConfig that all its models have, where they are not the default."""
    free: ClassVar[tuple[str, ...]] = ()
    """Fields of ModelConfig, besides sizes, that differ from model to model."""
    sizes: ClassVar[FieldNames] = {}
    """Field of ModelConfig → its name in config.json. Without ``kv_heads`` there are as many as heads, without
    ``norm_epsilon`` it is 1e-5, without ``mlp_width`` four times the width."""
    widens: ClassVar[bool] = False
    """Whether the inner width is four times the width where config.json has none."""
    ties: ClassVar[bool] = False
    """Whether all models of the class have a tied output layer."""
    ties_by_default: ClassVar[bool] = True
    """Whether the output layer is tied where config.json does not say."""
    activation_field: ClassVar[str] = ""
    """The name of the activation in config.json, where there are several."""
    activations: ClassVar[Mapping[str, ActivationName]] = {}
    """Value there → our activation; the first one is that of the class."""
    fixed: ClassVar[FieldTable] = {}
    """Name in config.json → the one value that is computed."""
    expected: ClassVar[FieldTable] = {}
    """The same of fields that an export leaves out."""
    dropout_fields: ClassVar[tuple[str, ...]] = ()
    """The names of the probability of dropout in config.json."""
    defaults: ClassVar[FieldTable] = {}
    """The values that the class has for fields that a config.json leaves out."""
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

    def computes(self, config: ModelConfig) -> bool:
        """Whether the Hugging Face class computes the model that ``config`` describes."""
        activation = {"activation": config.activation} if config.activation in self.activations.values() else {}
        return (
            ("kv_heads" in self.sizes or config.kv_heads == config.heads)
            and ("norm_epsilon" in self.sizes or config.norm_epsilon == EPSILON)
            and ("mlp_width" in self.sizes or config.mlp_width == 4 * config.width)
            and (config.tied or not self.ties)
            and bool(activation or not self.activations)
            and has_parts(config, *self.free, **{**self.parts, **activation})
        )

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        """Returns config.json for ``config``, without the size of the vocabulary and special tokens."""
        names = {ours: theirs for theirs, ours in self.activations.items()}
        return {
            **common_fields(self.model_type, self.architecture, config),
            **{name: getattr(config, field) for field, name in self.sizes.items()},
            **({self.activation_field: names[config.activation]} if names else {}),
            **self.fixed,
            **dict.fromkeys(self.dropout_fields, config.dropout),
            **self.further_to_hf(config),
        }

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        """Returns our settings of the model that ``hf_config`` describes; dropout is left out, as in inference.

        It has ``defaults`` for fields that config.json leaves out. A field that is missing all the same, or null, may
        raise KeyError or TypeError: the caller names it.

        Raises:
            ArtifactError: naming ``folder``, when the model has a part that ``Transformer`` does not compute.
        """
        tying = {"tie_word_embeddings": True} if self.ties else {}
        require(folder, hf_config, {**self.fixed, **self.expected, **tying})
        settings = dict(self.parts)
        if self.activations:
            name = hf_config.get(self.activation_field, next(iter(self.activations)))
            if name not in self.activations:
                problem = f"has {self.activation_field}={name!r} in config.json"
                raise ArtifactError(str(folder), problem, f"only {', '.join(self.activations)} are computed")
            settings["activation"] = self.activations[name]
        if self.sizes:
            settings |= self.read_sizes(hf_config)
        settings["tied"] = self.ties or hf_config.get("tie_word_embeddings", self.ties_by_default)
        return ModelConfig(**{**settings, **self.further_from_hf(hf_config, folder)})

    def read_sizes(self, hf_config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the fields of ModelConfig that config.json has under the names of ``sizes``."""
        by_rule = {"kv_heads", "mlp_width"} if self.widens else {"kv_heads"}
        values = {field: hf_config[name] for field, name in self.sizes.items() if field not in by_rule}
        usual = {"kv_heads": values.get("heads"), "mlp_width": 4 * values["width"]}
        given = {field: hf_config.get(self.sizes.get(field, "")) for field in usual}
        return {field: given[field] or value for field, value in usual.items()} | values

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Returns the fields of config.json that the tables do not have."""
        return {}

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Returns the settings that the tables do not give.

        Raises:
            ArtifactError: when the model has a part that is not computed.
        """
        return {}


def has_parts(config: ModelConfig, *free: str, **parts: object) -> bool:
    """Whether ``config`` has these ``parts``, and defaults elsewhere; sizes, dropout, the base of rotations and the
    fields ``free`` may be any."""
    expected = {field.name: field.default for field in dataclasses.fields(ModelConfig)} | parts
    any_value = SIZES.union(OF_TRAINING, free, {"rope_theta"})
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
