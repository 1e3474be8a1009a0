"""The masked positions of a text: tokens that an encoder predicts there, or the span that an encoder–decoder writes.

A candidate is a span of any tokens but special ones. Its probability is that the decoder writes it and after it one of
the tokens that end it: the next token of the text, or a sentinel or the end of text.

    text                    the mill <mask> the wheel
    BART    encoder reads   <s> the mill <mask> the wheel </s>
            decoder         </s> <s> the mill  span  the
    T5      encoder reads   the mill <extra_id_0> the wheel </s>
            decoder         <pad> <extra_id_0>  span  <extra_id_1>   or   span  </s>

A beam search, with one beam for each candidate, extends spans token by token; each span under way is a candidate. The
search ends when no span under way is more likely than the last candidate: no longer span of it can be.

Shapes: R spans under way, V vocabulary, M features.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from headrace.pipeline.core.errors import ConfigError
from headrace.train.context import ContextForm
from headrace.train.families.hf_config import GENERATOR
from headrace.train.inference.encoder_likelihood import MaskedLikelihood, MaskingTokens, logits_at
from headrace.train.inference.generator import LikelyText
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.settings import MOST_BEAMS
from headrace.train.model.recomputing import AnyCache, extendable
from headrace.train.model.transformer import Transformer

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


SPAN_TOKENS = 16
"""The maximum length of a candidate."""
SPAN_MASKS = (*MASKS, "<extra_id_0>")
"""The ways to write the masked position, whatever the tokenizer calls it."""


@dataclasses.dataclass(frozen=True)
class FilledSpan:
    """Tokens for the masked position."""

    tokens: tuple[int, ...]
    log_probability: float
    """ln p of the tokens, and for a candidate also of a token that ends them."""


def restores_spans(model: InferenceModel) -> bool:
    """Whether ``model`` was trained to restore spans of a text."""
    form = _form(model)
    return form.repeats_context or bool(form.stops)


def filled_span(model: InferenceModel, folder: Path, text: str, candidates: int) -> list[LikelyText]:
    """Returns the most likely spans for the masked position of ``text``, the most likely first.

    Raises:
        ConfigError: when ``text`` has no masked position, or several, or does not fit the model's window, or the
            candidates are more than a beam search keeps.
    """
    if candidates > MOST_BEAMS:
        problem = f"is {candidates:,}, and the search for a span keeps at most {MOST_BEAMS:,}"
        raise ConfigError("--top", problem, "give a smaller number")
    parts = re.split("|".join(map(re.escape, SPAN_MASKS)), text)
    if len(parts) != 2:
        count = f"{len(parts) - 1} masked positions" if len(parts) > 2 else "no masked position"
        problem = f"has {count}: {text!r}"
        raise ConfigError("TEXT", problem, f"write <mask> once; {str(folder)!r} holds a model that fills one span")
    before, after = (ids.tolist() for ids in model.tokenizer.encode([parts[0].rstrip(), parts[1]]))
    form = _form(model)
    ends = [*after, *form.stops][:1] if form.repeats_context else [*form.stops, *form.ending[1:]]
    read = [*form.opening, *before, form.ending[0], *after, *form.ending[1:]]
    search = SpanSearch(model, ends, candidates)
    begun = form.begun(before)
    written = len(begun) + SPAN_TOKENS
    needed = len(read) + written if model.stack == "decoder" else max(len(read), written)
    if needed > model.window_tokens:
        problem = (
            f"needs {needed} positions with a span of {SPAN_TOKENS} tokens, and the model has {model.window_tokens}"
        )
        raise ConfigError("TEXT", problem, "give a shorter text")
    spans = search.run(read, begun)
    decode = model.tokenizer.decode
    return [LikelyText(decode(span.tokens).strip(), span.tokens, span.log_probability) for span in spans]


def _form(model: InferenceModel) -> ContextForm:
    network = model.network
    return network.context_form if isinstance(network, Transformer) else ContextForm()


class SpanSearch:
    """A beam search for spans that one of the tokens ``ends`` follows."""

    def __init__(self, model: InferenceModel, ends: Sequence[int], candidates: int) -> None:
        self._network, self._device = extendable(model.network, model.device), model.device
        self._ends, self._candidates, self._tokens = list(ends), candidates, model.tokens
        added = model.tokenizer.backend.get_added_tokens_decoder()
        self._special = [number for number, token in added.items() if token.special]

    @torch.inference_mode()
    def run(self, read: Sequence[int], begun: Sequence[int]) -> list[FilledSpan]:
        """Returns the candidates after a model has ``read`` the text and ``begun`` to write."""
        cache = self._network.new_cache(1)
        self._add(self._network.read_contexts, cache, [read])
        last_RM = self._add(self._network.extend, cache, [begun])
        beams, ended = [FilledSpan((), 0.0)], list[FilledSpan]()
        while beams:
            log_probs_RV = self._network.logits(last_RM).float().log_softmax(1)[:, : self._tokens]
            ended_R = log_probs_RV[:, self._ends].logsumexp(1).tolist()
            spans = zip(beams, ended_R, strict=True)
            ended += [FilledSpan(beam.tokens, beam.log_probability + log_p) for beam, log_p in spans]
            ended = sorted(ended, key=lambda span: -span.log_probability)[: self._candidates]
            if len(beams[0].tokens) == SPAN_TOKENS:
                break
            parents, beams = self._extended(beams, log_probs_RV, ended)
            if beams:
                cache = cache.of_rows(torch.tensor(parents, device=self._device))
                last_RM = self._add(self._network.extend, cache, [beam.tokens[-1:] for beam in beams])
        return ended

    def _extended(
        self, beams: Sequence[FilledSpan], log_probs_RV: Tensor, ended: Sequence[FilledSpan]
    ) -> tuple[list[int], list[FilledSpan]]:
        """Returns the most likely spans with one token more, and the index of the span that each extends."""
        least = ended[-1].log_probability if len(ended) == self._candidates else -torch.inf
        log_probs_RV[:, self._special] = -torch.inf
        sums_R1 = torch.tensor([[beam.log_probability] for beam in beams], device=self._device)
        top = (log_probs_RV + sums_R1).flatten().topk(min(self._candidates, log_probs_RV.numel()))
        parents, longer = list[int](), list[FilledSpan]()
        for log_probability, index in zip(top.values.tolist(), top.indices.tolist(), strict=True):
            parent, token = divmod(index, log_probs_RV.shape[1])
            if log_probability > least:
                parents.append(parent)
                longer.append(FilledSpan((*beams[parent].tokens, token), log_probability))
        return parents, longer

    def _add(self, extend: Callable[..., Tensor], cache: AnyCache, new: Sequence[Sequence[int]]) -> Tensor:
        """Adds the ``new`` tokens of each row to ``cache`` with ``extend``; returns x_RM after the last ones."""
        sizes_R = torch.tensor([len(ids) for ids in new], device=self._device)
        tokens_P = torch.tensor([token for ids in new for token in ids], dtype=torch.int64, device=self._device)
        x_PM = extend(cache, tokens_P, sizes_R)
        return x_PM.view(len(new), -1, x_PM.shape[1])[:, -1]
