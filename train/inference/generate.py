"""Generation with the model in a Hugging Face folder, for whoever imports no torch."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.train.inference.generation.settings import Sampling
from headrace.train.inference.settings import Inference

if TYPE_CHECKING:
    from headrace.train.inference.generation.generator import Generation


@dataclasses.dataclass(frozen=True)
class Written:
    """Texts, and what it took to remember each."""

    generations: "Sequence[Generation]"
    cache_formula: str
    """How many bytes of keys and values a token has; empty where the model keeps none here."""
    cache_bytes: int
    """The same of the longest sequence."""


def generate(
    folder: Path, settings: Inference, prompts: Sequence[str], sampling: Sampling, show: Callable[[int, str], None]
) -> Written:
    """One text for each of ``prompts``, on the device and in the precision that ``settings`` asks for.

    Raises:
        ArtifactError: when ``folder`` holds no whole model, or no tokenizer.
        ConfigError: when ``max_tokens`` does not fit the model's window, or there is no GPU where one is asked for.
    """
    from headrace.train.inference.generation.generator import generator_of
    from headrace.train.inference.transformers_model import open_folder
    from headrace.train.model.cache import cache_bytes
    from headrace.train.model.transformer import Transformer

    subject = open_folder(folder, settings)
    model = subject.scorer.model
    found = generator_of(subject).generate(prompts, sampling, show)
    if not isinstance(model, Transformer):
        return Written(found, "", 0)
    shape, value_bytes = model.config, model.embedding.weight.element_size()
    longest = max(one.prompt_tokens + len(one.tokens) for one in found)
    formula = (
        f"{cache_bytes(shape, 1, value_bytes):,} bytes a token"
        f" = 2 · {shape.layers} layers · {shape.kv_heads} key/value heads · {shape.head_width} wide"
        f" · {value_bytes} bytes"
    )
    return Written(found, formula, cache_bytes(shape, longest, value_bytes))
