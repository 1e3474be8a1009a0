"""Small files of made-up tasks, a tokenizer of their words, and small models that learn them."""

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
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


def words_tokenizer(special: Sequence[str] = SPECIAL) -> Tokenizer:
    """A tokenizer of the words of the tasks; ``special`` ones have the first ids."""
    words = [*special, *sorted({*GOOD, *BAD, *FILLERS})]
    unknown = next(token for token in special if token in ("[UNK]", "<unk>"))
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def tokenizer_artifact(folder: Path, tokenizer: Tokenizer | None = None) -> Artifact:
    out = TaskOutput(folder, "tokenizer", 0)
    with out.file("tokenizer.json") as path:
        (tokenizer or words_tokenizer()).save(str(path))
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
    return decode(Finetuned, values_of(model, files, task, **finetune))


def values_of(
    model: ModelConfig, files: Mapping[str, Any], task: Mapping[str, Any] = SENTIMENT, **finetune: Any
) -> dict[str, Any]:
    """The settings of ``stage`` as plain values."""
    recipe = {
        "epochs": 5,
        "evaluate_every": 10,
        "batch_rows": 16,
        "context": 16,
        "dropout": 0.0,
        "from_scratch": "folder" not in finetune,
    }
    recipe |= {"optimizer": {"type": "adamw", "learning_rate": 1e-2, "weight_decay": 0.01}}
    return {
        "finetune": {"task": dict(task), **files, **recipe, **finetune},
        "model": dataclasses.asdict(model),
        "training": {"steps": 1, "batch_rows": 1, "micro_batch_rows": 8, "device": "cpu"},
        "tracking": {"wandb": "off"},
    }


def lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def of_kind(kind: str, folder: Path, rows: int = 32) -> tuple[dict[str, Any], dict[str, str]]:
    """The task of a kind, and its files: what is right follows from the words."""
    chosen = random.Random(1)
    if kind == "classification":
        return dict(SENTIMENT), sentiment(folder, rows, 16)
    if kind == "token_classification":
        return {"type": kind, "format": {"type": "conll"}}, tagged(folder, rows, 16)
    found: dict[str, list[dict[str, Any]]] = {"train": [], "validation": []}
    for number in range(rows + 16):
        words = [sentence(chosen, chosen.choice(GOOD + BAD)) + f" {FILLERS[number % 16]} {FILLERS[number // 16]}"] * 2
        row: dict[str, Any] = {"a": words[0], "b": sentence(chosen, GOOD[0])}
        if kind == "regression":
            row |= {"value": sum(word in GOOD for word in row["a"].split()) * 2.5}
        elif kind == "multiple_choice":
            row |= {"right": number % 2, "one": BAD[0], "two": BAD[1]} | {("one", "two")[number % 2]: GOOD[0]}
        else:
            context = chosen.choices(FILLERS, k=18)
            context[chosen.randrange(18)] = GOOD[0]
            row = {"context": " ".join(context), "question": f"a b {FILLERS[number % 16]}", "id": str(number)}
        found["train" if number < rows else "validation"].append(row)
    if kind == "span":
        return {"type": "span", "stride": 6}, {
            name: squad(folder / f"{name}.json", each) for name, each in found.items()
        }
    fields = {"type": "fields", "texts": ["a", "b"]}
    fields |= {"value": "value"} if kind == "regression" else {"choices": ["one", "two"], "gold": "right"}
    return {"type": kind, "format": fields}, {
        name: lines(folder / f"{name}.jsonl", each) for name, each in found.items()
    }


def tagged(folder: Path, rows: int = 96, held_out: int = 32) -> dict[str, str]:
    """Files of columns: a word of one kind begins an entity, and a filler after it belongs to it."""
    chosen, seen, files = random.Random(0), set[str](), {}
    for name, number in (("train", rows), ("validation", held_out)):
        sentences = list[str]()
        while len(sentences) < number:
            lines, kind = list[str](), ""
            for word in chosen.choices((*FILLERS[:4], *GOOD, *BAD), k=chosen.randrange(3, 10)):
                if word in FILLERS:
                    lines.append(f"{word} x {f'I-{kind}' if kind else 'O'}")
                    kind = ""
                else:
                    kind = "GOOD" if word in GOOD else "BAD"
                    lines.append(f"{word} x B-{kind}")
            if lines and (text := "\n".join(lines)) not in seen:
                sentences.append(text)
                seen.add(text)
        files[name] = str(folder / f"{name}.txt")
        Path(files[name]).write_text("-DOCSTART- -X- O\n\n" + "\n\n".join(sentences) + "\n")
    return files


def squad(path: Path, rows: list[dict[str, Any]]) -> str:
    """A file of SQuAD with one question a paragraph, whose answer is a word."""
    paragraphs = []
    for row in rows:
        answer = {"text": GOOD[0], "answer_start": row["context"].index(GOOD[0])}
        qas = [{"id": row["id"], "question": row["question"], "answers": [answer]}]
        paragraphs.append({"context": row["context"], "qas": qas})
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return str(path)
