"""Opens the tokenizer of a Hugging Face folder, and compares it with its tokenizer.json.

    AutoTokenizer ── of tokenizer.json as it is ────────────────────────────> the tokenizer
                  ── built by a class (GPT2Tokenizer) ── same ids ──────────> the tokenizer
                                                      ── other ids, none ───> that of tokenizer.json as it is

``transformers`` 5 takes only the vocabulary from tokenizer.json for a class that it knows, and the splitting into words
from the class. A model was trained with the tokenizer of the file, which may split otherwise: digits one by one, say.

A text that a chat template wrote needs a tokenizer that reads special tokens:

    "<|user|>Hello<|end|>" ── as Encoder reads a page ──> the characters of "<|user|>" one by one
                           ── as TemplateTokenizer ─────> <|user|> Hello <|end|>
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from headrace.data_prep.tokenization.encode import parsed
from headrace.data_prep.tokenization.page_tokenizer import (
    check_texts,
    is_of_library,
    library_errors,
    library_ids,
    probe_texts,
)
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.system_errors import explained
from headrace.train.families.hf_config import read_hf_config
from headrace.train.families.own import Own
from headrace.train.inference.chat_template import ChatTemplate
from headrace.train.inference.queries import TextEncoder
from headrace.train.parts import WRITING, StackName

OPENED = {"local_files_only": True, "trust_remote_code": False}
USUAL_WINDOW_TOKENS = 2048
"""lm-evaluation-harness's window of models without such a number (models/utils.py, resolve_max_length), as BLOOM."""


def opened_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Returns the tokenizer in ``folder``. Prints a line where it is not the one that AutoTokenizer builds.

    Raises:
        ArtifactError: when ``transformers`` gives a token of tokenizer.json another id, its ids are random, or the
            library cannot encode a text.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        return _of_class(folder)
    library = _library(file)
    try:
        opened = _of_class(folder)
    except BaseException as error:  # a class takes a vocabulary of its own kind alone, and says so in its own words
        if not is_of_library(error):
            raise
        return _of_file(folder, "no class that its configuration names takes its vocabulary")
    built: Tokenizer | None = getattr(opened, "backend_tokenizer", None)
    if built is None:
        return opened
    _check_numbers(built, library, folder)
    text = _differing(built, library, str(file))
    # The folder may ask for another tokenizer than its file.
    if text is None or opened.init_kwargs.get("add_prefix_space") or type(opened) is PreTrainedTokenizerFast:
        return opened
    return _of_file(folder, f"{type(opened).__name__} would give other ids, to {text!r}, say")


def _library(file: Path) -> Tokenizer:
    """Returns the tokenizer of the ``file`` as the library reads it, after checking that it encodes every text."""
    try:
        library = parsed(file.read_text(encoding="utf-8"), str(file))
        library.no_truncation()
        library.no_padding()
        check_texts(library, str(file))
        for text in probe_texts(library):
            library_ids(library, text, str(file))
    except UnicodeDecodeError:
        raise ArtifactError(str(file), "is not UTF-8 text", "fetch it again") from None
    except ConfigError as error:
        raise ArtifactError(error.where, error.problem, error.remedy) from None
    return library


def _of_class(folder: Path) -> PreTrainedTokenizerBase:
    known = {"config": PreTrainedConfig()} if _is_own_format(folder) else {}  # transformers warns of unknown types
    opened: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, **known, **OPENED)
    return opened


def _of_file(folder: Path, reason: str) -> PreTrainedTokenizerBase:
    opened = PreTrainedTokenizerFast.from_pretrained(folder, **OPENED)
    print(f"{folder}: tokenizer.json is used as it is; {reason}", file=sys.stderr)
    return opened


def _is_own_format(folder: Path) -> bool:
    is_described = (folder / "config.json").is_file()
    return is_described and read_hf_config(folder).get("model_type") == Own.model_type


def _check_numbers(built: Tokenizer, library: Tokenizer, folder: Path) -> None:
    theirs, ours = (tokenizer.get_vocab(with_added_tokens=True) for tokenizer in (built, library))
    if differing := min((token for token, number in ours.items() if theirs.get(token) != number), default=None):
        problem = (
            f"gives {differing!r} the id {theirs.get(differing)} in transformers, and {ours[differing]} in its file"
        )
        remedy = 'set "tokenizer_class" to "PreTrainedTokenizerFast" in tokenizer_config.json'
        raise ArtifactError(str(folder / "tokenizer.json"), problem, remedy)


def _differing(built: Tokenizer, library: Tokenizer, where: str) -> str | None:
    """Returns a text to which the two tokenizers give different ids, or ``built`` none; None if none was found."""
    try:
        check_texts(built, where)
    except ConfigError:  # it might never end
        return next(iter(probe_texts(library)))
    for text in ("a 1234", *probe_texts(library)):
        expected = library_ids(library, text, where)
        try:
            is_same = library_ids(built, text, where) == expected
        except ConfigError:
            is_same = False
        if not is_same:
            return text
    return None


class FolderTokenizer:
    """The tokenizer of a folder, as its model expects it."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, opening: tuple[int, ...], end_of_text: int) -> None:
        self._tokenizer = tokenizer
        self.end_of_text = end_of_text
        """The token that an empty context becomes."""
        self.opening = opening
        """Tokens before each text that is not empty; an encoder adds its own."""
        self.end: int | None = tokenizer.eos_token_id
        """The token that ends a text; None: it names none."""
        longest = tokenizer.model_max_length
        self.window_tokens: int = USUAL_WINDOW_TOKENS if longest == VERY_LARGE_INTEGER else longest
        """Positions of a model whose config.json does not give their number."""

    @property
    def backend(self) -> Tokenizer:
        """The tokenizer of the tokenizers library."""
        backend: Tokenizer = self._tokenizer.backend_tokenizer  # type: ignore[attr-defined]  # of fast tokenizers
        return backend

    @property
    def tokens(self) -> int:
        """The ids of its tokens are below this number."""
        return 1 + max(map(int, self._tokenizer.get_vocab().values()))

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of each text, without special tokens."""
        if not texts:
            return []
        with library_errors(self._tokenizer.name_or_path):
            encodings = self._tokenizer(list(texts), add_special_tokens=False).input_ids
        return [np.array(ids, np.int64) for ids in encodings]

    @property
    def special(self) -> dict[str, str]:
        """The special tokens by their role (``eos_token``, …), for chat templates."""
        return {role: token for role, token in self._tokenizer.special_tokens_map.items() if isinstance(token, str)}

    @property
    def template(self) -> ChatTemplate | None:
        """The chat template of the folder; None: it has none."""
        if self._tokenizer.chat_template is None:
            return None
        return ChatTemplate(self._tokenizer.get_chat_template(), self.special)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Returns the text that was encoded or, without special tokens, as ``transformers`` shows it."""
        cleans = None if skip_special_tokens else False
        return str(self._tokenizer.decode(list(ids), skip_special_tokens, clean_up_tokenization_spaces=cleans))


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


def model_tokenizer(folder: Path, stack: StackName) -> FolderTokenizer:
    """Returns the tokenizer in ``folder`` for a model of this ``stack``.

    Raises:
        ArtifactError: when there is none that ``transformers`` opens, or it names no token for an end of a text.
    """
    try:
        tokenizer = opened_tokenizer(folder)
    except (OSError, ValueError, KeyError) as error:
        problem = f"has no tokenizer that transformers opens ({first_line(error)})"
        remedy = "put the model's tokenizer.json and tokenizer_config.json there"
        raise explained(error, folder) or ArtifactError(str(folder), problem, remedy) from error
    if stack not in WRITING:
        return FolderTokenizer(tokenizer, (), tokenizer.sep_token_id)
    if tokenizer.bos_token_id is None and tokenizer.eos_token_id is None:
        problem = "has a tokenizer without a token for the beginning or the end of a text"
        raise ArtifactError(str(folder), problem, "name one in tokenizer_config.json (eos_token)")
    if stack == "encoder_decoder":  # the form of its contexts has the token at their end
        return FolderTokenizer(tokenizer, (), tokenizer.eos_token_id)
    end = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    opening, ending = _frame(tokenizer)
    if ending:
        named = ", ".join(map(repr, tokenizer.convert_ids_to_tokens(list(ending))))
        print(f"{folder}: no text is ended with {named}, as its tokenizer does: it could not go on", file=sys.stderr)
    return FolderTokenizer(tokenizer, opening, end)


def _frame(tokenizer: PreTrainedTokenizerBase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the tokens that ``tokenizer`` puts before a text, and those after it."""
    whole, text = tokenizer("a").input_ids, tokenizer("a", add_special_tokens=False).input_ids
    starts = (start for start in range(len(whole)) if text and whole[start : start + len(text)] == text)
    start = next(starts, len(whole) - len(text))
    return tuple(whole[:start]), tuple(whole[start + len(text) :])


def first_line(error: BaseException) -> str:
    """Returns the first line of what ``error`` says, for a message."""
    return str(error).strip().partition("\n")[0].rstrip(" :")
