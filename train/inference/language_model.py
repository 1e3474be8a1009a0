"""A trained model that writes: texts for the command line, an object for notebooks, conversations.

model = headrace.open_run("demo").model()
model.generate("Once upon a time", max_tokens=40, temperature=0.8, seed=1)

messages ── chat template, without the oldest exchanges if they do not fit ──> tokens ── Generator ──> answer

torch is imported when a model is opened.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.inference.chat_template import DEFAULT_STOPS, DEFAULT_TEMPLATE, ChatTemplate, Message
from headrace.train.inference.queries import TextEncoder
from headrace.train.inference.settings import Inference, Sampling

if TYPE_CHECKING:
    from torch import nn

    from headrace.train.inference.generator import Generation, Generator
    from headrace.train.inference.transformers_model import FolderTokenizer


@dataclasses.dataclass(frozen=True)
class GeneratedTexts:
    """Texts, and the memory that each took."""

    generations: "Sequence[Generation]"
    cache_formula: str
    """The bytes of keys and values of one token; empty for a model whose keys and values are not cached."""
    cache_bytes: int
    """The bytes of the longest sequence."""


def generate(
    folder: Path,
    settings: Inference,
    prompts: Sequence[str],
    sampling: Sampling,
    show: Callable[[int, str], None],
) -> GeneratedTexts:
    """Returns one text for each of ``prompts``, with the device and the precision of ``settings``.

    Raises:
        ArtifactError: when ``folder`` holds no whole model, or no tokenizer.
        ConfigError: when ``max_tokens`` does not fit the model's window, or there is no GPU where one is asked for.
    """
    from headrace.train.inference.generator import generator_of
    from headrace.train.inference.transformers_model import open_folder
    from headrace.train.model.cache import cache_bytes
    from headrace.train.model.transformer import Transformer

    model = open_folder(folder, settings)
    generations = generator_of(model).generate(prompts, sampling, show)
    if not isinstance(model.network, Transformer):
        return GeneratedTexts(generations, "", 0)
    shape, value_bytes = model.network.config, model.network.embedding.weight.element_size()
    longest = max(generation.prompt_tokens + len(generation.tokens) for generation in generations)
    formula = shape.cache_formula(value_bytes)
    return GeneratedTexts(generations, formula, cache_bytes(shape, longest, value_bytes))


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """A causal language model with its tokenizer, in evaluation mode."""

    network: "nn.Module"
    """The torch module. ``forward(tokens_BT, positions_BT, documents_BT)`` returns logits_BTV; its arguments are int64
    tensors: the tokens, their positions in their document, and the number of their document in the row."""
    tokenizer: TextEncoder
    """``encode(texts)`` returns the ids of each text, ``decode(ids)`` the text of ids; ``end_of_text`` is an id."""
    folder: Path
    """The folder in Hugging Face's format, for ``AutoModelForCausalLM.from_pretrained`` and other programs."""
    _generator: "Generator" = dataclasses.field(repr=False)

    @classmethod
    def open(cls, folder: Path, settings: Inference) -> "LanguageModel":
        """Returns the model in ``folder``, with the device and the precision of ``settings``.

        The state of torch's random numbers stays as it was.

        Raises:
            ArtifactError: when ``folder`` holds no whole model, or no tokenizer.
            ConfigError: when there is no GPU where one is asked for.
        """
        import torch

        from headrace.train.inference.generator import generator_of
        from headrace.train.inference.transformers_model import open_folder

        with torch.random.fork_rng(devices=[]):  # building a network draws its first weights
            model = open_folder(folder, settings)
        assert isinstance(model.network, torch.nn.Module)
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


class Chat:
    """A conversation: its messages, and the model that answers."""

    def __init__(self, generator: "Generator", tokenizer: "FolderTokenizer", sampling: Sampling, system: str) -> None:
        """``system`` is the first message; empty: none."""
        self._generator, self._tokenizer, self._system = generator, tokenizer, system
        self.has_own_template: bool = tokenizer.template is not None
        """Whether the folder has a chat template; otherwise ``DEFAULT_TEMPLATE`` is used."""
        self._template = tokenizer.template or ChatTemplate(DEFAULT_TEMPLATE, tokenizer.special)
        stops = sampling.stops if self.has_own_template else (*sampling.stops, *DEFAULT_STOPS)
        self._sampling = dataclasses.replace(sampling, stops=stops)
        self._capacity = generator.prompt_capacity(self._sampling)
        self.reset()

    @classmethod
    def open(cls, folder: Path, settings: Inference, sampling: Sampling, system: str) -> "Chat":
        """Returns a conversation with the model in ``folder``, with the device and the precision of ``settings``.

        Raises:
            ArtifactError: when ``folder`` holds no whole model, or no tokenizer.
            ConfigError: when the model is an encoder, or ``max_tokens`` does not fit its window.
        """
        from headrace.train.inference.generator import generator_of
        from headrace.train.inference.transformers_model import FolderTokenizer, open_folder

        model = open_folder(folder, settings)
        assert isinstance(model.tokenizer, FolderTokenizer)
        return cls(generator_of(model), model.tokenizer, sampling, system)

    def reset(self) -> None:
        """Removes all messages but the system's."""
        self.messages: list[Message] = [{"role": "system", "content": self._system}] if self._system else []

    def answer(self, text: str, show: Callable[[str], None]) -> "Generation":
        """Returns the answer to ``text`` and adds both to the messages; ``show`` gets each new part of the answer.

        An interrupted answer is kept up to its last part; without any, ``text`` is not kept either. The oldest
        exchanges that do not fit the window are removed from the messages.

        Raises:
            ConfigError: when ``text`` alone does not fit the window, or the template refuses the messages.
        """
        self.messages.append({"role": "user", "content": text})
        parts: list[str] = []

        def keep(_: int, part: str) -> None:
            parts.append(part)
            show(part)

        try:
            return self._generator.generate_after(self._fitting(), self._sampling, keep)
        finally:
            if answer := "".join(parts).strip():
                self.messages.append({"role": "assistant", "content": answer})
            else:
                self.messages.pop()

    def _fitting(self) -> list[int]:
        """Returns the tokens of the messages, without the oldest exchanges that do not fit; removes these."""
        first, kept = 1 if self._system else 0, list(self.messages)
        while len(tokens := self._tokens(kept)) > self._capacity:
            if len(kept) <= first + 1:
                problem = f"has {len(tokens)} tokens with the template, {self._capacity} fit in addition to the answer"
                raise ConfigError("the message", problem, "write a shorter one, or give a smaller --max-tokens")
            del kept[first : first + 2]
        self.messages = kept
        return tokens

    def _tokens(self, messages: Sequence[Message]) -> list[int]:
        """Returns the tokens of ``messages`` up to where the next answer begins."""
        try:
            (ids,) = self._tokenizer.encode([self._template.rendered(messages, True)])
        except ConfigError as error:
            remedy = "leave out --system, begin again with /reset, or correct the template"
            raise ConfigError(error.where, error.problem, remedy) from None
        return list(ids.tolist())
