"""First weights from a Hugging Face folder (continued pretraining): what must fit before a training goes on from them.

    folder/config.json       the shape: whatever a weight depends on must be as in this run's model
    folder/*.safetensors     the weights; their checksums and config.json's are in the description of ``weights``
    folder/tokenizer.json    must give every text the ids that this run's tokenizer gives it

Free of torch: what can be known without the weights is checked when the run is planned.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from headrace.data_prep.tokenization.encode import parse
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.stage import RawFile, raw_file
from headrace.train.config import ModelConfig
from headrace.train.families.hf_config import read_shape

SETTING = "training.initial_weights"
WEIGHTS = "*.safetensors"


def raw_files(folder: Path, model: ModelConfig) -> tuple[RawFile, ...]:
    """config.json and the weights in ``folder``, after its shape was found to be that of ``model``.

    Raises:
        ConfigError: when a file is missing, or a field of the shape differs, naming it.
    """
    try:
        shape, _ = read_shape(folder)
    except ArtifactError as error:
        raise ConfigError(SETTING, f"{error.where} {error.wrong}", error.remedy) from None
    _check_shape(folder, shape, model)
    weights = sorted(folder.glob(WEIGHTS))
    if not weights:
        raise ConfigError(SETTING, f"{folder} has no {WEIGHTS}", "save the model in that format")
    return tuple(raw_file(f"initial_weights/{path.name}", path) for path in (folder / "config.json", *weights))


def _check_shape(folder: Path, shape: ModelConfig, model: ModelConfig) -> None:
    """No weight depends on dropout, on the base of rotations that are not made, or on how far rotations reach."""
    free = ("dropout", "rope_theta" if model.positions == "learned" else "context")
    for field in dataclasses.fields(ModelConfig):
        theirs, ours = getattr(shape, field.name), getattr(model, field.name)
        if theirs != ours and field.name not in free:
            wrong = f"{folder} has {field.name} {_yaml(theirs)}, model.{field.name} is {_yaml(ours)}"
            raise ConfigError(SETTING, wrong, f"set model.{field.name}={_yaml(theirs)}")


def _yaml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def check_tokenizer(folder: Path, tokenizer_file: Path, vocabulary: int) -> None:
    """Refuse weights that were trained on other tokens than those of ``tokenizer_file``, ``vocabulary`` of them.

    Raises:
        ConfigError: naming the first difference.
    """
    file = folder / "tokenizer.json"
    remedy = f"give the run its tokenizer: tokenizer=file tokenizer.path={file}"
    if not file.is_file():
        raise ConfigError(SETTING, f"{folder} has no tokenizer.json", "put the tokenizer of these weights there")
    theirs, ours = (parse(path.read_text(encoding="utf-8"), str(path)) for path in (file, tokenizer_file))
    their_ids, our_ids = (tokenizer.get_vocab(with_added_tokens=True) for tokenizer in (theirs, ours))
    for token in sorted(their_ids.keys() | our_ids.keys()):
        their_id, our_id = their_ids.get(token), our_ids.get(token)
        if their_id != our_id:
            wrong = f"{file} has the id {their_id} for {token!r}, this run's tokenizer {our_id}"
            raise ConfigError(SETTING, wrong, remedy)
    their_parts, our_parts = (_deciding(json.loads(tokenizer.to_str())) for tokenizer in (theirs, ours))
    for part in ("normalizer", "pre_tokenizer", "model"):
        if their_parts.get(part) != our_parts.get(part):
            raise ConfigError(SETTING, f"{file} has another {part} than this run's tokenizer", remedy)
    _, embedded = read_shape(folder)
    if embedded != vocabulary:
        wrong = f"{folder} has vocab_size {embedded} in config.json, its tokenizer {vocabulary} tokens"
        raise ConfigError(SETTING, wrong, "cut or extend its embedding to the tokenizer's size")


def _deciding(value: Any) -> Any:
    """What decides the ids in a tokenizer's JSON: not the offsets of tokens, nor how something absent is written."""
    if isinstance(value, dict):
        kept = {key: _deciding(item) for key, item in value.items() if key != "trim_offsets"}
        return {key: item for key, item in kept.items() if item not in (None, "", False)}
    return [_deciding(item) for item in value] if isinstance(value, list) else value
