"""The table of model families: a new family is one line here and a module of this folder. And our own format, for
mixtures of the families' parts: no class of ``transformers`` computes them."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.pipeline.core.kinds import Kinds
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.context import LEFT_TO_RIGHT, ContextForm
from headrace.train.families.family import Family, Preset
from headrace.train.families.gpt2 import Gpt2

GONE = ("generator_width",)
"""Fields that older versions had, on which no output depends: null in what is written, whose bytes stay."""


class Own(Family):
    """config.json holds our ModelConfig, and the weights have our names."""

    model_type = "headrace"
    presets: ClassVar[Mapping[str, Preset]] = {
        f"{name}_banded": preset for name, preset in Gpt2.presets.items() if name.startswith("gpt3")
    } | {
        "transformer_base": Preset(37_000, 65e6, rounding=0.03),
        "transformer_big": Preset(37_000, 213e6, rounding=0.006),
        "transformer_decoder": Preset(37_000, 37_858_304),  # counted from its parts: none is published
        "falcon_40b": Preset(65_024, 41_303_293_952),  # huggingface.co/tiiuae/falcon-40b
    }

    def computes(self, config: ModelConfig) -> bool:
        return True

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        return {"model_type": self.model_type, "shape": dataclasses.asdict(config) | dict.fromkeys(GONE)}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        shape = {name: value for name, value in hf_config["shape"].items() if name not in GONE}
        return decode(ModelConfig, shape)


OWN = Own()
FAMILIES = Kinds(
    "family",
    Family,
    {
        "openai-gpt": "headrace.train.families.gpt1:Gpt1",
        "gpt2": "headrace.train.families.gpt2:Gpt2",
        "gpt_neo": "headrace.train.families.gpt_neo:GptNeo",
        "opt": "headrace.train.families.opt:Opt",
        "bloom": "headrace.train.families.bloom:Bloom",
        "mpt": "headrace.train.families.mpt:Mpt",
        "gpt_neox": "headrace.train.families.gpt_neox:GptNeoX",
        "starcoder2": "headrace.train.families.starcoder2:Starcoder2",
        "llama": "headrace.train.families.llama:Llama",
        "mistral": "headrace.train.families.mistral:Mistral",
        "qwen2": "headrace.train.families.qwen2:Qwen2",
        "qwen3": "headrace.train.families.qwen3:Qwen3",
        "olmo": "headrace.train.families.olmo:Olmo",
        "olmo2": "headrace.train.families.olmo2:Olmo2",
        "gemma": "headrace.train.families.gemma:Gemma",
        "gemma2": "headrace.train.families.gemma2:Gemma2",
        "bert": "headrace.train.families.bert:Bert",
        "roberta": "headrace.train.families.roberta:Roberta",
        "modernbert": "headrace.train.families.modernbert:ModernBert",
        "electra": "headrace.train.families.electra:Electra",
        "albert": "headrace.train.families.albert:Albert",
        "t5": "headrace.train.families.t5:T5",
        "umt5": "headrace.train.families.umt5:Umt5",
        "bart": "headrace.train.families.bart:Bart",
    },
)
"""The families that have a class in ``transformers``, by ``model_type``. The first one that computes a model wins."""


def families() -> tuple[Family, ...]:
    """Returns all families of the table, in its order; those of installed packages come last."""
    return tuple(map(_family, FAMILIES.tags))


@functools.cache
def _family(model_type: str) -> Family:
    family: Family = FAMILIES[model_type]()
    return family


def family_of(config: ModelConfig, context_form: ContextForm = LEFT_TO_RIGHT) -> Family:
    """Returns the first family that computes what ``config`` describes.

    A mixture of several families' parts has our own format, and a prefix LM of one stack: no class of ``transformers``
    has its mask.
    """
    if context_form.looks_ahead and config.stack == "decoder":
        return OWN
    same_stack = (family for family in families() if config.stack in family.stacks)
    return next((family for family in same_stack if family.computes(config)), OWN)


def family_of_type(model_type: object) -> Family | None:
    """Returns the family with this ``model_type`` in config.json; None for a model that Headrace does not compute."""
    if model_type == OWN.model_type:
        return OWN
    return _family(str(model_type)) if model_type in FAMILIES else None
