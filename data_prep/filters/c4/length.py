"""A page's text as C4's code has it, and pages that are too long to be a page: logs, dumps, books of spam."""

from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.pipeline.core.settings import Positive


@filter_settings
class StrippedLines(Filter):
    """Rewrites pages to their non-empty stripped lines, and drops none: what ``split_wet_file`` of TFDS
    text/c4_utils.py makes of every page that it reads."""

    type: Literal["stripped_lines"] = "stripped_lines"

    def judge(self, document: Document) -> Drop | None:
        document.text = page_text(document.text)
        return None


@filter_settings
class PageLength(Filter):
    """Drops pages of more than ``max_characters``, counted over their non-empty stripped lines joined by line feeds.

    190,000 and the way of counting: ``is_valid_length`` and ``split_wet_file`` of TFDS text/c4_utils.py.
    """

    type: Literal["page_length"] = "page_length"
    max_characters: Positive = 190_000
    """The longest page that stays."""

    def judge(self, document: Document) -> Drop | None:
        if len(document.text) <= self.max_characters:  # stripping only shortens
            return None
        characters = len(page_text(document.text))
        return Drop(self.type, str(characters)) if characters > self.max_characters else None


def page_text(text: str) -> str:
    """The non-empty stripped lines of ``text``, joined by line feeds; lines end at LF, CR or CR LF."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(filter(None, (line.strip() for line in lines)))
