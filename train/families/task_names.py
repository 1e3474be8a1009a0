"""The family of an exported model, and the names and fields that a head for a task has there. Free of torch."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT, document_end, roles
from headrace.pipeline.core.json_files import write_json
from headrace.train.config import ModelConfig
from headrace.train.context import ContextForm
from headrace.train.families.family import Family, WeightNames
from headrace.train.families.registry import OWN, family_of
from headrace.train.families.task_heads import TaskHead, TaskKind

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


@dataclasses.dataclass(frozen=True)
class TaskFields:
    """The head of an exported model."""

    kind: TaskKind
    fields: Mapping[str, Any]
    """The fields of config.json that describe the outputs: names of classes, say."""

    def hf_config(self, head: TaskHead, tokenizer: Tokenizer) -> dict[str, Any]:
        """Returns the fields of config.json that are not those of a language model.

        Classes of decoders find the last token by the padding after it. A tokenizer without padding gets the id of a
        token that ends no sequence.
        """
        ids = tokenizer.get_vocab(with_added_tokens=True)
        has_padding = any(token in ids for token in ("[PAD]", "<pad>"))
        padding = {} if has_padding else {"pad_token_id": int(ids.get(document_end(ids) or "") == 0)}
        architecture = {} if head.architecture is None else {"architectures": [head.architecture]}
        return {**architecture, **padding, **self.fields, "task_kind": self.kind}


def task_family(config: ModelConfig, kind: TaskKind) -> Family:
    """Returns the family whose class computes a model with this kind of head; our own format where there is none."""
    family = family_of(config)
    return OWN if family.task_head(kind).architecture is None else family


def exported_family(
    config: ModelConfig,
    tokenizer: Tokenizer,
    context_form: ContextForm,
    kind: TaskKind | None,
    before: Family | None = None,
) -> Family:
    """Returns the family whose class computes a model with this kind of head (None: its own output layer) and pads as
    the ``tokenizer``; our own format where no class of ``transformers`` does. That of the folder ``before`` comes
    first, if it is one of several (Mistral without a window is LLaMA)."""
    family = family_of(config, context_form) if kind is None else task_family(config, kind)
    if kind is None and before is not None and family is not OWN and before.computes(config):
        family = before
    pads_so = family.padding_id in (None, token_ids(tokenizer, family).get("pad_token_id"))
    return family if pads_so else OWN


def task_names(family: Family, config: ModelConfig, kind: TaskKind) -> WeightNames:
    """Returns the names of the weights of a model of ``family`` with this kind of head."""
    names, head = family.names(config), family.task_head(kind)
    of_head = {"head.output": head.output_name, "head.dense": head.dense_name, "head.norm": head.norm_name}
    return dataclasses.replace(names, outer={**names.outer, **{part: name for part, name in of_head.items() if name}})
