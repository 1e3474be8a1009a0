"""Takes benchmark items out of training documents, as the settings say.

document ── search ──> no hit: as it is
                 └──> drop: {"rule": "contaminated", "value": "lambada/lambada_openai.jsonl.zst:17"}
                 └──> mask: the text without the matches, metadata.masked = [item, …]; drop where too little is left
"""

import dataclasses
from collections.abc import Sequence

from datatrove.data import Document

from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.decontamination.masking import MOST_PIECES, masked
from headrace.data_prep.decontamination.overlap import Overlap, items_in, overlaps
from headrace.data_prep.decontamination.search import Hits, Search
from headrace.data_prep.document import Drop

RULE = "contaminated"


@dataclasses.dataclass(frozen=True)
class Removal:
    """Decides about one document after the other."""

    search: Search
    settings: Decontamination

    def __call__(self, document: Document) -> tuple[Drop | None, list[Overlap]]:
        """Why ``document`` goes, if it does, and its overlaps; masks its text where that is asked for."""
        hits = self.search.hits(document.text)
        if not hits.size:
            return None, []
        text = self._masked(document.text, hits) if self.settings.action == "mask" else None
        ngrams = self.search.ngrams
        found = overlaps(items_in(hits, ngrams), ngrams, document.id, "masked" if text else "dropped")
        if text is None:
            return Drop(RULE, _value(found)), found
        document.text = text
        document.metadata["masked"] = [overlap.item for overlap in found]
        return None, found

    def _masked(self, text: str, hits: Hits) -> str | None:
        """``text`` without any match, also without those that a cut has made; None when it is not worth keeping."""
        lengths = self.search.ngrams.lengths
        rest: str | None = text
        for _ in range(MOST_PIECES):
            if rest is None or not hits.size:
                return rest
            runs = [(first, first + int(lengths[number])) for first, number in hits.tolist()]
            rest = masked(rest, runs, self.settings.window_characters)
            hits = self.search.hits(rest or "")
        return None if hits.size else rest


def _value(found: Sequence[Overlap]) -> str:
    """The item of which most was found, and how many others."""
    most = max(found, key=lambda overlap: overlap.found)
    return most.item + f" and {len(found) - 1:,} more" * (len(found) > 1)
