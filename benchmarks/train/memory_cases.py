"""The cases of plan_memory.py: shapes of models, and how they are trained."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from headrace.train.config import ModelConfig
from headrace.train.engine.optimizers.adafactor import Adafactor
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.engine.optimizers.base import Optimizer
from headrace.train.engine.optimizers.muon import Muon
from headrace.train.engine.optimizers.stable_adamw import StableAdamW
from headrace.train.objectives.base import Objective, of_stack
from headrace.train.objectives.causal import Causal
from headrace.train.objectives.denoising import Denoising
from headrace.train.objectives.masked import Masked
from headrace.train.objectives.reconstruction import Reconstruction

SMALL = ModelConfig(layers=1, width=32, heads=2, kv_heads=2, context=32, mlp_width=64)
STATES = ModelConfig(layers=6, width=512, heads=8, kv_heads=8, context=64, mlp_width=2048)
MATRICES = ModelConfig(layers=8, width=256, heads=8, kv_heads=8, context=64, mlp_width=1024)
GPT2 = ModelConfig(layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768)
LLAMA = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=512,
    positions="rope", norm="rmsnorm", activation="swiglu", bias=False, tied=False,
)  # fmt: skip
GROUPED = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=2, context=256, mlp_width=512,
    positions="rope", norm="rmsnorm", activation="swiglu", bias=False,
)  # fmt: skip
BERT = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, stack="encoder", norm_place="post",
    activation="gelu_exact", segments=2, embedding_norm=True, output_transform=True,
)  # fmt: skip
MODERNBERT = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=288, stack="encoder", positions="rope",
    attention_pattern=("full", "window", "window"), window=17, window_theta=1000.0, norm="layernorm_no_bias",
    activation="geglu_exact", bias=False, embedding_norm=True, first_attention_norm=False, output_transform=True,
)  # fmt: skip
ALBERT = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, stack="encoder", norm_place="post",
    activation="gelu", segments=2, embedding_norm=True, output_transform=True, shared_layers=True, embedding_width=64,
)  # fmt: skip
GEMMA2 = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=3, context=256, mlp_width=512, attention_width=384, positions="rope",
    norm="rmsnorm_1p", norm_place="sandwich", activation="geglu", bias=False, scaled_embedding=True,
    attention_pattern=("window", "full"), window=64, attention_cap=50.0, logit_cap=30.0,
)  # fmt: skip
OLMO2 = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=512, positions="rope", norm="rmsnorm",
    norm_place="after", qk_norm="width", activation="swiglu", bias=False, tied=False,
)  # fmt: skip
BLOOM = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, positions="alibi", embedding_norm=True,
)  # fmt: skip
GPT_NEOX = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, positions="rope", rotary_fraction=0.25,
    norm_place="parallel", activation="gelu_exact", tied=False,
)  # fmt: skip
T5 = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, positions="t5", attention_scale_width=1,
    norm="rmsnorm", activation="relu", bias=False, stack="encoder_decoder", scaled_output=True,
)  # fmt: skip
UMT5 = dataclasses.replace(T5, positions="t5_by_layer")
BART = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, position_offset=2, norm_place="post",
    embedding_norm=True, activation="gelu_exact", stack="encoder_decoder",
)  # fmt: skip
LSTM = dataclasses.replace(GPT2, positions="none", mixer="lstm")
OPTIMIZERS: Mapping[str, Optimizer] = {
    "adamw": AdamW(learning_rate=1e-3),
    "stable_adamw": StableAdamW(learning_rate=1e-3),
    "muon": Muon(learning_rate=1e-3),
    "adafactor": Adafactor(learning_rate=1e-3),
    "ema": AdamW(learning_rate=1e-3, ema_decay=0.999),
}
"""The optimizer of a case is the one that its name begins with, else AdamW."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A shape with a vocabulary, and how it is trained."""

    model: ModelConfig
    vocabulary: int = 2000
    precision: str = "fp32"
    stage: int = 1
    rows: int = 16
    """Rows of a micro-batch."""
    accumulation: int = 1
    """Micro-batches of an update."""
    offload: str = "none"
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Other fields of TrainingConfig."""

    @property
    def sequence_ranks(self) -> int:
        ranks: int = self.settings.get("sequence_ranks", 1)
        return ranks


RECOMPUTED, SELECTIVE, SUMS = {"recompute": "full"}, {"recompute": "selective"}, {"gradient_sums": "fp32"}
PARTS = {"sequence_ranks": 2}
"""For an even number of ranks."""
CASES = {
    **{f"states-{stage}": Case(STATES, stage=stage, rows=1) for stage in (0, 1, 2, 3)},
    **{f"states-bf16-{stage}": Case(STATES, precision="bf16", stage=stage, rows=1) for stage in (1, 2, 3)},
    **{f"{name}-{stage}": Case(MATRICES, stage=stage, rows=1) for name in list(OPTIMIZERS)[1:] for stage in (0, 1, 3)},
    "muon-bf16-2": Case(MATRICES, precision="bf16", stage=2, rows=1),
    "gpt2": Case(GPT2),
    "gpt2-accumulated": Case(GPT2, accumulation=2),
    "gpt2-bf16": Case(GPT2, precision="bf16"),
    "gpt2-vocabulary": Case(GPT2, 50257, stage=0, rows=4),
    "llama": Case(LLAMA),
    "llama-bf16": Case(LLAMA, precision="bf16"),
    "llama-grouped": Case(GROUPED, stage=2),
    "bert": Case(BERT),
    "bert-vocabulary": Case(BERT, 30522, stage=0),
    "bert-bf16": Case(BERT, precision="bf16"),
    "modernbert": Case(MODERNBERT),
    "albert": Case(ALBERT),
    "albert-bf16": Case(ALBERT, precision="bf16"),
    "gemma2": Case(GEMMA2),
    "olmo2": Case(OLMO2),
    "bloom": Case(BLOOM),
    "gpt_neox": Case(GPT_NEOX),
    "lstm": Case(LSTM),
    "lstm-bf16": Case(LSTM, precision="bf16"),
    "rnn": Case(dataclasses.replace(LSTM, mixer="rnn")),
    "window_mlp": Case(dataclasses.replace(LSTM, mixer="window_mlp", window=4, mlp_width=256)),
    "t5": Case(T5),
    "umt5": Case(UMT5),
    "t5-bf16": Case(T5, precision="bf16"),
    "bart": Case(BART),
    "bart-bf16": Case(BART, precision="bf16"),
    "bart-vocabulary": Case(BART, 50265, stage=0, rows=4),
    **{f"sums-bf16-{stage}": Case(STATES, precision="bf16", stage=stage, rows=1, settings=SUMS) for stage in (1, 2, 3)},
    **{
        f"offload-{precision}-{stage}": Case(STATES, precision=precision, stage=stage, rows=1, offload="optimizer")
        for precision, stage in (("fp32", 1), ("bf16", 1), ("bf16", 2), ("bf16", 3))
    },
    "offload-accumulated": Case(STATES, precision="bf16", stage=2, rows=1, accumulation=2, offload="optimizer"),
    "offload-sums": Case(STATES, precision="bf16", stage=1, rows=1, settings=SUMS, offload="optimizer"),
    "sums-fp16-1": Case(STATES, precision="fp16", rows=1, settings=SUMS),
    "states-fp16-1": Case(STATES, precision="fp16", rows=1),
    "gpt2-recomputed": Case(GPT2, rows=32, settings=RECOMPUTED),
    "llama-recomputed": Case(LLAMA, rows=32, settings=RECOMPUTED),
    "llama-recomputed-bf16": Case(LLAMA, precision="bf16", rows=32, settings=RECOMPUTED),
    "bert-recomputed": Case(BERT, rows=32, settings=RECOMPUTED),
    "albert-recomputed": Case(ALBERT, rows=32, settings=RECOMPUTED),
    "bart-recomputed": Case(BART, settings=RECOMPUTED),
    "bloom-recomputed": Case(BLOOM, settings=RECOMPUTED),
    "t5-recomputed": Case(T5, settings=RECOMPUTED),
    "umt5-recomputed": Case(UMT5, settings=RECOMPUTED),
    "gemma2-recomputed": Case(GEMMA2, settings=RECOMPUTED),
    "lstm-recomputed": Case(LSTM, rows=32, settings=RECOMPUTED),
    "gpt2-selective": Case(GPT2, settings=SELECTIVE),
    "gpt2-selective-dropout": Case(dataclasses.replace(GPT2, dropout=0.1), settings=SELECTIVE),
    "llama-selective": Case(LLAMA, settings=SELECTIVE),
    "llama-grouped-selective": Case(GROUPED, settings=SELECTIVE),
    "bert-selective": Case(BERT, settings=SELECTIVE),
    "albert-selective": Case(ALBERT, settings=SELECTIVE),
    "bart-selective": Case(BART, settings=SELECTIVE),
    "bloom-selective": Case(BLOOM, settings=SELECTIVE),
    "t5-selective": Case(T5, settings=SELECTIVE),
    "umt5-selective": Case(UMT5, settings=SELECTIVE),
    "gemma2-selective": Case(GEMMA2, settings=SELECTIVE),
    "gpt2-parts": Case(GPT2, settings=PARTS),
    "gpt2-parts-3": Case(GPT2, stage=3, settings=PARTS),
    "llama-grouped-parts": Case(GROUPED, settings=PARTS),
    "llama-parts-recomputed": Case(LLAMA, rows=32, settings=PARTS | RECOMPUTED),
}


OBJECTIVES: Mapping[str, Objective] = {
    "decoder": Causal(),
    "encoder": Masked(),
    "encoder_decoder": of_stack(Denoising(), "encoder_decoder"),
    "bart": Reconstruction(),
}
"""The objective of each stack, and of cases whose names begin with their own."""
