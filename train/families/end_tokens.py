"""The tokens that end a text of the model in a Hugging Face folder. Free of torch.

    generation_config.json      {"eos_token_id": [0, 439]}      decides where it is there
    config.json                 {"eos_token_id": 0}             decides otherwise
    tokenizer_config.json       {"eos_token": "<|im_end|>"}     ends a text in any case, as in lm-evaluation-harness

The first two are the rule of ``transformers`` 5 (generation/utils.py, adjust_generation_fn): a generation_config.json
without a token means none. ``generate`` of transformers does not know the third.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.train.families.hf_config import read_hf_config

GENERATION_CONFIG = "generation_config.json"
FIELD = "eos_token_id"
OF_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
"""The fields that both files have."""
NESTED = ("decoder", "generator", "text_config")
"""The objects in config.json that may have the token, where it has none itself."""


def end_tokens(folder: Path) -> tuple[int, ...]:
    """Returns the ids of the tokens that end a text by the files of the model in ``folder``, in ascending order.

    Raises:
        ArtifactError: when a file is not JSON, or has something else than ids there.
    """
    generation = generation_config(folder)
    if generation is not None:
        return _ids(folder / GENERATION_CONFIG, generation.get(FIELD))
    config = read_hf_config(folder)
    parts = [config, *(config[name] for name in NESTED if isinstance(config.get(name), dict))][:2]
    return _ids(folder / "config.json", next((part[FIELD] for part in parts if part.get(FIELD) is not None), None))


def generation_config(folder: Path) -> dict[str, Any] | None:
    """Returns the content of generation_config.json in ``folder``; None where there is no such file.

    Raises:
        ArtifactError: when it is not JSON, or no object.
    """
    file = folder / GENERATION_CONFIG
    return _object(file) if file.is_file() else None


def _object(file: Path) -> dict[str, Any]:
    content = read_json(file)
    if not isinstance(content, dict):
        raise ArtifactError(str(file), f"holds no object but {type(content).__name__}", "fetch it again")
    return content


def _ids(file: Path, value: object) -> tuple[int, ...]:
    """Returns the ids in ``value``: a whole number, a list of them, or null. A negative one is no token."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    ids = [token for token in values if isinstance(token, int) and not isinstance(token, bool)]
    if len(ids) < len(values):
        remedy = "give the id of a token there, or a list of ids"
        raise ArtifactError(str(file), f"has {FIELD}={value!r}", remedy)
    return tuple(sorted({token for token in ids if token >= 0}))


def tokenizer_end(folder: Path) -> int | None:
    """Returns the id of ``eos_token`` in tokenizer_config.json; None where there is none.

    Raises:
        ArtifactError: when a file is not JSON.
    """
    config, tokenizer = folder / "tokenizer_config.json", folder / "tokenizer.json"
    if not config.is_file() or not tokenizer.is_file():
        return None
    token = _object(config).get("eos_token")
    name = token.get("content") if isinstance(token, dict) else token
    added = _object(tokenizer).get("added_tokens")
    tokens = (entry for entry in (added if isinstance(added, list) else []) if isinstance(entry, dict))
    return next((entry.get("id") for entry in tokens if entry.get("content") == name), None)


def write_generation_config(folder: Path, ends: Iterable[int]) -> None:
    """Writes generation_config.json of the model in ``folder``, with the tokens of config.json and further ``ends``.

    Of a file that is there, only the end tokens change.
    """
    config, file = read_hf_config(folder), folder / GENERATION_CONFIG
    values = {name: config[name] for name in OF_TOKENS if config.get(name) is not None}
    values |= _object(file) if file.is_file() else {}
    known = _ids(file, values.get(FIELD))
    further = sorted(set(ends) - set(known))
    if further:
        values[FIELD] = [*known, *further]
    if further or not file.is_file():
        write_json(file, values)
