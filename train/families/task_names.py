"""The names and fields that a model with a head for a task has at Hugging Face. Free of torch."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from headrace.data_prep.tokenization.special_tokens import document_end
from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, WeightNames
from headrace.train.families.registry import OWN, family_of
from headrace.train.families.task_heads import TaskHead, TaskKind


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


def task_names(family: Family, config: ModelConfig, kind: TaskKind) -> WeightNames:
    """Returns the names of the weights of a model of ``family`` with this kind of head."""
    names, head = family.names(config), family.task_head(kind)
    own = {"head.output": head.output_name, "head.dense": head.dense_name, "head.norm": head.norm_name}
    return dataclasses.replace(names, outer={**names.outer, **{part: name for part, name in own.items() if name}})
