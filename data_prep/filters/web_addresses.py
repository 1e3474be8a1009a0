"""Addresses in the text, and runs of blank lines: what RefinedWeb takes out right after extraction.

See https://a.org/x?y for more. ──> See for more.
"""

import re
from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.pipeline.core.settings import Natural

_ADDRESS = re.compile(
    r"(?:(?<![^\S\n])[^\S\n]+)?\b(?:(?:https?|ftp)://|www\.)[^\s<>\"']*[^\s<>\"'.,;:!?)\]}]", re.IGNORECASE
)
"""With the white space before it, which is tried from its beginning only: a run of spaces costs its length."""


@filter_settings
class WithoutAddresses(Filter):
    """Cuts URLs (``http://…``, ``https://…``, ``ftp://…``, ``www.…``) and shortens runs of line feeds; drops no page
    but those left empty.

    Penedo et al. 2023 ("The RefinedWeb Dataset for Falcon LLM"), section 3.1: at most two line feeds in a row, no URLs.
    The paper does not give its expression. Names without scheme or ``www.`` stay; so does punctuation at the end.
    """

    type: Literal["without_addresses"] = "without_addresses"
    max_line_feeds: Natural = 2
    """The longest run of line feeds (RefinedWeb: 2)."""

    def judge(self, document: Document) -> Drop | None:
        text = _ADDRESS.sub("", document.text)
        text = re.sub(rf"\n{{{self.max_line_feeds + 1},}}", "\n" * self.max_line_feeds, text)
        if not text.strip():
            return Drop(self.type, "nothing else")
        document.text = text
        return None
