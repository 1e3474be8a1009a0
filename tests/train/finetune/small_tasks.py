"""Small files of made-up tasks, a tokenizer of their words, and small models that learn them."""

import dataclasses
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.finetuned import Finetuned

GOOD, BAD = ("good", "fine", "great"), ("bad", "poor", "dull")
FILLERS = tuple("abcdefghijklmnop")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SIZES: dict[str, Any] = {"layers": 2, "width": 32, "heads": 2, "kv_heads": 2, "context": 32, "mlp_width": 64}
ENCODER = ModelConfig(
    **SIZES, stack="encoder", segments=2, norm_place="post", embedding_norm=True, output_transform=True,
    activation="gelu_exact", norm_epsilon=1e-12,
)  # fmt: skip
"""A BERT."""


def words_tokenizer() -> Tokenizer:
    words = [*SPECIAL, *sorted({*GOOD, *BAD, *FILLERS})]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def tokenizer_artifact(folder: Path) -> Artifact:
    out = TaskOutput(folder, "tokenizer", 0)
    with out.file("tokenizer.json") as path:
        words_tokenizer().save(str(path))
    out.done({})
    return finish(folder, {"stage": "tokenizer"}, {"tokenizer": 1})


def sentence(chosen: random.Random, word: str, words: int = 6) -> str:
    """Some fillers with ``word`` among them."""
    found = chosen.choices(FILLERS, k=chosen.randrange(2, words))
    found.insert(chosen.randrange(len(found)), word)
    return " ".join(found)


def sentiment(folder: Path, rows: int = 96, held_out: int = 32) -> dict[str, str]:
    """Files in the format of SST-2: the label follows from one word."""
    chosen, seen = random.Random(0), set[str]()
    for name, number in (("train", rows), ("validation", held_out)):
        lines = ["sentence\tlabel"]
        while len(lines) <= number:
            label = len(lines) % 2
            text = sentence(chosen, chosen.choice((BAD, GOOD)[label]))
            if text not in seen:
                lines.append(f"{text}\t{label}")
                seen.add(text)
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return {name: str(folder / f"{name}.tsv") for name in ("train", "validation")}


SENTIMENT = {"type": "classification", "format": {"type": "glue", "task": "sst2"}}


def stage(
    model: ModelConfig, files: Mapping[str, Any], task: Mapping[str, Any] = SENTIMENT, **finetune: Any
) -> Finetuned:
    """A short fine-tuning of ``model`` from random weights on a CPU."""
    recipe = {"epochs": 8, "batch_rows": 16, "context": 16, "dropout": 0.0, "from_scratch": "folder" not in finetune}
    recipe |= {"optimizer": {"type": "adamw", "learning_rate": 3e-3, "weight_decay": 0.01}}
    values = {
        "finetune": {"task": dict(task), **files, **recipe, **finetune},
        "model": dataclasses.asdict(model),
        "training": {"steps": 1, "batch_rows": 1, "micro_batch_rows": 8, "device": "cpu"},
        "tracking": {"wandb": "off"},
    }
    return decode(Finetuned, values)
