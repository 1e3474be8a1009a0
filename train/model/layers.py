"""The layers of a model: feed-forward layer, recurrent layer, and the block of a mixer, the first and normalizations.

Shapes: B rows, T positions, K of them that a head reads, W of a window, M model width, F inner width of the
feed-forward layer, O outputs of a head.
"""

import functools
import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.train import parts
from headrace.train.config import ModelConfig
from headrace.train.data.batches import IGNORED
from headrace.train.model.attention import Attending, Attention, CrossAttending, CrossAttention
from headrace.train.model.dropout import (
    CROSS_MIXED,
    FEED_FORWARD,
    FEED_FORWARD_INNER,
    HEAD_INPUT,
    HEAD_OUTPUT,
    MIXED,
    Dropping,
    dropped,
)
from headrace.train.model.norms import build_norm
from headrace.train.model.positions import Rotation
from headrace.train.model.recurrence import Past
from headrace.train.parts import ActivationName, HeadActivation, MixerName


def gelu(inner_BTF: Tensor) -> Tensor:
    """GELU in GPT-2's tanh form (Hendrycks and Gimpel 2016)."""
    return functional.gelu(inner_BTF, approximate="tanh")


def gated(activation: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Returns activation(gate) · value, with gate and value side by side in the last dimension (Shazeer 2020)."""

    def apply(inner_BTG: Tensor) -> Tensor:
        gate_BTF, value_BTF = inner_BTG.chunk(2, dim=-1)
        return activation(gate_BTF) * value_BTF

    return apply


GATES: Mapping[ActivationName, Callable[[Tensor], Tensor]] = {
    "reglu": functional.relu,
    "geglu": gelu,
    "geglu_exact": functional.gelu,
    "swiglu": functional.silu,
}
"""The activation of the gate alone."""
ACTIVATIONS: Mapping[ActivationName, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": gelu,
    "gelu_exact": functional.gelu,
    **{name: gated(activation) for name, activation in GATES.items()},
}


def without_gate(name: ActivationName) -> Callable[[Tensor], Tensor]:
    """Returns the activation itself, or that of the gate, for a layer that has no gate."""
    return GATES.get(name, ACTIVATIONS[name])


HEAD_ACTIVATIONS: Mapping[HeadActivation, Callable[[Tensor], Tensor]] = {
    "none": lambda x_BKM: x_BKM,
    "tanh": torch.tanh,
    "gelu_exact": functional.gelu,
}
"""The activations of the heads of tasks."""


class Mlp(nn.Module):
    """down(activation(up(x))); a gated activation has gate and value in one matrix ``up``."""

    def __init__(self, config: ModelConfig, read_tokens: int = 1) -> None:
        super().__init__()
        inputs = parts.ACTIVATIONS[config.activation].inputs
        self.activation = ACTIVATIONS[config.activation]
        self.up = nn.Linear(read_tokens * config.width, config.mlp_width * inputs, bias=config.bias)
        self.drops_inner = "feed_forward" in config.dropout_places
        self.down = nn.Linear(config.mlp_width, config.width, bias=config.bias)

    def forward(self, x_BTM: Tensor, drop: Dropping | None = None) -> Tensor:
        inner_BTF = self.activation(self.up(x_BTM))
        output_BTM: Tensor = self.down(dropped(drop if self.drops_inner else None, inner_BTF, FEED_FORWARD_INNER))
        return output_BTM


class WindowMlp(nn.Module):
    """A feed-forward layer that reads the vectors of the last tokens side by side (Bengio et al. 2003, section 2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        assert config.window is not None  # config.py
        self.window = config.window
        self.mlp = Mlp(config, self.window)

    def forward(self, x_BTM: Tensor, past: Past) -> Tensor:
        output_BTM: Tensor = self.mlp(past.windows(x_BTM, self.window).flatten(2))
        return output_BTM


class Recurrent(nn.Module):
    """A recurrent layer of torch, whose state is zero before each document."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        kind = {"lstm": nn.LSTM, "rnn": nn.RNN}[config.mixer]
        self.cells = kind(config.width, config.width, bias=config.bias, batch_first=True)

    def forward(self, x_BTM: Tensor, past: Past) -> Tensor:
        return past.recurred(x_BTM, self.cells)


MIXERS: Mapping[MixerName, Callable[[ModelConfig], nn.Module]] = {
    "lstm": Recurrent,
    "rnn": Recurrent,
    "window_mlp": WindowMlp,
}
"""The mixers that are no attention."""


class OutputTransform(nn.Module):
    """norm(activation(dense(x))): what BERT computes before its output layer (Devlin et al. 2019).

    Where the model's activation is gated, it is the activation of the gate alone (ModernBERT).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.embedding_width or config.width
        self.dense = nn.Linear(config.width, width, bias=config.bias)
        self.activation = without_gate(config.activation)
        self.norm = build_norm(config, width)

    def forward(self, x_BTM: Tensor) -> Tensor:
        output_BTM: Tensor = self.norm(self.activation(self.dense(x_BTM)))
        return output_BTM


class DetectionHead(nn.Module):
    """A dense layer, the activation and one logit: ELECTRA's output (Clark et al. 2020). Above 0: replaced."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, config.width, bias=config.bias)
        self.activation = without_gate(config.activation)
        self.output = nn.Linear(config.width, 1)

    def forward(self, x_BTM: Tensor) -> Tensor:
        logits_BT1: Tensor = self.output(self.activation(self.dense(x_BTM)))
        return logits_BT1


class PairHead(nn.Module):
    """linear(tanh(dense(x))) of the first token of a pair of texts, with two outputs: whether the second text follows
    the first one, or not (Devlin et al. 2019, section 3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pooler = nn.Linear(config.width, config.width)
        self.output = nn.Linear(config.width, 2)

    def forward(self, x_BPM: Tensor, labels_BP: Tensor | None = None) -> Tensor:
        """Returns logits_BP2; with labels two sums in fp32, (2,): that of -ln p, and the number of wrong labels.

        The label -100 is in no sum.
        """
        logits_BP2: Tensor = self.output(self.pooler(x_BPM).tanh())
        if labels_BP is None:
            return logits_BP2
        nll = functional.cross_entropy(logits_BP2.flatten(0, 1).float(), labels_BP.flatten(), reduction="sum")
        wrong_BP = (logits_BP2.argmax(-1) != labels_BP) & (labels_BP != IGNORED)
        return torch.stack((nll, wrong_BP.sum().float()))


class TaskLayers(nn.Module):
    """[dropout] dense, activation, [norm], dropout, output; all but the output may be absent."""

    def __init__(
        self,
        config: ModelConfig,
        outputs: int,
        activation: HeadActivation = "none",
        *,
        has_dense: bool = False,
        dense_bias: bool = True,
        has_norm: bool = False,
        drops_first: bool = False,
        drops_last: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        width = config.width
        self.drops_first, self.drops_last = drops_first, drops_last
        self.dense = nn.Linear(width, width, bias=dense_bias) if has_dense else nn.Identity()
        self.activation = HEAD_ACTIVATIONS[activation]
        self.norm = build_norm(config) if has_norm else nn.Identity()
        self.output = nn.Linear(width, outputs, bias=bias)

    def forward(self, x_BKM: Tensor, drop: Dropping | None) -> Tensor:
        x_BKM = dropped(drop if self.drops_first else None, x_BKM, HEAD_INPUT)
        x_BKM = self.norm(self.activation(self.dense(x_BKM)))
        outputs_BKO: Tensor = self.output(dropped(drop if self.drops_last else None, x_BKM, HEAD_OUTPUT))
        return outputs_BKO


class ScaledOutput(nn.Module):
    """x / divisor, before the output layer: sqrt(M) in T5 (Raffel et al. 2020), else ``output_scale`` inverted."""

    def __init__(self, divisor: float) -> None:
        super().__init__()
        self.divisor = divisor

    def forward(self, x_BTM: Tensor) -> Tensor:
        return x_BTM / self.divisor


def output_transform(config: ModelConfig) -> nn.Module:
    """Returns what comes between the last block's norm and the output layer."""
    if config.output_transform:
        return OutputTransform(config)
    divisor = math.sqrt(config.width) if config.scaled_output else 1 / config.output_scale
    return nn.Identity() if divisor == 1 else ScaledOutput(divisor)


class Block(nn.Module):
    """Attention or another mixer, in a decoder with an encoder also attention to that, and feed-forward layer, each
    added to its input, or with ``residual`` false in its place.

    pre         x + part(norm(x))          GPT-2
    post        norm(x + part(x))          Vaswani et al. 2017
    sandwich    x + norm(part(norm(x)))    Gemma 2
    after       x + norm(part(x))          OLMo 2
    parallel    x + part(norm(x₀))         GPT-NeoX; x₀ is the input of the block, for all of its parts
    """

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        place = config.norm_place
        self.is_post_norm, self.is_parallel = place == "post", place == "parallel"
        has_first, has_last = place != "after", place in ("sandwich", "after")
        has_attention_norm = has_first and (layer > 0 or config.first_attention_norm)
        self.attention_norm = build_norm(config) if has_attention_norm else nn.Identity()
        self.is_residual, self.has_attention = config.residual, config.mixer == "attention"
        if self.has_attention:
            self.attention = Attention(config)
        else:
            self.mixer = MIXERS[config.mixer](config)
        self.attention_output_norm = build_norm(config) if has_last else nn.Identity()
        if config.stack == "encoder_decoder":
            self.cross_norm = build_norm(config) if has_first else nn.Identity()
            self.cross = CrossAttention(config)
            self.cross_output_norm = build_norm(config) if has_last else nn.Identity()
        self.mlp_norm = build_norm(config) if has_first else nn.Identity()
        self.mlp = Mlp(config)
        self.mlp_output_norm = build_norm(config) if has_last else nn.Identity()

    def forward(
        self,
        x_BTM: Tensor,
        rotation: Rotation | None,
        seen: Attending | Past,
        memory: CrossAttending | None = None,
        drop: Dropping | None = None,
    ) -> Tensor:
        """Returns x_BTM after all parts; ``memory`` is what a decoder with an encoder reads."""
        input_BTM, norms = x_BTM, (self.attention_norm, self.attention_output_norm)

        def mixed(normed_BTM: Tensor) -> Tensor:
            is_mixer = not self.has_attention
            mixed_BTM: Tensor = (
                self.mixer(normed_BTM, seen) if is_mixer else self.attention(normed_BTM, rotation, seen, drop=drop)
            )
            return mixed_BTM

        def crossed(normed_BTM: Tensor) -> Tensor:
            mixed_BTM: Tensor = self.cross(normed_BTM, memory, drop=drop)
            return mixed_BTM

        x_BTM = self._added(x_BTM, input_BTM, *norms, mixed, drop, MIXED)
        if memory is not None:
            norms = self.cross_norm, self.cross_output_norm
            x_BTM = self._added(x_BTM, input_BTM, *norms, crossed, drop, CROSS_MIXED)
        norms = self.mlp_norm, self.mlp_output_norm
        return self._added(x_BTM, input_BTM, *norms, functools.partial(self.mlp, drop=drop), drop, FEED_FORWARD)

    def _added(
        self,
        x_BTM: Tensor,
        input_BTM: Tensor,
        norm: nn.Module,
        output_norm: nn.Module,
        part: Callable[[Tensor], Tensor],
        drop: Dropping | None,
        place: int,
    ) -> Tensor:
        """Returns x_BTM with the output of ``part`` added, of which ``drop`` drops values, and normalized at the norm
        place.

        ``input_BTM`` is the input of the block, which parallel parts read.
        """
        if self.is_post_norm:
            after_BTM: Tensor = norm(self._with_residual(x_BTM, dropped(drop, part(x_BTM), place)))
            return after_BTM
        read_BTM = input_BTM if self.is_parallel else x_BTM
        return self._with_residual(x_BTM, dropped(drop, output_norm(part(norm(read_BTM))), place))

    def _with_residual(self, x_BTM: Tensor, output_BTM: Tensor) -> Tensor:
        return x_BTM + output_BTM if self.is_residual else output_BTM
