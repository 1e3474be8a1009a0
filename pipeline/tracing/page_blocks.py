"""The blocks of a page that texts read: it is read again from its source.

"crawl.warc.gz:7" ── blocks_of ──> JudgedBlock("A mill stood …", "article > p", 0.98, True, …), …
"""

from headrace.data_prep.document import split_id
from headrace.data_prep.extraction.main_text.explanation import JudgedBlock, explained
from headrace.data_prep.sources.extraction import HtmlExtraction, watched
from headrace.data_prep.texts import Texts
from headrace.pipeline.core.errors import ConfigError


def blocks_of(texts: Texts, identity: str) -> list[JudgedBlock]:
    """Returns the blocks of the page of the document ``identity``.

    Raises:
        ConfigError: when no model chose its text.
        ArtifactError: when its file cannot be read.
    """
    file, _ = split_id(identity)
    source = texts.source_of(file)
    if not isinstance(source, HtmlExtraction) or not source.extracts or source.extractor != "blocks":
        remedy = "use it with a source of HTML and source.extractor=blocks"
        raise ConfigError("--blocks", "no model chose the text of these documents", remedy)
    with watched() as pages:
        for document, _ in source.read(file):
            if document.id == identity and pages:
                return explained(pages[-1], source.model)
            pages.clear()
    raise ConfigError("--blocks", f"{identity!r} is no page of HTML that could be read", "name another document")
