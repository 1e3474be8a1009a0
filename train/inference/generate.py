"""Texts and fillings of the model in a Hugging Face folder. Callers need not import torch."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.train.inference.settings import Inference, Sampling

if TYPE_CHECKING:
    from headrace.train.inference.generator import Generation, LikelyText, TokenChoice
    from headrace.train.inference.language_model import Chat, LanguageModel


@dataclasses.dataclass(frozen=True)
class GeneratedTexts:
    """Texts, and the memory that each took."""

    generations: "Sequence[Generation]"
    cache_formula: str
    """The bytes of keys and values of one token; empty for a model whose keys and values are not cached."""
    cache_bytes: int
    """The bytes of the longest sequence."""
    choices: "Sequence[Sequence[TokenChoice]]" = ()
    """The probabilities of the tokens of each text, where alternatives are asked for."""


def generate(
    folder: Path,
    settings: Inference,
    prompts: Sequence[str],
    sampling: Sampling,
    show: Callable[[int, str], None],
    alternatives: int = 0,
) -> GeneratedTexts:
    """Returns one text for each of ``prompts``, with the device and the precision of ``settings``.

    With ``alternatives`` each token has its probability and those of this many other tokens in its place.

    Raises:
        ArtifactError: when ``folder`` holds no whole model, or no tokenizer.
        ConfigError: when ``max_tokens`` does not fit the model's window, or there is no GPU where one is asked for.
    """
    from headrace.train.inference.generator import generator_of, token_choices
    from headrace.train.inference.transformers_model import open_folder
    from headrace.train.model.cache import cache_bytes
    from headrace.train.model.transformer import Transformer

    model = open_folder(folder, settings)
    generator = generator_of(model)
    generations = generator.generate(prompts, sampling, show)
    chosen = (
        [token_choices(generator, model.tokenizer, text, alternatives) for text in generations] if alternatives else []
    )
    if not isinstance(model.network, Transformer):
        return GeneratedTexts(generations, "", 0, chosen)
    shape, value_bytes = model.network.config, model.network.embedding.weight.element_size()
    longest = max(generation.prompt_tokens + len(generation.tokens) for generation in generations)
    formula = shape.cache_formula(value_bytes)
    return GeneratedTexts(generations, formula, cache_bytes(shape, longest, value_bytes), chosen)


def fill(folder: Path, settings: Inference, text: str, candidates: int) -> "list[list[LikelyText]]":
    """Returns the most likely tokens, or spans of tokens, of each masked position of ``text``.

    See ``masked_positions.filled`` for an encoder and ``masked_spans.filled_span`` for an encoder–decoder.

    Raises:
        ArtifactError: when ``folder`` holds no whole model, or no tokenizer.
        ConfigError: when the model fills no masked positions, or ``text`` has none or does not fit its window.
    """
    from headrace.train.inference.masked_positions import filled, filled_span, restores_spans
    from headrace.train.inference.transformers_model import open_folder

    model = open_folder(folder, settings)
    if restores_spans(model):
        return [filled_span(model, folder, text, candidates)]
    return filled(model, folder, text, candidates)


def open_model(folder: Path, settings: Inference) -> "LanguageModel":
    """Returns the model in ``folder``, for a program that works with it; see ``LanguageModel.open``."""
    from headrace.train.inference.language_model import LanguageModel

    return LanguageModel.open(folder, settings)


def open_chat(folder: Path, settings: Inference, sampling: Sampling, system: str) -> "Chat":
    """Returns a conversation with the model in ``folder``; see ``Chat.open``."""
    from headrace.train.inference.language_model import Chat

    return Chat.open(folder, settings, sampling, system)
