"""A model that is ready for inference: its network on a device, its tokenizer, its likelihood.

a network ── device, precision ──> InferenceModel ──> scoring (train/evaluation), generation
"""

import dataclasses
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.train.families.hf_folder import load
from headrace.train.inference.causal_likelihood import CausalLikelihood
from headrace.train.inference.encoder_likelihood import DetectionLikelihood, MaskedLikelihood, MaskingTokens
from headrace.train.inference.queries import Likelihood, TextEncoder
from headrace.train.inference.settings import Inference
from headrace.train.inference.sharing import SharedLikelihood, Sharing
from headrace.train.model.execution import pad_vocabulary
from headrace.train.model.recomputing import Model
from headrace.train.model.transformer import Transformer
from headrace.train.parts import WRITING, StackName


class MovableModel(Model, Protocol):
    """A causal language model that can be moved."""

    def to(self, device: torch.device, dtype: torch.dtype) -> "MovableModel": ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class InferenceModel:
    """A model with everything that scoring and generation need."""

    network: Model
    device: torch.device
    likelihood: Likelihood
    tokenizer: TextEncoder
    vocabulary: int
    """Number of tokens that the network distinguishes."""
    tokens: int | None = None
    """The ids below this number are tokens; a published vocabulary may be rounded up. None: all of them."""
    opening: tuple[int, ...] = ()
    """Tokens that the tokenizer puts before each text."""
    ends: tuple[int, ...] = ()
    """The tokens that end a text; none: the token that an empty context becomes."""
    stops: tuple[str, ...] = ()
    """The texts that end a text, after those that are asked for."""
    sharing: Sharing | None = None
    """The ranks that answer together; None: this process alone."""

    @property
    def stack(self) -> StackName:
        """The kind of the network: a decoder continues a text, an encoder does not."""
        return self.network.config.stack if isinstance(self.network, Transformer) else "decoder"

    @property
    def window_tokens(self) -> int:
        """The number of positions that the network has."""
        return self.likelihood.window_tokens

    @property
    def most_window_tokens(self) -> int | None:
        """The most positions that a query may ask for (``Tokens.window_tokens``); None: any number.

        Of a model that only ``transformers`` computes, no more than its own are known to work.
        """
        return self.network.config.most_positions if isinstance(self.network, Transformer) else self.window_tokens

    def shared(self, sharing: Sharing) -> "InferenceModel":
        """Returns this model, which each rank of ``sharing`` has, as one that all of them answer for together."""
        return dataclasses.replace(self, likelihood=SharedLikelihood(self.likelihood, sharing), sharing=sharing)


def open_exported(folder: Path, tokenizer: TextEncoder, settings: Inference) -> InferenceModel:
    """Returns the model that Headrace exported to the Hugging Face ``folder``.

    Raises:
        ConfigError: when a GPU is asked for and there is none.
        ArtifactError: when the folder holds no whole model.
    """
    network = load(folder)
    check_finite(network, str(folder))
    return prepared(network, tokenizer, network.vocabulary, network.config.context, settings, str(folder))


def check_finite(network: nn.Module, origin: str) -> None:
    """Refuses a network with a weight that is NaN or infinite: its scores could not be written as JSON.

    Raises:
        ArtifactError: naming ``origin``, where the weights come from, and the first such weight.
    """
    for name, value in network.named_parameters():
        if not torch.isfinite(value).all():
            problem = f"holds weights that are NaN or infinite ({name})"
            raise ArtifactError(origin, problem, "give a model whose training went well, an earlier checkpoint, say")


def placement(settings: Inference) -> tuple[torch.device, torch.dtype]:
    """Returns the device and the type of the weights of a model that runs with ``settings``.

    Raises:
        ConfigError: when a GPU is asked for and there is none.
    """
    has_gpu = torch.cuda.is_available()
    if settings.device == "cuda" and not has_gpu:
        raise ConfigError("evaluation.device", "no GPU is visible here", "take auto or cpu")
    device = torch.device("cuda" if has_gpu and settings.device != "cpu" else "cpu")
    return device, torch.bfloat16 if settings.precision == "bf16" else torch.float32


def prepared(
    network: MovableModel, tokenizer: TextEncoder, vocabulary: int, window_tokens: int, settings: Inference, origin: str
) -> InferenceModel:
    """Moves ``network`` to the device and casts it to the precision of ``settings``; ``origin`` names it in errors.

    Raises:
        ConfigError: when a GPU is asked for and there is none.
    """
    device, dtype = placement(settings)
    network = network.to(device, dtype)
    if device.type == "cuda" and isinstance(network, Transformer):
        pad_vocabulary(network)
    likelihood = _likelihood(network, tokenizer, window_tokens, settings, device, origin)
    return InferenceModel(
        network=network, device=device, likelihood=likelihood, tokenizer=tokenizer, vocabulary=vocabulary
    )


def _masking_tokens(tokenizer: TextEncoder, origin: str) -> MaskingTokens:
    try:
        return MaskingTokens.of(tokenizer.backend, tokenizer.end_of_text)
    except ConfigError as error:
        remedy = "put the tokenizer there that the encoder was trained with"
        raise ArtifactError(origin, f"holds an encoder, which {error.problem}", remedy) from None


def _likelihood(
    network: MovableModel,
    tokenizer: TextEncoder,
    window_tokens: int,
    settings: Inference,
    device: torch.device,
    origin: str,
) -> Likelihood:
    sizes = {"window_tokens": window_tokens, "batch_tokens": settings.batch_tokens}
    if not isinstance(network, Transformer) or network.config.stack in WRITING:
        return CausalLikelihood(network=network, **sizes, device=device, origin=origin)
    tokens = _masking_tokens(tokenizer, origin)
    if network.config.stack == "discriminator":
        return DetectionLikelihood(network=network, tokens=tokens, **sizes, device=device, origin=origin)
    form = settings.pseudo_likelihood
    return MaskedLikelihood(network=network, tokens=tokens, form=form, **sizes, device=device, origin=origin)
