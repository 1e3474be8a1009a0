"""GPT-2 (Radford et al. 2019) and GPT-3's dense sizes (Brown et al. 2020): ``GPT2LMHeadModel``."""

from collections.abc import Mapping
from typing import ClassVar

from headrace.train.families.family import EPSILON, Family, FieldNames, FieldTable, Preset, WeightNames
from headrace.train.families.task_heads import TaskHead, TaskKind, scored, tags
from headrace.train.parts import ActivationName

VOCABULARY = 50257
SIZES: FieldNames = {
    "layers": "n_layer",
    "width": "n_embd",
    "heads": "n_head",
    "context": "n_positions",
    "norm_epsilon": "layer_norm_epsilon",
}
"""The names in config.json that GPT-1 has, too."""
TABLE_D1 = 0.004
"""Brown et al. 2020, table D.1, gives millions of parameters to three or four digits."""


class Gpt2(Family):
    """Learned positions, LayerNorm before each part, GELU, biases, as many key/value heads as query heads."""

    model_type = "gpt2"
    architecture = "GPT2LMHeadModel"
    sizes: ClassVar[FieldNames] = SIZES | {"mlp_width": "n_inner"}
    widens = True
    activation_field = "activation_function"
    activations: ClassVar[Mapping[str, ActivationName]] = {"gelu_new": "gelu", "gelu": "gelu_exact", "relu": "relu"}
    expected: ClassVar[FieldTable] = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
    dropout_fields: ClassVar[tuple[str, ...]] = ("embd_pdrop", "attn_pdrop", "resid_pdrop")
    defaults: ClassVar[FieldTable] = {"layer_norm_epsilon": EPSILON}
    weight_names = WeightNames(
        block="transformer.h",
        prefix="transformer",
        inner={
            "attention_norm": ("ln_1",),
            "attention.qkv": ("attn.c_attn",),
            "attention.output": ("attn.c_proj",),
            "mlp_norm": ("ln_2",),
            "mlp.up": ("mlp.c_fc",),
            "mlp.down": ("mlp.c_proj",),
        },
        outer={
            "embedding": "transformer.wte",
            "positions": "transformer.wpe",
            "norm": "transformer.ln_f",
            "head": "lm_head",
        },
        transposed=True,
    )
    width_and_heads = ("n_embd", "n_head")
    task_heads: ClassVar[Mapping[TaskKind, TaskHead]] = {
        "classification": scored("GPT2ForSequenceClassification"),
        "token_classification": tags("GPT2ForTokenClassification"),
    }
    presets: ClassVar[Mapping[str, Preset]] = {
        "gpt2_small": Preset(VOCABULARY, 124_439_808),  # huggingface.co/openai-community/gpt2 and its larger brothers
        "gpt2_medium": Preset(VOCABULARY, 354_823_168),
        "gpt2_large": Preset(VOCABULARY, 774_030_080),
        "gpt2_xl": Preset(VOCABULARY, 1_557_611_200),
        "gpt3_125m": Preset(VOCABULARY, 125e6, TABLE_D1),
        "gpt3_350m": Preset(VOCABULARY, 356e6, TABLE_D1),
        "gpt3_760m": Preset(VOCABULARY, 760e6, TABLE_D1),
        "gpt3_1_3b": Preset(VOCABULARY, 1320e6, TABLE_D1),
        "gpt3_2_7b": Preset(VOCABULARY, 2650e6, TABLE_D1),
        "gpt3_6_7b": Preset(VOCABULARY, 6660e6, TABLE_D1),
        "gpt3_13b": Preset(VOCABULARY, 12_850e6, TABLE_D1),
        "gpt3_175b": Preset(VOCABULARY, 174_600e6, TABLE_D1),
    }
