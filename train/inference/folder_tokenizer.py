"""Opens the tokenizer of a Hugging Face folder, and compares it with its tokenizer.json.

    AutoTokenizer ── of tokenizer.json as it is ────────────────────────────> the tokenizer
                  ── built by a class (GPT2Tokenizer) ── same ids ──────────> the tokenizer
                                                      ── other ids, none ───> that of tokenizer.json as it is

``transformers`` 5 takes only the vocabulary from tokenizer.json for a class that it knows, and the splitting into words
from the class. A model was trained with the tokenizer of the file, which may split otherwise: digits one by one, say.
"""

import sys
from pathlib import Path

from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from headrace.data_prep.tokenization.encode import parsed
from headrace.data_prep.tokenization.id_checks import check_texts, library_ids, probe_texts
from headrace.data_prep.tokenization.page_tokenizer import is_of_library
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.train.families.hf_config import read_hf_config
from headrace.train.families.own import Own

OPENED = {"local_files_only": True, "trust_remote_code": False}


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
