"""Filter that removes URLs and runs of blank lines from the text, as RefinedWeb does right after extraction.

See https://a.org/x?y for more. ──> See for more.
"""

import re
from typing import ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Explanations, Filter, filter_settings
from headrace.pipeline.core.settings import Natural

_ADDRESS = re.compile(
    r"(?:(?<![^\S\n])[^\S\n]+)?\b(?:(?:https?|ftp)://|www\.)[^\s<>\"']*[^\s<>\"'.,;:!?)\]}]", re.IGNORECASE
)
"""A URL with the white space before it. The lookbehind starts a match only at the beginning of a run of white space, so
the time for a run grows linearly with its length."""


@filter_settings
class WithoutAddresses(Filter):
    """Removes URLs (``http://…``, ``https://…``, ``ftp://…``, ``www.…``) and shortens runs of line feeds. Drops only
    pages that are empty afterwards.

    Source: Penedo et al. 2023 ("The RefinedWeb Dataset for Falcon LLM"), section 3.1: no URLs, at most two line feeds
    in a row. The paper does not give its regular expression. Here names without scheme or ``www.`` are kept, and so is
    punctuation after a URL.
    """

    explanations: ClassVar[Explanations] = {
        "": ("Drops pages that hold only web addresses.", "nothing else is on the page"),
    }
    type: Literal["without_addresses"] = "without_addresses"
    max_line_feeds: Natural = 2
    """Longest run of line feeds that is kept (RefinedWeb: 2)."""

    def judge(self, document: Document) -> Drop | None:
        text = _ADDRESS.sub("", document.text)
        text = re.sub(rf"\n{{{self.max_line_feeds + 1},}}", "\n" * self.max_line_feeds, text)
        if not text.strip():
            return Drop(self.type, "nothing else")
        document.text = text
        return None
