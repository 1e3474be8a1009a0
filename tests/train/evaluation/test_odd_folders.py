"""Hugging Face folders that cannot be scored: one error with the reason, for any exception of transformers."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, PhiConfig, PhiForCausalLM

from headrace.pipeline.core.errors import ArtifactError, ConfigError, TaskError
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import TokenQuery
from headrace.train.inference.transformers_model import open_folder
from headrace.train.scores import FolderScores
from tests.command_line import headrace_here
from tests.train.conftest import END, bytes_tokenizer

CPU = Evaluation(device="cpu")
SIZES = {
    "gpt2": ("n_embd", "n_head", "n_layer"),
    "phi": ("hidden_size", "num_attention_heads", "num_hidden_layers"),
}


def make(folder: Path, kind: str) -> Path:
    """A tiny model with a tokenizer of bytes."""
    torch.manual_seed(0)
    if kind == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(vocab_size=257, n_positions=32, n_embd=16, n_layer=1, n_head=2))
    else:
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        model = PhiForCausalLM(PhiConfig(vocab_size=257, max_position_embeddings=32, **sizes))
    model.save_pretrained(folder)
    bytes_tokenizer().save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "bos_token": END}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module", params=["gpt2", "phi"])
def model(request, tmp_path_factory) -> Path:
    """One that our Transformer computes, and one that transformers does."""
    return make(tmp_path_factory.mktemp("models") / request.param, request.param)


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoiled."""
    return Path(shutil.copytree(model, tmp_path / model.name))


def spoil(folder: Path, **values: object) -> None:
    """Puts ``values`` into config.json; ``width``, ``heads`` and ``layers`` under the names of this kind of model."""
    names = dict(zip(("width", "heads", "layers"), SIZES[folder.name], strict=True))
    config = read_json(folder / "config.json")
    write_json(folder / "config.json", config | {names.get(key, key): value for key, value in values.items()})


def refusal(folder: Path) -> str:
    """Returns the command's message after the folder; it comes before any rank starts if config.json is enough."""

    def look() -> None:
        FolderScores(evaluation=CPU, folder=str(folder)).raw_files()
        open_folder(folder, CPU)

    with pytest.raises((ArtifactError, ConfigError)) as caught:
        look()
    said = str(caught.value)
    assert len(said.splitlines()) == 1
    assert str(folder) in said
    return said.partition(str(folder))[2]


WRONG_SIZE = "={!r} in config.json; give a whole number of at least 1 there"
CODE = {"AutoConfig": "configuration_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.Own"}
SPOILED: dict[str, tuple[dict[str, object], str]] = {
    "quantized": (
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
        " holds quantized weights (quantization_config in config.json: gptq); give the folder of the weights in fp32, "
        "fp16 or bf16",
    ),
    "quantized, a list": ({"quantization_config": [1]}, " (quantization_config in config.json: [1]);"),
    "no heads": ({"heads": None}, ""),
    "a list of heads": ({"heads": [4, 4]}, ""),
    "heads that do not divide the width": ({"heads": 3}, ""),
    **{
        f"{name} {size}": ({name: size}, WRONG_SIZE.format(size))
        for name, size in (("heads", 0), ("heads", "two"), ("width", -4), ("width", 2.5), ("layers", 0))
    },
    "a width beyond memory": ({"width": 2**26}, "GB by its config.json, this machine has"),
    "a vocabulary beyond memory": ({"vocab_size": 2**40}, "GB by its config.json, this machine has"),
    "more layers than weights": ({"layers": 10**6}, " has 1,000,000 layers by its config.json and "),
    "code of its own": ({"model_type": "own", "architectures": ["Own"], "auto_map": CODE}, "custom code"),
}


@pytest.mark.parametrize("fault", SPOILED)
def test_a_config_of_no_model_that_is_computed_here(folder: Path, fault: str) -> None:
    changes, message = SPOILED[fault]
    spoil(folder, **changes)
    assert message in refusal(folder)


def test_weights_that_are_cut_off(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert refusal(folder)


def test_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert refusal(folder)


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, "\ud800"])
def test_a_config_that_is_none(folder: Path, content: str) -> None:
    (folder / "config.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    assert "config.json" in refusal(folder)


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, '{"model": {"type": "BPE"}}'])
def test_a_tokenizer_that_is_none(folder: Path, content: str) -> None:
    (folder / "tokenizer.json").write_text(content)
    assert refusal(folder)


def test_a_kernel_that_is_not_installed(folder: Path) -> None:
    spoil(folder, attn_implementation="flash_attention_2")
    if folder.name == "gpt2":
        assert open_folder(folder, CPU), "our Transformer computes it without kernels"
    else:
        assert "(ImportError: " in refusal(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite(folder: Path, value: float) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = next(name for name in tensors if name.endswith("bias"))
    tensors[name][0] = value
    save_file(tensors, path, {"format": "pt"})
    assert "holds weights that are NaN or infinite (" in refusal(folder)


def test_arithmetic_that_overflows(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    save_file({name: torch.full_like(value, 1e38) for name, value in tensors.items()}, path, {"format": "pt"})
    subject, tokens = open_folder(folder, CPU), torch.arange(4).numpy()
    with pytest.raises(TaskError) as caught:
        subject.likelihood.answers([TokenQuery(tokens, tokens)])
    assert str(caught.value).startswith(f"{folder}: gives a log-likelihood of nan; try evaluation.precision=fp32")


def test_the_command_ends_with_status_2_before_a_rank_starts(folder: Path, tmp_path: Path) -> None:
    spoil(folder, heads=0)
    result = headrace_here("evaluate", str(folder), f"root={tmp_path}/root")
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(f"headrace: evaluate: {folder} has ")
    assert not (tmp_path / "root").exists()


@pytest.mark.slow
def test_weights_that_are_not_finite_leave_nothing_that_spoils_the_next_command(tmp_path: Path) -> None:
    folder = make(tmp_path / "gpt2", "gpt2")
    path = folder / "model.safetensors"
    whole, tensors = path.read_bytes(), load_file(path)
    save_file({name: torch.full_like(value, float("nan")) for name, value in tensors.items()}, path, {"format": "pt"})
    command = ["evaluate", str(folder), "--limit", "4", f"root={tmp_path}/root", "evaluation.device=cpu"]
    result = headrace_here(*command)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(f"headrace: evaluate: {folder} holds weights that are NaN")
    path.write_bytes(whole)
    assert headrace_here(*command).returncode == 0
