"""Folders whose weights are not those of their config.json: each door refuses them and names a weight.

Two kinds of folders: of a family that Transformer computes (GPT-2, BERT), and of one that only transformers does (Phi).
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    PhiConfig,
    PhiForCausalLM,
    PreTrainedTokenizerFast,
)

from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.settings import decode
from headrace.train.distillation_config import Distillation
from headrace.train.evaluation.settings import Evaluation
from headrace.train.families.hf_config import read_model_config
from headrace.train.families.hf_folder import read_weights
from headrace.train.families.initial_weights import raw_files, teacher_files
from headrace.train.inference.language_model import Chat, LanguageModel, generate
from headrace.train.inference.settings import Inference, Sampling
from headrace.train.inference.transformers_model import open_folder
from headrace.train.model.transformer import build_empty
from headrace.train.scores import FolderScores

CPU, FEW = Inference(device="cpu"), Sampling(max_tokens=2)
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
WORDS = {name: number for number, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijk"])}
ROLES = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}

Weights = dict[str, torch.Tensor]


def phi() -> PhiForCausalLM:
    return PhiForCausalLM(PhiConfig(vocab_size=16, max_position_embeddings=16, **SIZES))


def gpt2() -> GPT2LMHeadModel:
    return GPT2LMHeadModel(GPT2Config(vocab_size=16, n_embd=16, n_layer=2, n_head=2, n_positions=16))


def bert() -> BertForMaskedLM:
    return BertForMaskedLM(BertConfig(vocab_size=16, max_position_embeddings=16, **SIZES))


KINDS = {"phi": (phi, "model"), "gpt2": (gpt2, "transformer"), "bert": (bert, "bert")}
"""Name → the model, and the prefix of its weights below the output layer."""


def one(weights: Weights) -> str:
    """A matrix of the last layer."""
    return next(name for name in sorted(weights) if ".1." in name and weights[name].ndim == 2)


FAULTS: dict[str, Callable[[Weights, str], Weights]] = {
    "a further prefix": lambda weights, base: {f"module.{name}": value for name, value in weights.items()},
    "another prefix": lambda weights, base: {name.replace(f"{base}.", "net."): weights[name] for name in weights},
    "one is missing": lambda weights, base: {name: weights[name] for name in weights if name != one(weights)},
    "another shape": lambda weights, base: weights | {one(weights): weights[one(weights)][:-1].clone()},
    "turned": lambda weights, base: (
        weights | {name: weights[name].T.contiguous() for name in weights if _is_long(weights[name])}
    ),
}
SOUND: dict[str, Callable[[Weights, str], Weights]] = {
    "no prefix": lambda weights, base: {name.removeprefix(f"{base}."): value for name, value in weights.items()},
    "a further weight": lambda weights, base: weights | {"value_head.weight": torch.zeros(3)},
}


def _is_long(value: torch.Tensor) -> bool:
    return value.ndim == 2 and value.shape[0] != value.shape[1]


def score(folder: Path) -> None:
    open_folder(folder, decode(Evaluation, {"benchmarks": {"a": {"type": "agreement"}}, "device": "cpu"}))


def first_weights(folder: Path) -> None:
    shape, vocabulary = read_model_config(folder)
    raw_files(folder, shape)
    [*read_weights(build_empty(shape, vocabulary), folder)]


def teach(folder: Path) -> None:
    shape, vocabulary = read_model_config(folder)
    teacher_files(folder, shape, Distillation(teacher=str(folder)))
    [*read_weights(build_empty(shape, vocabulary), folder)]


WRITING: dict[str, Callable[[Path], object]] = {
    "evaluate": score,
    "generate": lambda folder: generate(folder, CPU, ["a"], FEW, lambda number, text: None),
    "chat": lambda folder: Chat.open(folder, CPU, FEW, ""),
    "notebook": lambda folder: LanguageModel.open(folder, CPU),
}
LEARNING: dict[str, Callable[[Path], object]] = {"initial weights": first_weights, "teacher": teach}
DOORS: dict[str, dict[str, Callable[[Path], object]]] = {
    "phi": WRITING,
    "gpt2": WRITING | LEARNING,
    "bert": {"evaluate": score} | LEARNING,
}
READERS = ("evaluate", "initial weights")
"""The doors that read weights in a way of their own; the others open a folder as ``evaluate`` does."""
CASES = [
    (kind, door, fault)
    for kind, doors in DOORS.items()
    for door in doors
    for fault in FAULTS
    if door in READERS or fault == "one is missing"
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    built = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    for name, (make, _) in KINDS.items():
        torch.manual_seed(1)
        make().save_pretrained(root / name)
        PreTrainedTokenizerFast(tokenizer_object=built, eos_token="[SEP]", **ROLES).save_pretrained(root / name)
    return root


def changed(folders: Path, kind: str, change: Callable[[Weights, str], Weights], place: Path) -> tuple[Path, Weights]:
    folder = shutil.copytree(folders / kind, place / kind)
    weights = change(load_file(folder / "model.safetensors"), KINDS[kind][1])
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder, weights


@pytest.mark.parametrize(("kind", "door", "fault"), CASES, ids=map(" ".join, CASES))
def test_each_door_refuses_faulty_weights(kind, door, fault, folders, tmp_path):
    folder, _ = changed(folders, kind, FAULTS[fault], tmp_path)
    with pytest.raises(HeadraceError) as error:
        DOORS[kind][door](folder)
    assert str(error.value).startswith(f"{folder}: ")
    assert any(part in str(error.value) for part in ("weights, '", "has no weight '", "by its config.json it is "))


@pytest.mark.parametrize("fault", SOUND)
@pytest.mark.parametrize("kind", KINDS)
def test_what_transformers_finds_is_found(kind, fault, folders, tmp_path, capsys):
    folder, _ = changed(folders, kind, SOUND[fault], tmp_path)
    for door in DOORS[kind].values():
        door(folder)
    line = f"{folder}: of its weights, it holds 1 that its model does not have, 'value_head.weight' among them"
    assert (line in capsys.readouterr().err) == (kind == "phi" and fault == "a further weight")


@pytest.mark.parametrize("door", LEARNING)
def test_weights_of_a_family_that_only_transformers_computes_begin_no_training(door, folders):
    with pytest.raises(HeadraceError, match="phi"):
        LEARNING[door](folders / "phi")


def test_evaluate_is_the_stage_that_opens_the_folder(folders, tmp_path, run_stage):
    folder, _ = changed(folders, "phi", FAULTS["one is missing"], tmp_path)
    evaluation = decode(Evaluation, {"benchmarks": {"a": {"type": "agreement"}}, "device": "cpu"})
    with pytest.raises(HeadraceError, match=r"lacks 1 weights, 'model.layers.1.mlp.fc1.weight' among them"):
        run_stage(FolderScores(evaluation=evaluation, folder=str(folder)), {}, tmp_path / "scores")
