"""The masked positions of a text, and the tokens that an encoder predicts there."""

import re
from pathlib import Path

import numpy as np
import torch

from headrace.pipeline.core.errors import ConfigError
from headrace.train.families.hf_config import GENERATOR
from headrace.train.inference.encoder_likelihood import MaskingTokens
from headrace.train.inference.generation.alternatives import LikelyText
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.masked_likelihood import MaskedLikelihood, logits_at

MASKS = ("[MASK]", "<mask>")
"""The ways to write a masked position in a text, whatever the tokenizer calls it."""


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
            remedy = f"give its generator: --model {folder / GENERATOR}"
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
