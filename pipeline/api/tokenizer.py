"""Tokens of texts, as the stage ``tokens`` encodes them, and rows of them, as the stage ``packed`` packs them."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.data_prep.packed import METHODS, SIMILAR, Packing
from headrace.data_prep.tokenization.encode import Encoder, batches
from headrace.data_prep.tokenization.packing import SPAN
from headrace.pipeline.api.verdict import texts_of_caller
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode_within

MOST_TOKENS = 2**32 - 1


class Tokenizer:
    """Encodes texts with a tokenizer.json, and decodes ids. The ids are those of the tokenizers library.

        tokenizer = headrace.Tokenizer("tokenizer.json")
        ids = tokenizer.encode("The mill")                    an array of ids
        many = tokenizer.encode(["The mill", "The wheel"])    a list of them
        for ids in map(tokenizer.encode, texts): …            one after the other

    It takes the path of a tokenizer.json, or of its folder. No token is added, nothing is cut, and a special token's
    name inside a text is text. ``end_of_text`` is the id of the token that ends a document (None: there is none),
    ``vocabulary_size`` the number of tokens. A pickle holds the path alone, before and after use.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        named = Path(path).resolve()
        self._path = named / "tokenizer.json" if named.is_dir() else named
        try:
            self._encoder = Encoder.load(self._path, needs_end=False)
        except (OSError, UnicodeDecodeError) as error:
            raise ArtifactError(str(path), f"cannot be read ({error})", "name a tokenizer.json or its folder") from None
        self.end_of_text, self.vocabulary_size = self._encoder.end, self._encoder.vocabulary_size

    def __reduce__(self) -> tuple[type["Tokenizer"], tuple[str]]:
        return Tokenizer, (str(self._path),)

    @overload
    def encode(self, text: str) -> NDArray[Any]: ...  # type: ignore[overload-overlap]
    @overload
    def encode(self, text: Iterable[str]) -> list[NDArray[Any]]: ...
    def encode(self, text: str | Iterable[str]) -> NDArray[Any] | list[NDArray[Any]]:
        """Returns the ids of a text, (n,) uint16 (uint32 for more than 65,536 tokens), or those of each of several."""
        if isinstance(text, str):
            return self._encoder.encode([text])[0]
        texts = iter(texts_of_caller("Tokenizer.encode", text))
        return [ids for batch in batches(texts) for ids in self._encoder.encode(batch)]

    def decode(self, ids: Sequence[int] | NDArray[Any], skip_special_tokens: bool = False) -> str:
        """Returns the text of ``ids``, with special tokens or without."""
        return self._encoder.decode(ids, skip_special_tokens)


def pack(
    lengths: ArrayLike, row_tokens: int, method: Literal["best_fit", "concatenate", "padded"] = "best_fit"
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Packs documents of these ``lengths`` into rows of ``row_tokens`` tokens. No token is copied: it returns an index.

        spans, rows = headrace.pack([700, 300, 2000], row_tokens=1024)
        for document, start, length in spans[rows[0] : rows[1]]: …    the first row

    A length counts the token that separates documents, if there is one. ``best_fit`` splits only documents longer than
    a row (Ding et al., Fewer Truncations Improve Language Modeling, 2024); ``concatenate`` fills every row; ``padded``
    has one document in a row. ``spans`` is (n_spans, 3) int64: document, first token, length; ``rows`` (n_rows + 1,).
    """
    packing = decode_within(Packing, {"row_tokens": row_tokens, "method": method}, "pack")
    if packing.method == SIMILAR:
        remedy = "give the lengths in the order wanted, and method='concatenate'"
        raise ConfigError("pack.method", f"is {method!r}, which needs the signatures of a run", remedy)
    sizes = np.asarray(lengths)
    is_whole = sizes.ndim == 1 and (np.issubdtype(sizes.dtype, np.integer) or not sizes.size)
    if not is_whole or (sizes.size and not 0 <= sizes.min() <= sizes.max() <= MOST_TOKENS):
        raise ConfigError("pack.lengths", "needs one list of whole numbers, from 0 to 2^32 - 1", "correct the lengths")
    documents = np.zeros(sizes.size, SPAN)
    documents["shard"], documents["length"] = np.arange(sizes.size), sizes
    spans, rows = METHODS[packing.method](documents[documents["length"] > 0], packing.row_tokens)
    return np.stack([spans[name].astype(np.int64) for name in SPAN.names or ()], axis=1), rows.astype(np.int64)
