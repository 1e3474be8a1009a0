"""Records of the layers of a stack in a forward pass, and the terms that a student's layers learn from a teacher's.

Shapes: B rows, T positions, M width of the student or of the teacher, N heads.

    layer 0 ── layer 1 ── … ── layer L ── norm          0: the embedded tokens
    states_BTM  states_BTM      states_BTM  last_BTM    hidden: TinyBERT's eq. 8 and 9; cosine: DistilBERT
                scores_BNTT     scores_BNTT             attention: TinyBERT's eq. 7

    cosine       1 - cos(last, teacher's last)
    hidden       Σ over pairs of layers, and the embedded tokens, of the mean over M of (map · state - teacher's)²
    attention    Σ over pairs of layers of the mean over heads and visible keys of (score - teacher's)²

Each is a sum over the positions of text, so that its mean does not depend on the division into micro-batches. In a row
of one document that mean is the published mean over all pairs of positions.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

from torch import Tensor, nn
from torch.nn import functional

from headrace.train.model.attention import Attending, DenseAttention, WeightRecorder
from headrace.train.model.recurrence import Past

MAPS = "learned_maps"
"""The module of a student with the linear maps from its width to its teacher's. They are only trained: no export has
them."""
EMBEDDED, HIDDEN = "embedded", "hidden"
"""The maps: W_e and W_h of TinyBERT."""


@dataclasses.dataclass
class LayerRecord:
    """The states and the attention of chosen layers, counted from 1, in the last forward pass."""

    state_layers: frozenset[int] = frozenset()
    attention_layers: frozenset[int] = frozenset()
    keeps_last: bool = False
    """Whether the normalized states of the last layer are kept."""
    states: dict[int, Tensor] = dataclasses.field(default_factory=dict)
    """states_BTM of each of the ``state_layers``."""
    attention: dict[int, WeightRecorder] = dataclasses.field(default_factory=dict)
    """The attention of each of the ``attention_layers``."""
    last: Tensor | None = None

    def attending(self, layer: int, attending: Attending | Past) -> Attending | Past:
        """Returns the way in which ``layer`` attends: by plain matrix products where its attention is kept; for a layer
        without attention, its past."""
        if layer not in self.attention_layers:
            return attending
        assert isinstance(attending, DenseAttention)  # Stack chooses it for a record of attention
        self.attention[layer] = WeightRecorder(attending.mask)
        return self.attention[layer]

    def keep(self, layer: int, x_BTM: Tensor) -> None:
        """Keeps the output of ``layer`` if it is asked for; that of 0 are the embedded tokens."""
        if layer in self.state_layers:
            self.states[layer] = x_BTM

    def end(self, x_BTM: Tensor, norm: Callable[[Tensor], Tensor], documents_BT: Tensor) -> None:
        """Keeps the last states if they are asked for; ``norm`` is that after the last layer."""
        if self.keeps_last:
            self.last = norm(x_BTM)


NOTHING = LayerRecord()
"""The record of a stack that keeps nothing."""


@dataclasses.dataclass
class LayerTargets(LayerRecord):
    """The record of a student's layers, which ends with the sums of the terms of ``teacher``'s layers."""

    teacher: LayerRecord = dataclasses.field(default_factory=LayerRecord)
    pairs: Sequence[tuple[int, int]] = ()
    """The layers of student and teacher that are compared."""
    maps: Mapping[str, nn.Module] = dataclasses.field(default_factory=dict)
    """The learned maps; empty where the widths are equal."""
    sums: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    """The sum of each term over the positions of text, a scalar in fp32."""

    def end(self, x_BTM: Tensor, norm: Callable[[Tensor], Tensor], documents_BT: Tensor) -> None:
        super().end(x_BTM, norm, documents_BT)
        is_text_BT = documents_BT >= 0
        terms = {"cosine": self._cosine, "hidden": self._hidden, "attention": self._attention}
        asked = {"cosine": self.keeps_last, "hidden": self.state_layers, "attention": self.attention_layers}
        self.sums = {name: (term() * is_text_BT).sum() for name, term in terms.items() if asked[name]}

    def _cosine(self) -> Tensor:
        assert self.last is not None
        assert self.teacher.last is not None  # both keep them
        return 1 - functional.cosine_similarity(self.last.float(), self.teacher.last.float(), dim=-1)

    def _hidden(self) -> Tensor:
        return sum_of(
            (self._mapped(layer).float() - self.teacher.states[of_teacher].float()).square().mean(-1)
            for layer, of_teacher in ((0, 0), *self.pairs)
        )

    def _mapped(self, layer: int) -> Tensor:
        name = HIDDEN if layer else EMBEDDED
        mapped_BTM: Tensor = self.maps[name](self.states[layer]) if self.maps else self.states[layer]
        return mapped_BTM

    def _attention(self) -> Tensor:
        return sum_of(self._attention_error(layer, of_teacher) for layer, of_teacher in self.pairs)

    def _attention_error(self, layer: int, of_teacher: int) -> Tensor:
        """Returns the mean over heads of that over the visible keys of the squared difference, (B, T)."""
        own, of_other = self.attention[layer], self.teacher.attention[of_teacher]
        visible_BNTT = own.mask.visible_BNTS
        squares_BNTT = (own.scores_BNTT.float() - of_other.scores_BNTT.float()).square() * visible_BNTT
        keys_BNT = visible_BNTT.expand_as(squares_BNTT).sum(-1).clamp(min=1)
        return (squares_BNTT.sum(-1) / keys_BNT).mean(1)


def sum_of(parts: Iterable[Tensor]) -> Tensor:
    """Returns the sum of at least one tensor."""
    return functools.reduce(operator.add, parts)
