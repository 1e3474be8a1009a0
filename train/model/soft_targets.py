"""The distributions of a teacher, which a student learns in addition to the tokens of the text (Hinton et al. 2015).

Shapes: B rows, T positions that predict, n positions of a chunk, E width of the teacher's states, V vocabulary.

    teacher's states_BTE ── a chunk ── its output layer ──> logits_nV / temperature ── softmax ──> p
    student's             a chunk ── its output layer ──> logits_nV / temperature ── softmax ──> q

    gradient = hard_weight · d(-ln q₁(token)) + soft_weight · d(temperature² · KL(p ‖ q))        q₁: at temperature 1

The teacher's logits of a chunk exist only while those of the student do (head.py).
"""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from headrace.train.data.batches import IGNORED


@dataclasses.dataclass
class SoftTargets:
    """The part of a teacher that a student's output layer needs, for one micro-batch."""

    states_BTE: Tensor
    """The vectors that the teacher's output layer reads, at the positions of the student's targets."""
    output_layer: Callable[[Tensor], Tensor]
    """The teacher's output layer: states_nE to logits_nV."""
    temperature: float
    soft_weight: float
    hard_weight: float
    divergence: Tensor = dataclasses.field(default_factory=lambda: torch.zeros(()))
    """The sum of KL(p ‖ q) over the positions of the chunks so far, in nats, fp32."""

    def logits(self, piece: slice) -> Tensor:
        """Returns the teacher's logits_nV at the positions ``piece`` of all rows, in fp32."""
        return self.output_layer(self.states_BTE.flatten(0, 1)[piece]).float()

    def blended(self, wide_nV: Tensor, teacher_nV: Tensor, targets_n: Tensor, hard_nV: Tensor) -> Tensor:
        """Returns the gradient of both terms by the student's logits ``wide_nV``, fp32, and adds to ``divergence``.

        d temperature² · KL / d logit = temperature · (q − p); the square keeps its size at every temperature (Hinton et
        al. 2015, section 2). Positions without a target (-100) have none. ``hard_nV`` is the gradient of the others.
        """
        is_target_n1 = (targets_n != IGNORED)[:, None]
        log_p_nV, log_q_nV = ((logits / self.temperature).log_softmax(1) for logits in (teacher_nV, wide_nV))
        p_nV = log_p_nV.exp()
        divergence = (p_nV * (log_p_nV - log_q_nV) * is_target_n1).sum()
        self.divergence = divergence + self.divergence.to(divergence.device)
        soft_nV = self.temperature * (log_q_nV.exp() - p_nV) * is_target_n1
        return self.hard_weight * hard_nV + self.soft_weight * soft_nV
