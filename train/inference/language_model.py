"""A trained model for notebooks: its network, its tokenizer, and texts that it writes.

model = headrace.open_run("demo").model()
model.generate("Once upon a time", max_tokens=40, temperature=0.8, seed=1)
"""

import dataclasses
from pathlib import Path
from typing import overload

import torch
from torch import nn

from headrace.pipeline.core.settings import decode
from headrace.train.inference.generation.generator import Generator, generator_of
from headrace.train.inference.queries import TextEncoder
from headrace.train.inference.settings import Inference, Sampling
from headrace.train.inference.transformers_model import open_folder


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """A causal language model with its tokenizer, in evaluation mode."""

    network: nn.Module
    """The torch module. ``forward(tokens_BT, positions_BT, documents_BT)`` returns logits_BTV; its arguments are int64
    tensors: the tokens, their positions in their document, and the number of their document in the row."""
    tokenizer: TextEncoder
    """``encode(texts)`` returns the ids of each text, ``decode(ids)`` the text of ids; ``end_of_text`` is an id."""
    folder: Path
    """The folder in Hugging Face's format, for ``AutoModelForCausalLM.from_pretrained`` and other programs."""
    _generator: Generator = dataclasses.field(repr=False)

    @classmethod
    def open(cls, folder: Path, settings: Inference) -> "LanguageModel":
        """Returns the model in ``folder``, with the device and the precision of ``settings``.

        The state of torch's random numbers stays as it was.

        Raises:
            ArtifactError: when ``folder`` holds no whole model, or no tokenizer.
            ConfigError: when there is no GPU where one is asked for.
        """
        with torch.random.fork_rng(devices=[]):  # building a network draws its first weights
            model = open_folder(folder, settings)
        assert isinstance(model.network, nn.Module)
        return cls(model.network, model.tokenizer, folder, generator_of(model))

    @overload
    def generate(self, prompts: str, **sampling: object) -> str: ...

    @overload
    def generate(self, prompts: list[str], **sampling: object) -> list[str]: ...

    def generate(self, prompts: str | list[str], **sampling: object) -> str | list[str]:
        """Returns the text that the model writes after a prompt, or a list of texts for a list of prompts.

        Args:
            prompts: the beginning of a text, or several.
            sampling: ``max_tokens`` (128, or half a shorter window), ``temperature`` (0: greedy), ``top_k``,
                ``top_p``, ``beams``, ``length_penalty``, ``seed`` and ``stops`` (a text ends before the first of
                these), as ``headrace generate`` takes them.

        Raises:
            ConfigError: for a wrong setting, or when ``max_tokens`` does not fit the model's window.
        """
        several = [prompts] if isinstance(prompts, str) else prompts
        texts = [
            generation.text for generation in self._generator.generate(several, decode(Sampling, sampling, "sampling"))
        ]
        return texts[0] if isinstance(prompts, str) else texts
