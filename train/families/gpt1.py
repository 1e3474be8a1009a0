"""GPT-1 (Radford et al. 2018): ``OpenAIGPTLMHeadModel``."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from headrace.train.families.family import Family, FieldNames, FieldTable, Preset
from headrace.train.families.gpt2 import SIZES, Gpt2


class Gpt1(Family):
    """GPT-2's parts, with LayerNorm after each residual addition and none at the end."""

    model_type = "openai-gpt"
    architecture = "OpenAIGPTLMHeadModel"
    parts: ClassVar[FieldTable] = {"norm_place": "post"}
    sizes: ClassVar[FieldNames] = SIZES
    fixed: ClassVar[FieldTable] = {"afn": "gelu"}  # the name that this class has for the tanh form
    dropout_fields = Gpt2.dropout_fields
    defaults = Gpt2.defaults
    weight_names = dataclasses.replace(
        Gpt2.weight_names,
        outer={
            "embedding": "transformer.tokens_embed",
            "positions": "transformer.positions_embed",
            "head": "lm_head",
        },
    )
    width_and_heads = Gpt2.width_and_heads
    presets: ClassVar[Mapping[str, Preset]] = {
        "gpt1": Preset(40478, 116_534_784),  # huggingface.co/openai-community/openai-gpt; "117M" in the GPT-2 paper
    }
