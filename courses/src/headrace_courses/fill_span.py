"""The spans for the masked position of a text that a model of BART's or T5's objective finds most likely.

python -m headrace_courses.fill_span "The <mask> turns the stone."                           your newest weights
python -m headrace_courses.fill_span "The <extra_id_0> turns." --model path/to/t5 --top 10   a folder

A line for each candidate: the number 1, the probability p, -ln p, the span.

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

import click
import torch
from torch import Tensor

from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.model_options import model_folder
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, value_of
from headrace.train.context import ContextForm
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.settings import MOST_BEAMS
from headrace.train.inference.transformers_model import open_folder
from headrace.train.model.recomputing import AnyCache, extendable
from headrace.train.model.transformer import Transformer
from headrace_courses.fill_mask import MASKS, LikelyText, print_candidates
from headrace_courses.program import run as run_program

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


@command
@click.argument("text", metavar="TEXT")
@click.option("--model", metavar="FOLDER", default="", type=click.Path(), help="A model in Hugging Face's format.")
@click.option("--top", metavar="N", default="5", show_default=True, help="The number of candidates.")
@run_option
def fill_span(overrides: Sequence[str], text: str, model: str, top: str, run: str) -> None:
    """Prints what an encoder-decoder, or a decoder of T5's objective, writes at the <mask> of TEXT."""
    config, candidates = config_of(overrides), value_of(Positive, top, "--top")
    folder = model_folder(config.root, model, run)
    print_candidates(1, filled_span(open_folder(folder, config.evaluation), folder, text, candidates))


def filled_span(model: InferenceModel, folder: Path, text: str, candidates: int) -> list[LikelyText]:
    """Returns the most likely spans for the masked position of ``text``, the most likely first.

    Raises:
        ConfigError: when ``model`` was not trained to restore spans, ``text`` has not one masked position or does not
            fit the window, or the candidates are more than a beam search keeps.
    """
    if candidates > MOST_BEAMS:
        problem = f"is {candidates:,}, and the search for a span keeps at most {MOST_BEAMS:,}"
        raise ConfigError("--top", problem, "give a smaller number")
    form = _form(model)
    if not form.repeats_context and not form.stops:
        raise ConfigError("--model", f"{str(folder)!r} holds a model that restores no span", "give one of BART or T5")
    parts = re.split("|".join(map(re.escape, SPAN_MASKS)), text)
    if len(parts) != 2:
        count = f"{len(parts) - 1} masked positions" if len(parts) > 2 else "no masked position"
        problem = f"has {count}: {text!r}"
        raise ConfigError("TEXT", problem, f"write <mask> once; {str(folder)!r} holds a model that fills one span")
    before, after = (ids.tolist() for ids in model.tokenizer.encode([parts[0].rstrip(), parts[1]]))
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


if __name__ == "__main__":
    run_program(fill_span)
