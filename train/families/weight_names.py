"""The names of weights in Hugging Face's classes, for the three families of shapes that they know.

ours                                  GPT2LMHeadModel                LlamaForCausalLM
embedding                             transformer.wte                model.embed_tokens
positions                             transformer.wpe                –
blocks.N.attention_norm               transformer.h.N.ln_1           model.layers.N.input_layernorm
blocks.N.attention.qkv                ....attn.c_attn (transposed)   ....self_attn.{q,k,v}_proj
blocks.N.attention.output             ....attn.c_proj (transposed)   ....self_attn.o_proj
blocks.N.mlp_norm                     ....ln_2                       ....post_attention_layernorm
blocks.N.mlp.up                       ....mlp.c_fc (transposed)      ....mlp.{gate,up}_proj
blocks.N.mlp.down                     ....mlp.c_proj (transposed)    ....mlp.down_proj
norm                                  transformer.ln_f               model.norm
head                                  lm_head                        lm_head

OpenAIGPTLMHeadModel (GPT-1) has the names of GPT-2's class but for transformer.tokens_embed and .positions_embed, and
no last norm.
"""

import dataclasses
from collections.abc import Mapping

from headrace.train.config import ModelConfig


@dataclasses.dataclass(frozen=True)
class Family:
    """How a Hugging Face class names its modules; several names share one matrix of ours, split by rows."""

    block: str
    inner: Mapping[str, tuple[str, ...]]
    outer: Mapping[str, str]
    transposed: bool
    """Whether the matrices of a block are stored (inputs, outputs)."""

    def names(self, name: str) -> tuple[str, ...]:
        """The foreign names of our parameter ``name``."""
        module, leaf = name.rsplit(".", 1)
        if not module.startswith("blocks."):
            return (f"{self.outer[module]}.{leaf}",)
        _, number, part = module.split(".", 2)
        return tuple(f"{self.block}.{number}.{foreign}.{leaf}" for foreign in self.inner[part])


GPT2 = Family(
    block="transformer.h",
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
GPT1 = dataclasses.replace(
    GPT2,
    outer={
        "embedding": "transformer.tokens_embed",
        "positions": "transformer.positions_embed",
        "head": "lm_head",
    },
)
LLAMA = Family(
    block="model.layers",
    inner={
        "attention_norm": ("input_layernorm",),
        "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "attention.output": ("self_attn.o_proj",),
        "mlp_norm": ("post_attention_layernorm",),
        "mlp.up": ("mlp.gate_proj", "mlp.up_proj"),
        "mlp.down": ("mlp.down_proj",),
    },
    outer={"embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"},
    transposed=False,
)


def family_of(config: ModelConfig) -> Family | None:
    """The Hugging Face class that computes what ``config`` describes, if there is one."""
    parts = (config.positions, config.norm, config.activation)
    if parts == ("learned", "layernorm", "gelu") and config.bias and config.kv_heads == config.heads:
        if config.norm_place == "pre":
            return GPT2
        return GPT1 if config.mlp_width == 4 * config.width else None
    return LLAMA if parts == ("rope", "rmsnorm", "swiglu") and config.norm_place == "pre" else None
