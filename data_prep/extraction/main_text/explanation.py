"""Why a block of a page is kept or left out: its probability, and the features that decided.

page, model ── explained ──> JudgedBlock("Home | About", "nav > ul > li", 0.02, False, (("share linked", -2.1), …)), …
"""

from dataclasses import dataclass

import numpy as np

from headrace.data_prep.extraction.main_text.feature_names import FEATURE_NAMES
from headrace.data_prep.extraction.main_text.model import CERTAIN, SCALE, MainTextModel, feature_rows, judged, reasons
from headrace.data_prep.extraction.page import HtmlPage
from headrace.data_prep.extraction.parsing.elements import NAMES
from headrace.data_prep.extraction.parsing.scan import BLOCK, ELEMENT_NAME, PARENT

LEVELS = 4
"""Elements that a path shows, from the block outwards."""


@dataclass(frozen=True)
class JudgedBlock:
    """A block of a page."""

    text: str
    path: str
    """The elements around it, the innermost last."""
    probability: float
    """The chance that it belongs to the main text."""
    is_kept: bool
    reasons: tuple[tuple[str, float], ...]
    """Features, with the change of the log-odds that each made, the largest first."""


def explained(page: HtmlPage, model: MainTextModel) -> list[JudgedBlock]:
    """Returns the blocks of ``page``, in its order, as ``model`` judges them."""
    rows = feature_rows(page, (model.hashes, model.scores))
    probability, keep = judged(page, model)
    blocks = []
    for number, text in enumerate(page.blocks()):
        changes = reasons(rows[number], model.roots, model.nodes)
        largest = np.argsort(-np.abs(changes), kind="stable")
        named = tuple((FEATURE_NAMES[index], float(changes[index]) / SCALE) for index in largest if changes[index])
        chance = float(probability[number]) / CERTAIN
        blocks.append(JudgedBlock(text, _path(page, number), chance, bool(keep[number]), named))
    return blocks


def _path(page: HtmlPage, number: int) -> str:
    """Returns the names of the innermost elements around a block."""
    records, names = page.scan.records, list[str]()
    element = records[page.order[number], BLOCK]
    while element > 0 and len(names) < LEVELS:
        if name := NAMES[max(records[element, ELEMENT_NAME], 0)]:
            names.append(name)
        element = records[element, PARENT]
    return " > ".join(reversed(names))
