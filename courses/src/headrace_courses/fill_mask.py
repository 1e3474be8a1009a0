"""The most probable tokens of each masked position of a text, and what other programs need of such texts.

python -m headrace_courses.fill_mask "Paris is the [MASK] of France."                  your newest weights
python -m headrace_courses.fill_mask "The [MASK] turns." --top-k 10 --model path/to/bert

Each candidate has a line: the number of the position, the probability p, -ln p, the token.

    1  0.4120  0.887  capital

Shapes: T tokens of the sequence, K masked positions, V vocabulary.
"""

import dataclasses
import math
import re
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
import torch

from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.model_options import model_folder
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.core.environment import let_threads_sleep
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.report.formatting import visible
from headrace.train.inference.encoder_likelihood import MaskedLikelihood, MaskingTokens, logits_at
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.transformers_model import open_folder
from headrace_courses.program import run as run_program

MASKS = ("[MASK]", "<mask>")
"""The ways to write a masked position in a text, whatever the tokenizer calls it."""


@dataclasses.dataclass(frozen=True)
class LikelyText:
    """A token, or a span of tokens, for one place of a text."""

    text: str
    tokens: tuple[int, ...]
    log_probability: float
    """ln p given what the model reads of the text."""

    @property
    def probability(self) -> float:
        """The probability p."""
        return math.exp(self.log_probability)


@command
@click.argument("text", metavar="TEXT")
@click.option("--top-k", metavar="K", default="5", show_default=True, help="Candidates of each position.")
@click.option("--model", metavar="FOLDER", default="", type=click.Path(), help="A model in Hugging Face's format.")
@run_option
def fill_mask(overrides: Sequence[str], text: str, top_k: str, model: str, run: str) -> None:
    """Prints the most probable tokens of each [MASK] of TEXT, by an encoder."""
    config, number = config_of(overrides), value_of(Positive, top_k, "--top-k")
    folder = model_folder(config.root, model, run)
    let_threads_sleep()
    for position, candidates in enumerate(filled(open_folder(folder, config.evaluation), folder, text, number), 1):
        print_candidates(position, candidates)


def print_candidates(position: int, candidates: Sequence[LikelyText]) -> None:
    """Prints a line for each of the ``candidates`` of the masked position of this number."""
    for one in candidates:
        shown = visible(one.text, len(one.text))
        print(f"{position}  {one.probability:.4f}  {-one.log_probability:.3f}  {shown}")


@torch.inference_mode()
def filled(model: InferenceModel, folder: Path, text: str, candidates: int) -> list[list[LikelyText]]:
    """Returns the most likely tokens of each masked position of ``text``, the most likely first.

    The tokens of one position are predicted with all others masked.

    Raises:
        ConfigError: when the model in ``folder`` is no encoder, or ``text`` has no masked position or does not fit.
    """
    likelihood = encoder_of(model, folder)
    sequence_T = masked_sequence(model, likelihood, text)
    positions_K = np.flatnonzero(sequence_T == likelihood.tokens.mask)
    logits_KV = logits_at(likelihood.network, sequence_T[None], positions_K[None], model.device)[0].float()
    log_p_KV = logits_KV.log_softmax(1)[:, : model.tokens]
    top = log_p_KV.topk(min(candidates, log_p_KV.shape[1]), dim=1)
    return [
        [
            LikelyText(model.tokenizer.decode([token]).strip(), (token,), log_p)
            for token, log_p in zip(ids, values, strict=True)
        ]
        for ids, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]


def encoder_of(model: InferenceModel, folder: Path) -> MaskedLikelihood:
    """Returns the encoder of ``model``, which is in ``folder``.

    Raises:
        ConfigError: when it is no encoder.
    """
    if not isinstance(model.likelihood, MaskedLikelihood):
        remedy = "give an encoder, or let it continue the text: headrace generate --prompt TEXT"
        if model.stack == "discriminator":
            remedy = "give the folder of its generator"
        raise ConfigError(
            "--model", f"{str(folder)!r} holds a model of stack {model.stack}, which fills no masked position", remedy
        )
    return model.likelihood


def masked_sequence(model: InferenceModel, likelihood: MaskedLikelihood, text: str) -> np.ndarray:
    """Returns ``sequence_of`` a ``text`` with masked positions.

    Raises:
        ConfigError: when ``text`` has no masked position or does not fit the model's window.
    """
    if not any(mask in text for mask in MASKS):
        raise ConfigError("TEXT", f"has no masked position: {text!r}", "write [MASK] where a token is to be predicted")
    return sequence_of(model, likelihood.tokens, text)


def sequence_of(model: InferenceModel, tokens: MaskingTokens, text: str) -> np.ndarray:
    """Returns the tokens of ``text``, with the mask token at its masked positions, if any.

    A space before a masked position belongs to the token that is predicted there.

    Raises:
        ConfigError: when ``text`` does not fit the model's window.
    """
    *before, last = re.split("|".join(map(re.escape, MASKS)), text)
    encoded = model.tokenizer.encode([*(part.rstrip() for part in before), last])
    joined = [np.append(ids.astype(np.int64), tokens.mask) for ids in encoded[:-1]]
    sequence_T = tokens.framed(np.concatenate([*joined, encoded[-1].astype(np.int64)]))
    check_fits(model, len(sequence_T))
    return sequence_T


def check_fits(model: InferenceModel, positions: int) -> None:
    """Refuses a text that needs more ``positions`` than ``model`` has.

    Raises:
        ConfigError: naming both numbers.
    """
    if positions > model.window_tokens:
        problem = f"has {positions} tokens, and the model has {model.window_tokens} positions"
        raise ConfigError("TEXT", problem, "give a shorter text")


if __name__ == "__main__":
    run_program(fill_mask)
