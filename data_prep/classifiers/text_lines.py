"""Files of text with a text in each line, which may begin with a label as fastText's files do.

__label__hq A page about mills.    ──>    text "A page about mills.", field __label__: "hq"
"""

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.source import Record
from headrace.pipeline.core.settings import settings

FASTTEXT = "__label__"
"""The beginning of a label in a line, and the field of the document that has it."""


@settings
class TextLines(Jsonl):
    """Lines of text in UTF-8, plain or compressed. Blank lines are no records.

    Drops: ``not_utf8``, ``no_text`` (a label alone), and what JSON lines drop for their length and compression.
    """

    def suffixes(self) -> tuple[str, ...]:
        return (".txt",)

    def check(self, names: object) -> None:
        """Accepts all files: a line of text has no fields."""

    def _document(self, identity: str, line: bytes) -> Record:
        document = Document("", identity)
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            return document, Drop("not_utf8", f"byte {error.start}")
        if text.startswith(FASTTEXT):
            label, _, text = text.partition(" ")
            document.metadata["extra"] = {FASTTEXT: label.removeprefix(FASTTEXT)}
        document.text = text.strip()
        return document, None if document.text else Drop("no_text", "")
