"""C4's and mC4's filters by length, and the text of a page as C4's code reads it."""

from typing import ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Explanations, Filter, filter_settings
from headrace.pipeline.core.settings import Natural, Positive


@filter_settings
class StrippedLines(Filter):
    """Rewrites pages to their stripped lines without blank ones. Drops no page.

    Source: ``split_wet_file`` of TFDS text/c4_utils.py, which does this to every page that it reads.
    """

    type: Literal["stripped_lines"] = "stripped_lines"

    def judge(self, document: Document) -> Drop | None:
        document.text = page_text(document.text)
        return None


@filter_settings
class PageLength(Filter):
    """Drops pages of more than ``max_characters``, which are logs, dumps or spam.

    The characters are those of the stripped lines without blank ones, joined by line feeds. Source of the limit and of
    the counting: ``is_valid_length`` and ``split_wet_file`` of TFDS text/c4_utils.py.
    """

    explanations: ClassVar[Explanations] = {
        "": (
            "Drops pages of more than {max_characters} characters.",
            "{number} characters, at most {max_characters} allowed",
        ),
    }
    type: Literal["page_length"] = "page_length"
    max_characters: Positive = 190_000
    """Most characters of a page that is kept."""

    def judge(self, document: Document) -> Drop | None:
        if len(document.text) <= self.max_characters:  # stripping only shortens
            return None
        characters = len(page_text(document.text))
        return Drop(self.type, str(characters)) if characters > self.max_characters else None


@filter_settings
class LongLines(Filter):
    """Drops pages with fewer than ``min_lines`` lines of at least ``min_characters``.

    It is mC4's only rule for the text, because it works in any language. Source: Xue et al. 2021 ("mT5: A Massively
    Multilingual Pre-trained Text-to-Text Transformer"), section 3.1; ``paragraph_filter`` of TFDS text/c4_utils.py.
    """

    explanations: ClassVar[Explanations] = {
        "": (
            "Drops pages with fewer than {min_lines} lines of at least {min_characters} characters.",
            "{number} long lines, {min_lines} needed",
        ),
    }
    type: Literal["long_lines"] = "long_lines"
    min_lines: Natural = 3
    """Fewest long lines (mC4: 3)."""
    min_characters: Natural = 200
    """Fewest characters of a long line (mC4: 200)."""

    def judge(self, document: Document) -> Drop | None:
        lines = sum(len(line) >= self.min_characters for line in document.text.split("\n"))
        return None if lines >= self.min_lines else Drop(self.type, str(lines))


def page_text(text: str) -> str:
    """Returns the stripped lines of ``text`` without blank ones, joined by line feeds. Lines end at LF, CR or CR LF."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(filter(None, (line.strip() for line in lines)))
