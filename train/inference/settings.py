"""The settings of inference: how a model runs, and how it continues a text. Free of torch.

temperature 0              greedy: the most likely token
temperature 1              ancestral: a token with the model's own probability
temperature t              probabilities of logits / t
top_k, then top_p          only the k most likely tokens; only the fewest whose probabilities sum to p
beams 4                    beam search: the most likely text that keeping 4 texts at each token finds
"""

import dataclasses
from typing import Annotated, Literal

from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import NaturalNumber, Positive, Seed, settings, unhashed

PseudoLikelihood = Literal["original", "within_word_l2r"]
MAX_TOKENS = 128
MOST_BEAMS = 1024
"""The most texts that a beam search keeps: each has its own cache, and logits of the whole vocabulary."""
Beams = Annotated[int, Field(ge=1, le=MOST_BEAMS)]


@settings
class Inference:
    """The batch size, precision and device of a model's forward passes."""

    batch_tokens: Positive = 4096
    """A batch holds the queries of similar length that fit into this number of tokens, each padded to the longest."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of weights and activations; log-probabilities are always computed in fp32."""
    device: Literal["auto", "cpu", "cuda"] = unhashed("auto")
    """The device of the model; auto takes the GPU if there is one."""
    pseudo_likelihood: PseudoLikelihood = "original"
    """The score of a sentence under an encoder. original: each token is hidden alone (Salazar et al. 2020);
    within_word_l2r: the later pieces of its word are hidden, too (Kauf and Ivanova 2023)."""

    @property
    def revision(self) -> int:
        """1 where scores depend on words, which token_texts.py finds since; before, not for all tokenizers."""
        return int(self.pseudo_likelihood == "within_word_l2r")


@settings
class Sampling:
    """The choice of tokens when a model continues a text."""

    max_tokens: Positive | None = None
    """The maximum number of new tokens of a text; null: 128, or half the window of a model whose window is not
    longer."""
    temperature: NaturalNumber = 0.0
    """Divides the logits; 0 takes the most likely token."""
    top_k: Positive | None = None
    """Only this many of the most likely tokens (Fan et al. 2018, section 5.2); null: all."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Only the fewest tokens whose probabilities sum to at least this (Holtzman et al. 2020); null: all."""
    seed: Seed = 0
    """Decides every random choice, together with the prompt; other prompts have no influence."""
    stops: tuple[str, ...] = ()
    """A text ends before the first of these."""
    beams: Beams = 1
    """Texts that beam search keeps at each token (Graves 2012; Sutskever et al. 2014); 1: no search."""
    length_penalty: NaturalNumber = 0.0
    """Beam search divides ln p of a text by ((5 + tokens) / 6) to the power of this (Wu et al. 2016, section 7).
    Longer texts then win more often; the Transformer of 2017 has 0.6."""

    def __post_init__(self) -> None:
        if self.beams > 1 and self.temperature:
            problem = f"is {self.beams} with a temperature of {self.temperature}, and beam search draws no random token"
            raise ConfigError("beams", problem, "give no temperature, or no beams")
        if self.length_penalty and self.beams == 1:
            problem = f"is {self.length_penalty} without beam search"
            raise ConfigError("length_penalty", problem, "give beams, such as 4")

    @property
    def most_tokens(self) -> int:
        """``max_tokens``, or 128."""
        return MAX_TOKENS if self.max_tokens is None else self.max_tokens

    def within(self, window_tokens: int) -> "Sampling":
        """Returns these settings for a model of this window, with ``max_tokens`` given."""
        of_window = MAX_TOKENS if window_tokens > MAX_TOKENS else max(1, window_tokens // 2)
        return dataclasses.replace(self, max_tokens=self.max_tokens or of_window)
