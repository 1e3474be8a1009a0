"""A filter: pages of which too many characters are digits."""

from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.pipeline.core.settings import Fraction


@filter_settings
class ManyDigits(Filter):
    """Drops pages of which too large a share of the characters are digits."""

    type: Literal["many_digits"] = "many_digits"
    max_fraction: Fraction = 0.2
    """The largest share of a page that is kept."""

    def judge(self, document: Document) -> Drop | None:
        fraction = sum(map(str.isdigit, document.text)) / max(len(document.text), 1)
        return Drop(self.type, f"{fraction:.2f}") if fraction > self.max_fraction else None
