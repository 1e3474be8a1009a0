"""A setting that is in no address changes no result: each one, for each kind of training, with dropout."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from headrace.pipeline.core.settings import decode
from headrace.train.finetuned import Finetuned
from headrace.train.training_config import TrainingConfig
from headrace.train.weights import Weights
from tests.train.finetune.small_tasks import ENCODER, sentiment, tokenizer_artifact, values_of
from tests.train.test_weights import settings
from tests.train.training import specify, train

EXACT: dict[str, Any] = {
    "evaluate_every": 2, "evaluate": ["agreement"], "evaluate_items": 3, "save_every": 1, "log_every": 3,
    "keep_last": 1, "keep_every": 2, "hang_seconds": 100.0, "save_hang_seconds": 50.0, "recompute": "full",
}  # fmt: skip
"""Another value of each setting that leaves every bit as it is."""
CLOSE: dict[str, Any] = {"micro_batch_rows": 3, "pad_vocabulary": "on", "compile": "on", "sequence_ranks": 2}
"""Another value of each setting that adds the same numbers in another order: 1e-5 in any weight after six updates."""
OTHERS = {"device", "attention_kernel", "initial_weights"}
"""Of a GPU, and one whose content is in the address."""
MODEL: dict[str, Any] = {"dropout": 0.2}
OPTIMIZER = {"type": "adamw", "learning_rate": 1e-2, "epsilon": 1e-2}
"""With its usual epsilon Adam makes an update of full size of a gradient that is 0 but for rounding."""
Trained = Callable[..., dict[str, torch.Tensor]]


def test_every_setting_that_is_not_hashed_is_tried():
    unhashed = {field.name for field in dataclasses.fields(TrainingConfig) if not field.metadata.get("hashed", True)}
    assert unhashed == {*EXACT, *CLOSE} | OTHERS


@pytest.fixture(scope="module")
def pretrained(inputs, run_stage, tmp_path_factory) -> Trained:
    """Trains with some settings of ``training``, and returns the exported weights."""

    def trained(folder: Path | None = None, distillation: Any = None, **training: Any) -> dict[str, torch.Tensor]:
        values = settings(**{"steps": 6, "validate_every": 6} | training)
        values |= {"model": values["model"] | MODEL, "distillation": distillation or {}, "optimizer": OPTIMIZER}
        folder = tmp_path_factory.mktemp("run")
        if training.get("sequence_ranks") == 2:
            ends, said = train(specify(folder, inputs, values, [[str(folder / "weights"), None]], ranks=2))
            assert ends == [0], said
        else:
            run_stage(decode(Weights, values), inputs, folder / "weights")
        return load_file(folder / "weights/hf/model.safetensors")

    return trained


@pytest.fixture(scope="module")
def distilled(pretrained, inputs, run_stage, tmp_path_factory) -> Trained:
    """The same on the distributions of a teacher, which drops nothing."""
    folder = tmp_path_factory.mktemp("teacher")
    teacher = run_stage(decode(Weights, settings(steps=20)), inputs, folder).folder / "hf"
    return lambda **training: pretrained(distillation={"teacher": str(teacher), "hard_weight": 0.5}, **training)


@pytest.fixture(scope="module")
def finetuned(run_stage, tmp_path_factory) -> Trained:
    """The same of a fine-tuning; its own settings say when it is evaluated."""
    folder = tmp_path_factory.mktemp("task")
    files, inputs = sentiment(folder, 32, 16), {"tokenizer": tokenizer_artifact(folder / "tokenizer")}

    def trained(**training: Any) -> dict[str, torch.Tensor]:
        values = values_of(ENCODER, files, dropout=0.2, steps=6, seeds=[1], optimizer=OPTIMIZER)
        values["training"] |= training
        artifact = run_stage(decode(Finetuned, values), inputs, tmp_path_factory.mktemp("run") / "finetuned")
        return load_file(artifact.path("hf/model.safetensors"))

    return trained


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pretrained", "distilled", "finetuned"])
def test_a_setting_that_is_not_hashed_changes_no_result(kind, request):
    trained = request.getfixturevalue(kind)
    expected = trained()
    others = {
        name: value for name, value in (EXACT | CLOSE).items() if kind == "pretrained" or name != "sequence_ranks"
    }
    for name, value in others.items():
        found = trained(**{name: value})
        apart = max(float((found[weight] - expected_value).abs().max()) for weight, expected_value in expected.items())
        assert apart <= (0 if name in EXACT else 1e-5), f"{name}={value}: {apart}"
    torch.testing.assert_close(trained(), expected, rtol=0, atol=0)
