"""The settings of inference: how a model runs, and how it continues a text. Free of torch.

temperature 0              greedy: the most likely token
temperature 1              ancestral: a token with the model's own probability
temperature t              probabilities of logits / t
top_k, then top_p          only the k most likely tokens; only the fewest whose probabilities sum to p
beams 4                    beam search: the most likely text that keeping 4 texts at each token finds

generation_config.json of a Hugging Face folder may ask for such a choice:

    {"do_sample": true, "temperature": 0.6, "top_p": 0.9}    temperature 0.6, top_k 50, top_p 0.9
    {"temperature": 0.6}                                     greedy

Without ``do_sample`` the rest does not count, and with it absent values are those of ``transformers`` 5
(GenerationConfig._get_default_generation_params).
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import NaturalNumber, Positive, Seed, decode, settings, unhashed
from headrace.train.families.end_tokens import GENERATION_CONFIG, generation_config

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


OF_TRANSFORMERS = {"temperature": 1.0, "top_k": 50, "top_p": 1.0}
"""The values of a random choice that are not in the file."""

NO_EFFECT: Mapping[str, tuple[object, ...]] = MappingProxyType(
    dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "typical_p", "num_beams"), (1,))
    | dict.fromkeys(("no_repeat_ngram_size", "min_p", "epsilon_cutoff", "eta_cutoff", "min_length"), (0,))
    | dict.fromkeys(("bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "sequence_bias"), ([], {}))
)
"""Fields of the file that choose other tokens in ``transformers``, and the values with which they do not."""


@dataclasses.dataclass(frozen=True)
class SamplingDefaults:
    """The choice of tokens that a file asks for."""

    file: str
    values: Mapping[str, Any]
    """Fields of ``Sampling``; none: greedy."""
    unused: Mapping[str, Any]
    """Fields that have no counterpart here."""

    @classmethod
    def of_folder(cls, folder: Path) -> "SamplingDefaults":
        """Returns the choice of tokens of the model in ``folder``.

        Raises:
            ArtifactError: when the file is not JSON, or a value is out of range.
        """
        file, fields = folder / GENERATION_CONFIG, generation_config(folder) or {}
        values: dict[str, Any] = {}
        if fields.get("do_sample"):
            given = {name: fields[name] for name in OF_TRANSFORMERS if fields.get(name) is not None}
            values = OF_TRANSFORMERS | given
            if values["top_k"] == 0:  # all
                values["top_k"] = None
            try:
                decode(Sampling, values)
            except ConfigError as error:
                raise ArtifactError(str(file), f"has {error.where}: {error.problem}", error.remedy) from None
        unused = {name: fields[name] for name in NO_EFFECT if fields.get(name) not in (None, *NO_EFFECT[name])}
        return cls(str(file), values, unused)

    def line(self, sampling: Sampling) -> str | None:
        """Returns a line that says what of the file counts in ``sampling``, and what does not; None: it says nothing.

        The values that the command line gives are its own.
        """
        taken = {name: value for name, value in self.values.items() if getattr(sampling, name) == value}
        parts = []
        if taken and sampling.temperature:
            parts.append(f"{_listed(taken)} (--temperature 0 is greedy)")
        if self.unused:
            parts.append(f"not used: {_listed(self.unused)}")
        return f"{self.file}: {'; '.join(parts)}" if parts else None


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {'all' if value is None else value}" for name, value in values.items())
