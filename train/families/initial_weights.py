"""Checks of initial weights from a Hugging Face folder (continued pretraining), before training starts from them.

    folder/config.json       the shape: every field that a weight depends on must equal this run's model
    folder/*.safetensors     the weights, in the files that stored_weights.py chooses; their checksums and that of
                             config.json are in the description of ``weights``
    folder/tokenizer.json    must give every text the same ids as this run's tokenizer; the embedding may have more
                             rows than there are tokens (predecessor.py)
    folder/tokenizer_config.json, …    an export has the same

Free of torch: the checks that need no weights run when the run is planned.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.data_prep.tokenization.encode import parse
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.stage import RawFile, raw_file
from headrace.train.config import ModelConfig
from headrace.train.distillation_config import TEACHER, Distillation
from headrace.train.families.family import OF_TRAINING
from headrace.train.families.hf_config import needed_weight_files, read_model_config
from headrace.train.parts import POSITIONS

SETTING = "training.initial_weights"
INITIAL_FILES, TEACHER_FILES = "initial_weights", "teacher"
"""The beginnings of the names of raw files."""
PREDECESSOR = "predecessor"
"""The folder in that of a training that keeps what its exports take over (predecessor.py)."""
TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("chat_template.jinja", "chat_template.json", "generation_config.json"),
    *("vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"),
)
"""The files of a Hugging Face folder that an export takes over, where they are there."""


def raw_files(folder: Path, model: ModelConfig) -> tuple[RawFile, ...]:
    """Returns config.json and the weights in ``folder``, after checking that its shape is that of ``model``.

    Raises:
        ConfigError: when a file is missing, or a field of the shape differs, naming it.
    """
    try:
        shape, _ = read_model_config(folder)
        weights = needed_weight_files(folder)
    except ArtifactError as error:
        raise ConfigError(SETTING, f"{error.where} {error.problem}", error.remedy) from None
    check_shape(SETTING, str(folder), shape, model)
    further = (folder / file for file in TOKENIZER_FILES if file != "tokenizer.json")
    files = (folder / "config.json", *weights, *(file for file in further if file.is_file()))
    return tuple(raw_file(f"{INITIAL_FILES}/{path.name}", path) for path in files)


def teacher_files(folder: Path, model: ModelConfig, settings: Distillation) -> tuple[RawFile, ...]:
    """Returns config.json and the weights of a teacher of ``model``, after checking that it reads the same rows and
    has what the ``settings`` compare.

    Raises:
        ConfigError: when a file is missing, it has another stack, or a shorter context; when the terms or the initial
            layers do not fit.
    """
    try:
        shape, _ = read_model_config(folder)
        weights = needed_weight_files(folder)
    except ArtifactError as error:
        raise ConfigError(TEACHER, f"{error.where} {error.problem}", error.remedy) from None
    if shape.stack != model.stack:
        problem = f"{folder} has stack {shape.stack}, and model.stack is {model.stack}"
        raise ConfigError(TEACHER, problem, "give a teacher of the student's stack")
    if shape.context < model.context and shape.most_positions is not None:
        problem = f"{folder} has context {shape.context}, and model.context is {model.context}"
        raise ConfigError(TEACHER, problem, f"set model.context={shape.context}")
    settings.check(model, shape)
    if settings.initial_layers:
        check_shape(TEACHER, str(folder), dataclasses.replace(shape, layers=model.layers), model)
    return tuple(raw_file(f"{TEACHER_FILES}/{path.name}", path) for path in (folder / "config.json", *weights))


def check_shape(setting: str, where: str, shape: ModelConfig, model: ModelConfig) -> None:
    """Compares the ``shape`` of the weights that ``setting`` gives, which are at ``where``, with that of ``model``.

    Fields that no weight depends on are free: dropout, and with a table of positions the base of rotations, without one
    the context. A pair head there is left out where ``model`` has none.

    Raises:
        ConfigError: naming all fields that differ.
    """
    free = [*OF_TRAINING, "rope_theta" if POSITIONS[model.positions].vectors_per_position else "context"]
    if shape.pair_head:
        free.append("pair_head")
    values = {
        field.name: (getattr(shape, field.name), getattr(model, field.name))
        for field in dataclasses.fields(ModelConfig)
        if field.name not in free
    }
    values["two_sided_bias"] = (bool(shape.two_sided_bias), bool(model.two_sided_bias))
    differing = {name: tuple(map(_yaml, both)) for name, both in values.items() if both[0] != both[1]}
    if differing:
        problem = "; ".join(f"{name} {theirs}, model.{name} is {ours}" for name, (theirs, ours) in differing.items())
        remedy = " ".join(f"model.{name}={theirs}" for name, (theirs, _) in differing.items())
        raise ConfigError(setting, f"{where} has {problem}", f"set {remedy}")


def _yaml(value: Any) -> str:
    """Returns ``value`` as an override has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {name: field for name, field in dataclasses.asdict(value).items() if field is not None}
        return "{" + ",".join(f"{name}:{_yaml(field)}" for name, field in fields.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value)


def check_tokenizer(folder: Path, tokenizer_file: Path, vocabulary: int, setting: str = SETTING) -> None:
    """Checks that the weights of ``setting`` were trained on the tokens of ``tokenizer_file``, which has ``vocabulary``
    of them.

    Raises:
        ConfigError: naming the first difference.
    """
    file = folder / "tokenizer.json"
    remedy = f"give the run its tokenizer: tokenizer=file tokenizer.path={file}"
    if not file.is_file():
        raise ConfigError(setting, f"{folder} has no tokenizer.json", "put the tokenizer of these weights there")
    theirs, ours = (parse(path.read_text(encoding="utf-8"), str(path)) for path in (file, tokenizer_file))
    their_ids, our_ids = (tokenizer.get_vocab(with_added_tokens=True) for tokenizer in (theirs, ours))
    for token in sorted(their_ids.keys() | our_ids.keys()):
        their_id, our_id = their_ids.get(token), our_ids.get(token)
        if their_id != our_id:
            problem = f"{file} has the id {their_id} for {token!r}, this run's tokenizer {our_id}"
            raise ConfigError(setting, problem, remedy)
    their_parts, our_parts = (_deciding_parts(json.loads(tokenizer.to_str())) for tokenizer in (theirs, ours))
    for part in ("normalizer", "pre_tokenizer", "model"):
        if their_parts.get(part) != our_parts.get(part):
            raise ConfigError(setting, f"{file} has another {part} than this run's tokenizer", remedy)
    their_added, our_added = (_added_tokens(parts["added_tokens"]) for parts in (their_parts, our_parts))
    for token in sorted(their_added.keys() | our_added.keys()):
        their_way, our_way = (added.get(token, "not at all") for added in (their_added, our_added))
        if their_way != our_way:
            problem = f"{file} adds the token {token!r} {their_way}, this run's tokenizer {our_way}"
            raise ConfigError(setting, problem, remedy)
    _, embedded = read_model_config(folder)
    if embedded < vocabulary:
        problem = f"{folder} has vocab_size {embedded} in config.json, its tokenizer {vocabulary} tokens"
        raise ConfigError(setting, problem, "extend its embedding to the tokenizer's size")


def _added_tokens(tokens: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Returns how a tokenizer.json adds each of its ``tokens``: with which of its properties."""
    ways = {token["content"]: sorted(name for name, value in token.items() if value is True) for token in tokens}
    return {token: f"as {', '.join(names)}" if names else "as it is" for token, names in ways.items()}


def _deciding_parts(value: Any) -> Any:
    """Returns the parts of a tokenizer's JSON that decide ids: without offsets of tokens and without empty values."""
    if isinstance(value, dict):
        kept = {key: _deciding_parts(item) for key, item in value.items() if key != "trim_offsets"}
        return {key: item for key, item in kept.items() if item not in (None, "", False)}
    return [_deciding_parts(item) for item in value] if isinstance(value, list) else value
