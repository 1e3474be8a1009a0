"""The choice of tokens that generation_config.json of a Hugging Face folder asks for. Free of torch.

    {"do_sample": true, "temperature": 0.6, "top_p": 0.9}    temperature 0.6, top_k 50, top_p 0.9
    {"temperature": 0.6}                                     greedy

Without ``do_sample`` the rest does not count, and with it absent values are those of ``transformers`` 5
(GenerationConfig._get_default_generation_params).
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.families.end_tokens import GENERATION_CONFIG, generation_config
from headrace.train.inference.settings import Sampling

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
        own = {name: value for name, value in self.values.items() if getattr(sampling, name) == value}
        parts = []
        if own and sampling.temperature:
            parts.append(f"{_listed(own)} (--temperature 0 is greedy)")
        if self.unused:
            parts.append(f"not used: {_listed(self.unused)}")
        return f"{self.file}: {'; '.join(parts)}" if parts else None


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {'all' if value is None else value}" for name, value in values.items())
