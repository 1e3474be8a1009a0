"""Draws feed-forward units: the texts that excite each, and the tokens that it promotes.

layer 3, unit 17     promotes  ␣wheel 0.21  ␣mill 0.08  …
5.12  [The][old][miller][turns][the]  → ␣wheel          a darker box: a higher coefficient
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.pipeline.report.figures.svg import LETTER, MARGIN, box, label, whole, written
from headrace.pipeline.report.formatting import token_name

if TYPE_CHECKING:
    from headrace.train.inference.unit_memories import Trigger, UnitMemory

LINE = 22
NUMBER = 56
"""Pixels for the coefficient."""


def unit_picture(title: str, units: "Sequence[UnitMemory]") -> str:
    """Returns the picture of ``units``, one below the other."""
    parts, top, width = [], MARGIN + 2.0 * LINE, len(title) * LETTER + 2 * MARGIN
    for unit in units:
        promoted = "  ".join(f"{label(token_name(token.text))} {token.probability:.3f}" for token in unit.promoted)
        parts.append(written(MARGIN, top, f"layer {unit.layer}, unit {unit.unit}", "title"))
        parts.append(written(MARGIN, top + LINE, f"promotes  {promoted}"))
        width = max(width, (len(promoted) + 10) * LETTER + 2 * MARGIN)
        top += 1.5 * LINE
        for trigger in unit.triggers:
            drawn, right = _trigger(trigger, unit.triggers[0].coefficients[-1], top)
            parts += drawn
            top, width = top + LINE, max(width, right + MARGIN)
        top += 2 * LINE
    return whole(title, parts, width, top)


def _trigger(trigger: "Trigger", strongest: float, top: float) -> tuple[list[str], float]:
    """Returns a line with a box for each token, and its end; ``strongest`` is the highest coefficient of the unit."""
    parts = [written(MARGIN + NUMBER - 10, top + 14, f"{trigger.coefficients[-1]:.2f}", anchor="end")]
    left = float(MARGIN + NUMBER)
    for text, coefficient in zip(trigger.tokens, trigger.coefficients, strict=True):
        name = label(token_name(text))
        width, share = len(name) * LETTER + 8, min(max(coefficient / strongest, 0.0), 1.0) if strongest > 0 else 0.0
        parts.append(box(left, top, width - 2, LINE - 3, f"hsl(28 90% {97 - 37 * share:.0f}%)"))
        parts.append(written(left + 3, top + 14, name))
        left += width
    follows = f"→ {label(token_name(trigger.next_token))}" if trigger.next_token else "→ end of the text"
    return [*parts, written(left + 8, top + 14, follows)], left + 8 + len(follows) * LETTER
