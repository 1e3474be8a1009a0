"""A model with a head for a task instead of its output layer: classes, a number, choices, or answers in a text.

Shapes: B rows, T positions, K positions of each row that the head reads, M model width, O outputs.

    tokens_BT ── backbone (transformer.py) ──> norm(x_BTM) ── at_BK ──> TaskLayers ──> outputs_BKO

train/families/task_heads.py lists the layers that each family's class has.
"""

import hashlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from headrace.train.data.batches import EncoderTokens
from headrace.train.model.layers import TaskLayers
from headrace.train.model.transformer import Transformer, chosen

BACKBONE, HEAD = "backbone.", "head."
"""The prefixes of the weights."""
DEVIATION = 0.02
"""The standard deviation of a head's first weights (``initializer_range`` of Devlin et al. 2019)."""


class TaskModel(nn.Module):
    """A Transformer without its output layer, and the layers of a head."""

    def __init__(self, backbone: Transformer, head: TaskLayers) -> None:
        """Takes ``backbone`` and removes all that comes after its last norm: nothing would train it."""
        super().__init__()
        self.config, self.vocabulary = backbone.config, backbone.vocabulary
        backbone.head, backbone.transform, backbone.pair_head = nn.Identity(), nn.Identity(), None  # type: ignore[assignment]  # no output layer
        self.backbone, self.head = backbone, head

    def forward(
        self,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        documents_BT: Tensor,
        segments_BT: Tensor | None = None,
        at_BK: Tensor | None = None,
        source: EncoderTokens | None = None,
    ) -> Tensor:
        """Returns outputs_BKO in the dtype of the weights, at the positions ``at_BK``; at all positions without them.

        The other arguments are those of ``Transformer.forward``.
        """
        x_BTM = self.backbone(tokens_BT, positions_BT, documents_BT, source=source, segments_BT=segments_BT)
        outputs_BKO: Tensor = self.head(chosen(x_BTM, at_BK), self.backbone.drop(x_BTM))
        return outputs_BKO


def first_head_weights(head: Mapping[str, nn.Parameter], seed: int) -> Iterator[tuple[str, Tensor]]:
    """Yields name and first value of each parameter of ``head``, in fp32 on the CPU: a function of seed, name, shape.

    Matrices are normal with standard deviation 0.02, biases are 0, norms 1.
    """
    for name, parameter in head.items():
        value = torch.full(parameter.shape, 0.0 if name.endswith("bias") else 1.0)
        if value.dim() >= 2:
            key = hashlib.sha256(f"headrace head\0{seed}\0{name}".encode()).digest()[:8]
            value.normal_(0.0, DEVIATION, generator=torch.Generator().manual_seed(int.from_bytes(key, "big") >> 1))
        yield name, value
