"""Pages with too few long lines: mC4's only rule for the text, as it works without knowing the language."""

from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.pipeline.core.settings import Natural


@filter_settings
class LongLines(Filter):
    """Drops pages of fewer than ``min_lines`` lines with at least ``min_characters``.

    Xue et al. 2021 ("mT5: A Massively Multilingual Pre-trained Text-to-Text Transformer"), section 3.1;
    ``paragraph_filter`` of TFDS text/c4_utils.py.
    """

    type: Literal["long_lines"] = "long_lines"
    min_lines: Natural = 3
    """The fewest long lines (mC4: 3)."""
    min_characters: Natural = 200
    """The shortest line that counts as long (mC4: 200)."""

    def judge(self, document: Document) -> Drop | None:
        lines = sum(len(line) >= self.min_characters for line in document.text.split("\n"))
        return None if lines >= self.min_lines else Drop(self.type, str(lines))
