"""Opens the tokenizer of a Hugging Face folder, and compares it with its tokenizer.json.

    AutoTokenizer ── of tokenizer.json as it is ──────────────────────> the tokenizer
                  ── built by a class (GPT2Tokenizer) ── same ids ────> the tokenizer
                                                      ── other ids ───> that of tokenizer.json as it is

``transformers`` 5 takes only the vocabulary from tokenizer.json for a class that it knows, and the splitting into words
from the class. A model was trained with the tokenizer of the file, which may split otherwise: digits one by one, say.
"""

import sys
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from headrace.data_prep.tokenization.fast_bpe import PROBE_CHARACTERS, probes
from headrace.pipeline.core.errors import ArtifactError
from headrace.train.families.hf_config import read_hf_config
from headrace.train.families.own import Own

OPENED = {"local_files_only": True, "trust_remote_code": False}
PROBES = 100
"""Random texts of all kinds of characters."""


def opened_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Returns the tokenizer in ``folder``. Prints a line where it is not the one that AutoTokenizer builds.

    Raises:
        ArtifactError: when ``transformers`` gives a token of tokenizer.json another id.
    """
    known = {"config": PreTrainedConfig()} if _is_own_format(folder) else {}  # transformers warns of unknown types
    opened: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, **known, **OPENED)
    file = folder / "tokenizer.json"
    built: Tokenizer | None = getattr(opened, "backend_tokenizer", None)
    if built is None or not file.is_file():
        return opened
    library = Tokenizer.from_file(str(file))
    library.no_truncation()
    library.no_padding()
    _check_numbers(built, library, folder)
    text = _differing(built, library)
    if text is None or opened.init_kwargs.get(
        "add_prefix_space"
    ):  # the folder asks for another tokenizer than its file
        return opened
    name = type(opened).__name__
    print(f"{folder}: tokenizer.json is used as it is; {name} would give other ids, to {text!r}, say", file=sys.stderr)
    return PreTrainedTokenizerFast.from_pretrained(folder, **OPENED)


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


def _differing(built: Tokenizer, library: Tokenizer) -> str | None:
    """Returns a text to which the two tokenizers give different ids; None if none was found."""

    def ids(tokenizer: Any, text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    texts = ["a 1234", *PROBE_CHARACTERS, *probes()[:PROBES]]
    return next((text for text in texts if ids(built, text) != ids(library, text)), None)
