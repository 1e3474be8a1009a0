"""Continued pretraining: from folders that we and ``transformers`` wrote, and what is refused."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.families import initial_weights
from headrace.train.families.hf_folder import export, load_into
from headrace.train.model.transformer import Transformer
from headrace.train.weights import Weights
from tests.train.conftest import bytes_tokenizer
from tests.train.test_weights import MODEL, settings

SHAPES = {
    "gpt1": dataclasses.replace(MODEL, norm_place="post", mlp_width=128),
    "gpt2": MODEL,
    "llama": dataclasses.replace(
        MODEL, kv_heads=2, positions="rope", norm="rmsnorm", activation="swiglu", bias=False, tied=False
    ),
}
VOCABULARY = 257


def folder_of(config: ModelConfig, folder: Path) -> Path:
    """Random weights of ``config``, written by us."""
    bytes_tokenizer().save(str(folder / "given.json"))
    model = Transformer(config, VOCABULARY)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.1, generator=generator)
    export(model.named_parameters(), config, VOCABULARY, folder / "given.json", folder / "hf")
    return folder / "hf"


def stage(folder: Path, config: ModelConfig = MODEL, learning_rate: float = 1e-2, **training) -> Weights:
    values = settings(initial_weights=str(folder), **training)
    values |= {"model": dataclasses.asdict(config), "optimizer": {"type": "adamw", "learning_rate": learning_rate}}
    return decode(Weights, values)


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_without_a_learning_rate_the_stage_gives_the_first_weights_back(config, tmp_path, inputs, run_stage):
    first = folder_of(config, tmp_path)
    artifact = run_stage(stage(first, config, 0.0, steps=2), inputs, tmp_path / "weights")
    assert artifact.path("hf/model.safetensors").read_bytes() == (first / "model.safetensors").read_bytes()


def test_a_run_goes_on_from_a_model_of_transformers(tmp_path, inputs, run_stage):
    """Saved in bf16 and in several files, as large models are."""
    theirs = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=64, max_position_embeddings=64, rms_norm_eps=1e-5,
        )
    ).to(torch.bfloat16)  # fmt: skip
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="50KB")
    bytes_tokenizer().save(str(tmp_path / "theirs" / "tokenizer.json"))
    assert len(list((tmp_path / "theirs").glob("*.safetensors"))) > 1
    artifact = run_stage(stage(tmp_path / "theirs", SHAPES["llama"], 0.0, steps=1), inputs, tmp_path / "weights")
    ours = load_file(artifact.path("hf/model.safetensors"))
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours[name], value.float()), name


def test_the_content_decides_the_address_not_the_place(tmp_path):
    first = folder_of(MODEL, tmp_path)
    inputs = {"tokenizer": "a", "tokens": "b", "packed": "c"}
    shutil.copytree(first, tmp_path / "moved")
    described = stage(first).description(inputs)
    assert [file["name"] for file in described["raw_files"]] == [
        "initial_weights/config.json",
        "initial_weights/model.safetensors",
        "initial_weights/tokenizer_config.json",
    ]
    assert stage(tmp_path / "moved").address(inputs) == stage(first).address(inputs)
    assert decode(Weights, settings()).address(inputs) != stage(first).address(inputs)
    content = bytearray((first / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (first / "model.safetensors").write_bytes(content)
    assert stage(tmp_path / "moved").address(inputs) != stage(first).address(inputs)


ROUNDED = 320
"""The rows of an embedding that is rounded up."""


def rounded_folder(folder: Path, **fields) -> Path:
    """A model of transformers with more rows than its tokenizer has tokens, and the files of a published folder."""
    theirs = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=ROUNDED, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=64, max_position_embeddings=64, rms_norm_eps=1e-5, eos_token_id=[7, 9], **fields,
        )
    )  # fmt: skip
    theirs.save_pretrained(folder)
    bytes_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|endoftext|>",  "chat_template": "{{ messages }}"}')
    (folder / "generation_config.json").write_text('{"eos_token_id": [7, 9],  "temperature": 0.6}')
    return folder


@pytest.mark.parametrize("tied", [False, True])
def test_rows_that_no_token_has_are_kept_and_never_trained(tied, tmp_path, inputs, run_stage):
    """So are the files of the tokenizer and of generation, also in a branch after the folder is gone."""
    folder = rounded_folder(tmp_path / "theirs", tie_word_embeddings=tied)
    before = load_file(folder / "model.safetensors")
    config = dataclasses.replace(SHAPES["llama"], tied=tied)
    first = run_stage(stage(folder, config, steps=2), inputs, tmp_path / "weights" / "first")
    files = {name: (folder / name).read_bytes() for name in ("tokenizer_config.json", "generation_config.json")}
    shutil.rmtree(folder)
    branch = settings(branch_from="first@2", steps=4) | {"model": dataclasses.asdict(config)}
    second = run_stage(decode(Weights, branch), inputs, tmp_path / "weights" / "second")
    for artifact in (first, second):
        after = load_file(artifact.path("hf/model.safetensors"))
        for name in ("model.embed_tokens.weight", *([] if tied else ["lm_head.weight"])):
            assert torch.equal(after[name][VOCABULARY:], before[name][VOCABULARY:])
            assert not torch.equal(after[name][:VOCABULARY], before[name][:VOCABULARY])
        for name, content in files.items():
            assert artifact.path(f"hf/{name}").read_bytes() == content
        hf_config = json.loads(artifact.path("hf/config.json").read_text())
        assert (hf_config["vocab_size"], hf_config["eos_token_id"]) == (ROUNDED, [7, 9])
        _, info = transformers.AutoModelForCausalLM.from_pretrained(artifact.folder / "hf", output_loading_info=True)
        assert not any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys"))


def test_the_first_loss_is_that_of_transformers_over_the_tokens(tmp_path, inputs, run_stage):
    folder = rounded_folder(tmp_path / "theirs")
    model = Transformer(SHAPES["llama"], VOCABULARY)
    load_into(model, folder)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens_BT = torch.randint(VOCABULARY, (2, 24), generator=torch.Generator().manual_seed(1))
    positions_BT = torch.arange(23).expand(2, -1)
    ours = model(tokens_BT[:, :-1], positions_BT, torch.zeros_like(positions_BT), tokens_BT[:, 1:]) / 46
    logits_BTV = theirs(tokens_BT[:, :-1]).logits[..., :VOCABULARY]
    expected = torch.nn.functional.cross_entropy(logits_BTV.flatten(0, 1), tokens_BT[:, 1:].flatten())
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "change", "message"),
    [
        ("gpt2", {"layers": 3, "tied": False},
         "has layers 2, model.layers is 3; tied true, model.tied is false; set model.layers=2 model.tied=true"),
        ("gpt2", {"norm_epsilon": 1e-6}, "has norm_epsilon 1e-05, model.norm_epsilon is 1e-06; "
         "set model.norm_epsilon=1e-05"),
        ("llama", {"kv_heads": 4}, "has kv_heads 2, model.kv_heads is 4; set model.kv_heads=2"),
        ("llama", {"rope_theta": 5e5}, "has rope_theta 10000.0, model.rope_theta is 500000.0; "
         "set model.rope_theta=10000.0"),
        ("gpt1", {"norm_place": "pre"}, "has norm_place post, model.norm_place is pre; set model.norm_place=post"),
    ],
)  # fmt: skip
def test_another_shape_is_refused_by_its_field(shape, change, message, tmp_path):
    folder = folder_of(SHAPES[shape], tmp_path)
    with pytest.raises(ConfigError) as error:
        stage(folder, dataclasses.replace(SHAPES[shape], **change)).raw_files()
    assert str(error.value) == f"training.initial_weights: {folder} {message}"


@pytest.mark.parametrize(
    ("shape", "change"),
    [("gpt2", {"dropout": 0.1}), ("gpt2", {"rope_theta": 5e5}), ("llama", {"context": 128})],
)
def test_what_no_weight_depends_on_may_differ(shape, change, tmp_path):
    folder = folder_of(SHAPES[shape], tmp_path)
    assert stage(folder, dataclasses.replace(SHAPES[shape], **change)).raw_files()


def test_an_incomplete_folder_is_refused(tmp_path):
    folder = folder_of(MODEL, tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError) as error:
        stage(folder).raw_files()
    where = f"training.initial_weights: {folder}"
    assert str(error.value) == f"{where} has no *.safetensors; save the model in that format"
    (folder / "config.json").unlink()
    with pytest.raises(ConfigError) as error:
        stage(folder).raw_files()
    assert str(error.value) == f"{where} has no config.json; give the folder of a Hugging Face model"


def swapped(tokenizer: dict) -> None:
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["A"], vocabulary["B"] = vocabulary["B"], vocabulary["A"]


def lower(tokenizer: dict) -> None:
    tokenizer["normalizer"] = {"type": "Lowercase"}


def spaced(tokenizer: dict) -> None:
    tokenizer["pre_tokenizer"]["add_prefix_space"] = True


def with_added(tokenizer: dict) -> None:
    first = tokenizer["added_tokens"][0]
    tokenizer["added_tokens"].append(first | {"id": tokenizer["model"]["vocab"]["A"], "content": "A", "special": False})


def stripped(tokenizer: dict) -> None:
    tokenizer["added_tokens"][0]["lstrip"] = True


TOKENIZERS: dict[str, tuple[Callable[[dict], None], str]] = {
    "ids": (swapped, "has the id {A} for 'A', this run's tokenizer {B}"),
    "normalizer": (lower, "has another normalizer than this run's tokenizer"),
    "added token": (with_added, "adds the token 'A' as it is, this run's tokenizer not at all"),
    "its form": (stripped, "adds the token '<|endoftext|>' as lstrip, special, this run's tokenizer as special"),
    "pre_tokenizer": (spaced, "has another pre_tokenizer than this run's tokenizer"),
}


@pytest.mark.parametrize(("change", "message"), TOKENIZERS.values(), ids=TOKENIZERS)
def test_another_tokenizer_is_refused(change, message, tmp_path, inputs, run_stage):
    folder = folder_of(MODEL, tmp_path)
    file = folder / "tokenizer.json"
    values = json.loads(file.read_text())
    ids = {token: values["model"]["vocab"][token] for token in "AB"}
    change(values)
    file.write_text(json.dumps(values))
    with pytest.raises(ConfigError) as error:
        run_stage(stage(folder), inputs, tmp_path / "weights")
    wrong = message.format(A=ids["B"], B=ids["A"])
    remedy = f"give the run its tokenizer: tokenizer=file tokenizer.path={file}"
    assert str(error.value) == f"training.initial_weights: {file} {wrong}; {remedy}"


def test_a_tokenizer_that_is_written_otherwise_is_the_same(tmp_path):
    """Empty affixes, trimmed offsets and truncation, as Hugging Face's files write them, change no id."""
    folder = folder_of(MODEL, tmp_path)
    values = json.loads((folder / "tokenizer.json").read_text())
    values["model"] |= {"continuing_subword_prefix": "", "end_of_word_suffix": ""}
    values["pre_tokenizer"]["trim_offsets"] = not values["pre_tokenizer"]["trim_offsets"]
    values["truncation"] = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    (folder / "tokenizer.json").write_text(json.dumps(values))
    initial_weights.check_tokenizer(folder, tmp_path / "given.json", VOCABULARY)


def test_a_folder_without_a_tokenizer_or_with_another_embedding_is_refused(tmp_path):
    folder = folder_of(MODEL, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 256}))
    with pytest.raises(ConfigError) as error:
        initial_weights.check_tokenizer(folder, tmp_path / "given.json", VOCABULARY)
    wrong = f"{folder} has vocab_size 256 in config.json, its tokenizer 257 tokens"
    assert str(error.value) == f"training.initial_weights: {wrong}; extend its embedding to the tokenizer's size"
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ConfigError) as error:
        initial_weights.check_tokenizer(folder, tmp_path / "given.json", VOCABULARY)
    wrong = f"{folder} has no tokenizer.json; put the tokenizer of these weights there"
    assert str(error.value) == f"training.initial_weights: {wrong}"


def test_positions_t5_of_a_causal_model_do_not_become_two_sided_unnoticed():
    causal = dataclasses.replace(SHAPES["gpt2"], positions="t5")
    with pytest.raises(ConfigError) as error:
        initial_weights.check_shape(
            "training.initial_weights", "gpt", causal, dataclasses.replace(causal, two_sided_bias=True)
        )
    wrong = "has two_sided_bias false, model.two_sided_bias is true; set model.two_sided_bias=false"
    assert str(error.value) == f"training.initial_weights: gpt {wrong}"
    initial_weights.check_shape(
        "training.initial_weights", "gpt", causal, dataclasses.replace(causal, two_sided_bias=False)
    )
