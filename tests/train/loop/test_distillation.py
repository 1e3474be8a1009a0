"""Training on a teacher's distributions: the gradient of plain torch, and real trainings."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import decode
from headrace.train.data.batches import EncoderTokens
from headrace.train.loop.distillation import Teacher, of
from headrace.train.model import head
from headrace.train.training_config import Distillation
from headrace.train.weights import Weights
from tests.train import updates
from tests.train.objectives.test_further_terms import CASES
from tests.train.test_weights import same, settings, stage
from tests.train.training import specify, train

SETTINGS = Distillation(temperature=3.0, soft_weight=0.7, hard_weight=0.4)


def other(model: nn.Module) -> nn.Module:
    """Returns a model of the same shape with other weights."""
    teacher, generator = copy.deepcopy(model), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return teacher.requires_grad_(False).eval()


@pytest.mark.parametrize(("objective", "model", "batch"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("chunk", [3, 10_000])
def test_the_gradient_is_that_of_plain_torch(objective, model, batch, chunk, monkeypatch):
    """Hinton et al. 2015: of the tokens, and of the divergence from the teacher at a temperature."""
    monkeypatch.setattr(head, "chunk_positions", lambda *_: chunk)
    model, whole = model(), batch()
    teacher = other(model)
    source, prefix_BT = None, whole["prefix"].bool() if "prefix" in whole else None
    if "encoder_inputs" in whole:
        source = EncoderTokens(*(whole[f"encoder_{name}"] for name in ("inputs", "positions", "documents")))
    rows = [whole[name] for name in ("inputs", "positions", "documents")]
    logits, of_teacher = (
        network(*rows, source=source, prefix_BT=prefix_BT).flatten(0, 1) for network in (model, teacher)
    )
    targets = whole["targets"].flatten()
    counted = targets >= 0
    soft = functional.kl_div(
        (logits / SETTINGS.temperature).log_softmax(1)[counted],
        (of_teacher / SETTINGS.temperature).log_softmax(1)[counted],
        log_target=True,
        reduction="batchmean",
    )
    hard = functional.cross_entropy(logits, targets)
    loss = SETTINGS.hard_weight * hard + SETTINGS.soft_weight * SETTINGS.temperature**2 * soft
    wanted = torch.autograd.grad(loss, list(model.parameters()))

    body = copy.deepcopy(teacher)
    output_layer, body.head = body.head, nn.Identity()
    terms = of(objective, model, Teacher(body, output_layer), SETTINGS)
    counts, sums = updates.counts(terms, whole), terms.losses(model, whole)
    first = next(iter(objective.weights))
    torch.testing.assert_close(sums[first] / counts[first], hard, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(sums["distillation"] / counts["distillation"], soft, rtol=1e-4, atol=1e-6)
    scaled = sums[first] / counts[first]
    for gradient, expected in zip(torch.autograd.grad(scaled, list(model.parameters())), wanted, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=2e-6)
    plain = objective.losses(model, whole)
    assert plain[first].item() == pytest.approx(sums[first].item(), rel=1e-6), "a call without a teacher is as before"


@pytest.fixture(scope="module")
def teacher(tmp_path_factory, inputs, run_stage) -> Path:
    """The exported model of a training that has learned the text."""
    artifact = run_stage(
        stage(steps=100, validate_every=100, save_every=100), inputs, tmp_path_factory.mktemp("teacher")
    )
    return artifact.folder / "hf"


def student(teacher: Path, **training: Any) -> dict[str, Any]:
    """The settings of a training of one layer on ``teacher``."""
    values = settings(teacher=str(teacher), distillation={"hard_weight": 0.0}, **training)
    return values | {"model": values["model"] | {"layers": 1}}


def test_a_student_learns_from_its_teacher_alone(teacher, tmp_path, inputs, run_stage):
    artifact = run_stage(decode(Weights, student(teacher, steps=60)), inputs, tmp_path / "weights")
    rows = read_metrics(artifact.path("metrics.jsonl"))
    assert rows[-1]["loss:distillation"] < 0.5 * rows[0]["loss:distillation"]
    assert rows[-1]["validation_loss"] < 0.8 * rows[0]["loss"]
    assert all(row["loss"] == row["loss:nll"] for row in rows)
    names = [file.name for file in decode(Weights, student(teacher)).raw_files()]
    assert names == ["teacher/config.json", "teacher/model.safetensors"]


@pytest.mark.slow
@pytest.mark.parametrize("zero", [1, 3])
def test_two_ranks_are_killed_and_go_on_to_the_same_weights(zero, teacher, tmp_path, inputs, run_stage):
    spec = student(teacher) | {"zero": {"stage": zero}}
    kill = ["headrace.train.engine.engine:Engine", "step", 7]
    runs = [[str(tmp_path / name), own] for name, own in (("whole", None), ("killed", kill), ("killed", None))]
    ends, said = train(specify(tmp_path, inputs, spec, runs, ranks=2))
    assert ends == [0, -9, 0], said
    same(tmp_path / "killed", tmp_path / "whole")
    alone = run_stage(decode(Weights, student(teacher)), inputs, tmp_path / "alone")
    of_one, of_two = (
        [row["loss:distillation"] for row in read_metrics(folder / "metrics.jsonl")]
        for folder in (alone.folder, tmp_path / "whole")
    )
    assert of_two == pytest.approx(of_one, rel=1e-4)


def test_a_teacher_that_does_not_fit_is_refused(teacher, tmp_path, inputs, run_stage):
    encoder = student(teacher)
    encoder["model"] |= {"stack": "encoder"}
    with pytest.raises(ConfigError, match=r"^training.teacher: .* has stack decoder, and model.stack is encoder; give"):
        decode(Weights, encoder | {"objective": {"type": "masked"}}).raw_files()
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError, match=r"^training.teacher: "):
        decode(Weights, student(empty)).raw_files()
    with pytest.raises(ConfigError, match=r"^training.sequence_ranks: is 2, and training.teacher reads whole rows"):
        decode(Weights, student(teacher, sequence_ranks=2))
    changed = tmp_path / "changed"
    shutil.copytree(teacher, changed)
    tokenizer = json.loads((changed / "tokenizer.json").read_text())
    ids = tokenizer["model"]["vocab"]
    first, second = list(ids)[5:7]
    ids[first], ids[second] = ids[second], ids[first]
    (changed / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(ConfigError, match=r"^training.teacher: .*tokenizer.json has the id \d+ for "):
        run_stage(decode(Weights, student(changed)), inputs, tmp_path / "weights")
