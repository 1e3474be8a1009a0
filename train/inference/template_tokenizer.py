"""A tokenizer for texts that a chat template wrote.

"<|user|>Hello<|end|>" ── as Encoder reads a page ──> the characters of "<|user|>" one by one
                       ── as this one does ─────────> <|user|> Hello <|end|>
"""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from headrace.data_prep.tokenization.page_tokenizer import library_errors
from headrace.train.inference.queries import TextEncoder


class TemplateTokenizer:
    """The tokenizer of ``encoder``, which reads special tokens in a text, too."""

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        self.end_of_text, self.end = encoder.end_of_text, encoder.end
        self.backend: Tokenizer = Tokenizer.from_str(encoder.backend.to_str())
        self.backend.encode_special_tokens = False

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of each text; none is added."""
        with library_errors("tokenizer.json"):
            encodings = self.backend.encode_batch(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int64) for encoding in encodings]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Returns the text of ``ids``; see ``TextEncoder``."""
        return self._encoder.decode(ids, skip_special_tokens)
