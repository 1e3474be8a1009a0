"""The tokenizer of an exported Hugging Face folder: its roles, their ids, and its files. Free of torch."""

from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer

from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT, roles
from headrace.pipeline.core.json_files import write_json
from headrace.train.families.family import Family

TOKEN_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
"""The special tokens that config.json names."""


def token_roles(tokenizer: Tokenizer, family: Family) -> dict[str, str]:
    """Returns role → special token; ``family`` decides the roles of end of text, where the tokenizer has it."""
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special]
    return {**(family.special_tokens if END_OF_TEXT in special else {}), **roles(special)}


def token_ids(tokenizer: Tokenizer, family: Family) -> dict[str, int]:
    """Returns the ids of the tokens of TOKEN_IDS, as far as the tokenizer has them."""
    ids = {f"{role}_id": tokenizer.token_to_id(token) for role, token in token_roles(tokenizer, family).items()}
    return {name: number for name, number in ids.items() if name in TOKEN_IDS and number is not None}


def write_tokenizer_config(folder: Path, context: int, token_of_role: Mapping[str, str]) -> None:
    """Writes tokenizer_config.json of a model that reads ``context`` tokens to ``folder``."""
    values = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **token_of_role,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", values)
