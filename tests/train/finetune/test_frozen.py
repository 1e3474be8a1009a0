"""Frozen weights are the same bytes after a fine-tuning, and all others move; the optimizer has no state of them."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import read_json
from headrace.train.distributed import processes
from headrace.train.engine.engine import Engine
from headrace.train.finetune.session import Material, SeedTraining
from headrace.train.finetune.tuning import Tuning, check_tuning
from headrace.train.training_config import ZeroConfig
from tests.train.finetune.small_tasks import (
    ENCODER,
    of_kind,
    sentiment,
    stage,
    tokenizer_artifact,
    values_of,
)
from tests.train.finetune.test_parity import SHAPES
from tests.train.training import specify, train

LAYER = "bert.encoder.layer."
FROZEN: dict[Any, tuple[str, ...]] = {
    "embeddings": ("bert.embeddings",),
    1: ("bert.embeddings", f"{LAYER}0."),
    2: ("bert.embeddings", LAYER),
    "all": ("bert.embeddings", LAYER),
}
"""The value of finetune.freeze → the beginnings of the names of weights that stay."""


def first_weights(tuning: Tuning, tokenizer: Any, folder: Path) -> dict[str, torch.Tensor]:
    material = Material.read(tuning, tokenizer.path("tokenizer.json"), None)
    material.network.export(material.network.first_weights(1), tokenizer.path("tokenizer.json"), folder)
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("freeze", FROZEN)
def test_frozen_weights_stay_and_the_others_move(freeze: Any, run_stage, tmp_path: Path) -> None:
    tokenizer = tokenizer_artifact(tmp_path / "tokenizer")
    tuned = stage(ENCODER, sentiment(tmp_path, 32, 16), freeze=freeze, epochs=2)
    before = first_weights(tuned, tokenizer, tmp_path / "first")
    artifact = run_stage(tuned, {"tokenizer": tokenizer}, tmp_path / "tuned")
    after = load_file(artifact.path("hf/model.safetensors"))
    assert before.keys() == after.keys()
    same = {name for name, value in before.items() if value.numpy().tobytes() == after[name].numpy().tobytes()}
    assert same == {name for name in before if name.startswith(FROZEN[freeze])}
    parameters = read_json(artifact.path("scores.json"))["parameters"]
    assert parameters == {
        "all": sum(value.numel() for value in before.values()),
        "trained": sum(value.numel() for name, value in before.items() if name not in same),
    }


def test_the_optimizer_has_no_state_of_frozen_weights(tmp_path: Path) -> None:
    tokenizer = tokenizer_artifact(tmp_path / "tokenizer")
    tuned = stage(ENCODER, sentiment(tmp_path, 32, 16), freeze="all", epochs=1)
    material = Material.read(tuned, tokenizer.path("tokenizer.json"), None)
    session = SeedTraining.open(material, 1, tmp_path, processes.start("cpu"))
    fragments = {fragment.parameter: set(fragment.values) for fragment in session.job.engine.fragments()}
    moments = {"master", "exp_avg", "exp_avg_sq"}
    trained = [f"head.{layer}.{leaf}" for layer in ("dense", "output") for leaf in ("weight", "bias")]
    assert fragments == dict.fromkeys(trained, moments)
    held = {name: value.clone() for name, value in session.job.engine._engine.module.named_buffers()}
    expected = {name: value for name, value in material.network.first_weights(1) if name.startswith("backbone.")}
    assert held.keys() >= expected.keys()
    for name, value in expected.items():
        assert torch.equal(held[name], value), name


class Killed(BaseException):
    """Stands in for SIGKILL: nothing of ours catches it."""


@pytest.mark.slow
def test_a_killed_one_goes_on_with_its_frozen_weights(run_stage, tmp_path: Path, monkeypatch: Any) -> None:
    tokenizer, files = tokenizer_artifact(tmp_path / "tokenizer"), sentiment(tmp_path, 32, 16)
    tuned = stage(ENCODER, files, freeze=1, epochs=4, evaluate_every=2)
    whole = run_stage(tuned, {"tokenizer": tokenizer}, tmp_path / "whole")
    step, calls = Engine.step, 0

    def killed(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise Killed
        return step(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "step", killed)
        with pytest.raises(Killed):
            run_stage(tuned, {"tokenizer": tokenizer}, tmp_path / "killed")
    again = run_stage(tuned, {"tokenizer": tokenizer}, tmp_path / "killed")
    for name in ("hf/model.safetensors", "scores.json", "seed_1/predictions.jsonl"):
        assert again.path(name).read_bytes() == whole.path(name).read_bytes()


@pytest.mark.parametrize("family", ["bart", "albert", "modernbert"])
def test_layers_of_two_stacks_and_shared_ones(family: str, tmp_path: Path) -> None:
    """The encoder is below the decoder; shared layers count once."""
    tokenizer = tokenizer_artifact(tmp_path / "tokenizer")
    tuned = stage(SHAPES[family], sentiment(tmp_path, 32, 16))
    network = Material.read(tuned, tokenizer.path("tokenizer.json"), None).network
    names = {name for name, _ in network.empty().named_parameters()}
    lowest = network.frozen(1) - network.frozen("embeddings")
    stack = "backbone.encoder.blocks.0." if family == "bart" else "backbone.blocks.0."
    assert {name for name in lowest if ".blocks." in name} == {name for name in names if name.startswith(stack)}
    assert not any(".blocks." in name for name in network.frozen("embeddings"))
    assert names - network.frozen("all") == {name for name in names if name.startswith("head.")}


def test_what_leaves_nothing_to_learn_is_refused(tmp_path: Path) -> None:
    files = sentiment(tmp_path, 32, 16)
    with pytest.raises(ConfigError, match=r"finetune.freeze: is 3, and the model has 2 layers; give at most 2, or all"):
        check_tuning(stage(ENCODER, files, freeze=3), 1)
    divided = dataclasses.replace(stage(ENCODER, files, freeze=1), zero=ZeroConfig(stage=3))
    with pytest.raises(ConfigError, match=r"zero.stage=3 divides only weights that are trained"):
        check_tuning(divided, 2)
    tokenizer = tokenizer_artifact(tmp_path / "tokenizer")
    task = {"type": "text_to_text", "format": {"type": "templates", "prompt": "{sentence}", "answer": "{label}"}}
    tuned = stage(SHAPES["gpt2"], files, task, freeze="all")
    with pytest.raises(ConfigError, match="nothing is left to learn"):
        Material.read(tuned, tokenizer.path("tokenizer.json"), None).network.frozen("all")


@pytest.mark.slow
def test_every_zero_stage_leaves_them_and_learns_the_same(tmp_path: Path) -> None:
    inputs = {"tokenizer": tokenizer_artifact(tmp_path / "tokenizer")}
    files, learned = sentiment(tmp_path, 32, 16), []
    for ranks, zero in ((1, 0), (2, 1), (2, 2)):
        folder = tmp_path / f"{ranks}-{zero}"
        folder.mkdir()
        settings = values_of(ENCODER, files, freeze=1, epochs=2) | {"zero": {"stage": zero}}
        ends, said = train(specify(folder, inputs, settings, [[str(folder / "run"), None]], ranks, "finetuned"))
        assert ends == [0], said
        learned.append(load_file(folder / "run/hf/model.safetensors"))
    for other in learned[1:]:
        for name, value in other.items():
            torch.testing.assert_close(value, learned[0][name], rtol=0, atol=1e-5, msg=name)
            if name.startswith(FROZEN[1]):
                assert torch.equal(value, learned[0][name]), name


def test_in_bf16_they_keep_their_fp32_bytes(run_stage, tmp_path: Path) -> None:
    tokenizer = tokenizer_artifact(tmp_path / "tokenizer")
    task, files = of_kind("span", tmp_path)
    tuned = stage(ENCODER, files, task, freeze="all", epochs=1, precision="bf16")
    before = first_weights(tuned, tokenizer, tmp_path / "first")
    artifact = run_stage(tuned, {"tokenizer": tokenizer}, tmp_path / "tuned")
    after = load_file(artifact.path("hf/model.safetensors"))
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"qa_outputs.weight", "qa_outputs.bias"}
    assert all(value.dtype == torch.float32 for value in after.values())
    assert json.loads(artifact.path("seed_1/predictions.jsonl").read_text().splitlines()[0])["prediction"]
