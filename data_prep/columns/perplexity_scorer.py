"""The perplexity of a document as a column, by a model of word n-grams of a given file or of the documents themselves.

Text that is unlike the file (CCNet, Wenzek et al. 2020, uses Wikipedia) has a high perplexity.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.data_prep.columns.scorer import Scorer, Scoring
from headrace.data_prep.columns.word_ngrams import WordNgrams
from headrace.data_prep.filters.filter import require_file, user_file
from headrace.data_prep.tokenization.text_sample import text_sample
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.settings import FilePath, Positive, settings
from headrace.pipeline.core.stage import RawFile
from headrace.pipeline.core.text_files import read_lines


@settings
class Perplexity(Scorer):
    """exp(- mean log probability of a word) by a Kneser-Ney model of words (word_ngrams.py)."""

    learns: ClassVar[bool] = True

    type: Literal["perplexity"] = "perplexity"
    path: FilePath | None = None
    """A file of text, also compressed, of which each line is one document; null: a sample of the documents."""
    order: Annotated[int, Field(ge=1, le=5)] = 3
    """Most words of an n-gram."""
    sample_bytes: Positive = 20_000_000
    """Bytes of text that the model learns from, rounded up to whole documents. Memory is 60 times as much."""

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the file. Questions about a finished run do not read it, so it may be elsewhere by then.

        Raises:
            ConfigError: when there is no such file.
        """
        if self.path is None:
            return ()
        require_file("columns.scorers.path", self.path, "a file of text")
        return (user_file(self.path),)

    def learn(self, unique: Artifact, path: Path, counts: "Counter[str]") -> None:
        if self.path is None:
            texts = text_sample(unique.shards("documents"), self.sample_bytes, counts)
        else:
            texts = self._lines(Path(self.path))
        WordNgrams.of(texts, self.order).save(path)

    def _lines(self, path: Path) -> Iterator[str]:
        left = self.sample_bytes
        for line in read_lines(path):
            if left <= 0:
                return
            left -= len(line)
            yield line.decode("utf-8", "replace")

    def scoring(self, model: Path | None) -> Scoring:
        assert model is not None
        ngrams = WordNgrams.load(model)
        return lambda document: ngrams.perplexity(document.text)
