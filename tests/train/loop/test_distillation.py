"""Training on a teacher's distributions: the gradient of plain torch, and real trainings."""

import copy
import dataclasses
import functools
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
from headrace.pipeline.core.settings import decode, with_paths
from headrace.train.data.batches import EncoderTokens
from headrace.train.distillation_config import Distillation
from headrace.train.families.hf_folder import load
from headrace.train.loop.distillation import Distilled, Teacher
from headrace.train.model import head
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.masked import Masked
from headrace.train.weights import Weights
from tests.train import updates
from tests.train.objectives import two_terms
from tests.train.objectives.test_further_terms import CASES
from tests.train.objectives.two_terms import ENCODER, built
from tests.train.test_weights import same, settings, stage
from tests.train.training import specify, train

SETTINGS = Distillation(temperature=3.0, soft_weight=0.7, hard_weight=0.4, cosine_weight=1.5)
STUDENTS = CASES | {
    "masked": (Masked(), functools.partial(built, ENCODER), functools.partial(two_terms.encoder_batch, Masked()))
}


def other(model: nn.Module) -> nn.Module:
    """Returns a model of the same shape with other weights."""
    teacher, generator = copy.deepcopy(model), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return teacher.requires_grad_(False).eval()


def read(model: nn.Module, whole: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits and the normalized last states at all positions."""
    source, prefix_BT, states = None, whole["prefix"].bool() if "prefix" in whole else None, []
    if "encoder_inputs" in whole:
        source = EncoderTokens(*(whole[f"encoder_{name}"] for name in ("inputs", "positions", "documents")))
    hook = model.norm.register_forward_hook(lambda _, inputs, output: states.append(output))
    rows = [whole[name] for name in ("inputs", "positions", "documents")]
    logits = model(*rows, source=source, prefix_BT=prefix_BT).flatten(0, 1)
    hook.remove()
    return logits, states[-1]


def labels(whole: dict[str, torch.Tensor]) -> torch.Tensor:
    """The target of each position, (B · T,)."""
    if "masked" not in whole:
        return whole["targets"].flatten()
    targets = torch.full(whole["inputs"].shape, -100)
    rows, slots = (whole["targets"] != -100).nonzero(as_tuple=True)
    targets[rows, whole["masked"][rows, slots]] = whole["targets"][rows, slots]
    return targets.flatten()


@pytest.mark.parametrize(("name", "chunk"), [*((name, 3) for name in STUDENTS), ("causal", 10_000)])
def test_the_gradient_is_that_of_plain_torch(name, chunk, monkeypatch):
    """Hinton et al. 2015: of the tokens, and of the divergence from the teacher at a temperature; and of the cosine."""
    monkeypatch.setattr(head, "chunk_positions", lambda *_: chunk)
    objective, make, batch = STUDENTS[name]
    model, whole = make(), batch()
    teacher = other(model)
    (logits, last), (of_teacher, their_last) = (read(network, whole) for network in (model, teacher))
    targets = labels(whole)
    counted = targets >= 0
    soft = functional.kl_div(
        (logits / SETTINGS.temperature).log_softmax(1)[counted],
        (of_teacher / SETTINGS.temperature).log_softmax(1)[counted],
        log_target=True,
        reduction="batchmean",
    )
    hard = functional.cross_entropy(logits, targets)
    loss = SETTINGS.hard_weight * hard + SETTINGS.soft_weight * SETTINGS.temperature**2 * soft
    last, their_last = (functional.normalize(each[whole["documents"] >= 0], dim=-1) for each in (last, their_last))
    cosine = (1 - (last * their_last).sum(-1)).mean()
    parameters = list(model.parameters())
    wanted = torch.autograd.grad(loss + SETTINGS.cosine_weight * cosine, parameters, allow_unused=True)

    body = copy.deepcopy(teacher)
    output_layer, body.head = body.head, nn.Identity()
    terms = Distilled(objective, Teacher(body, output_layer), model, SETTINGS)
    counts, sums = updates.counts(terms, whole), terms.losses(model, whole)
    first = next(iter(objective.weights))
    means = {first: hard, "distillation": soft, "cosine": cosine}
    for term, mean in means.items():
        torch.testing.assert_close(sums[term] / counts[term], mean, rtol=1e-4, atol=1e-6)
    total = sum(weight * sums[term] / counts[term] for term, weight in terms.trained_weights.items())
    found = torch.autograd.grad(total, parameters, allow_unused=True)
    for gradient, expected in zip(found, wanted, strict=True):
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


NARROW = {"layers": 1, "width": 16}
INPUTS = {"tokenizer": "a", "tokens": "b", "packed": "c"}


def student(teacher: Path, terms: Any = None, model: Any = None, **training: Any) -> dict[str, Any]:
    """The settings of a training of one layer on ``teacher``."""
    values = settings(**training)
    return values | {
        "model": values["model"] | (model or {"layers": 1}),
        "distillation": {"teacher": str(teacher), "hard_weight": 0.0} | (terms or {}),
    }


@pytest.mark.slow
def test_a_student_learns_from_its_teacher_alone(teacher, tmp_path, inputs, run_stage):
    artifact = run_stage(decode(Weights, student(teacher, steps=60)), inputs, tmp_path / "weights")
    rows = read_metrics(artifact.path("metrics.jsonl"))
    assert rows[-1]["loss:distillation"] < 0.5 * rows[0]["loss:distillation"]
    assert rows[-1]["validation_loss"] < 0.8 * rows[0]["loss"]
    assert all(row["loss"] == row["loss:nll"] for row in rows)
    names = [file.name for file in decode(Weights, student(teacher)).raw_files()]
    assert names == ["teacher/config.json", "teacher/model.safetensors"]


def test_a_student_begins_with_layers_of_its_teacher(teacher, tmp_path, inputs, run_stage):
    terms = {"cosine_weight": 1.0, "initial_layers": [2]}
    spec = student(teacher, terms, steps=2)
    spec["optimizer"]["learning_rate"] = 1e-9
    artifact = run_stage(decode(Weights, spec), inputs, tmp_path / "weights")
    begun, whole = load(artifact.folder / "hf").state_dict(), load(teacher).state_dict()
    for name, value in begun.items():
        torch.testing.assert_close(value, whole[name.replace("blocks.0.", "blocks.1.")], rtol=0, atol=1e-6)


def test_the_address_has_the_content_of_the_teacher_and_the_path_is_in_the_id_alone(teacher, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(teacher, moved)
    first, second = (decode(Weights, student(folder)) for folder in (teacher, moved))
    addresses = [training.description(INPUTS) for training in (first, second)]
    assert addresses[0] == addresses[1]
    assert with_paths(first.distillation) != with_paths(second.distillation)
    weights = moved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    assert decode(Weights, student(moved)).description(INPUTS) != addresses[0]


REFUSED: dict[str, tuple[Any, Any, dict[str, str], str]] = {
    "width": ({"cosine_weight": 1.0}, NARROW, {}, "cosine_weight: is 1.0, and the widths are 16 and the teacher's 32"),
    "initial": ({"initial_layers": [1, 2]}, {"layers": 1}, {}, r"initial_layers: is \[1, 2\], the student has 1"),
    "shape": ({"initial_layers": [1]}, NARROW, {}, "teacher: .* has width 32, model.width is 16"),
    "none": (
        {"soft_weight": 0.0},
        {"layers": 1},
        {},
        "distillation: has a teacher, and all weights .* are 0",
    ),
}


@pytest.mark.parametrize(("terms", "model", "training", "message"), REFUSED.values(), ids=REFUSED)
def test_terms_that_cannot_be_computed_are_refused(terms, model, training, message, teacher):
    with pytest.raises(ConfigError, match=message):
        decode(Weights, student(teacher, terms, model, **training)).raw_files()


class TrainsMore(Masked):
    """An objective that adds a module."""

    training_modules = ("boundary_head",)

    def build(self, config, vocabulary):
        return Transformer(config, vocabulary)


def test_an_objective_that_adds_modules_has_no_teacher(teacher):
    stage = decode(Weights, student(teacher, {}, {"layers": 1, "stack": "encoder"}) | {"objective": {"type": "masked"}})
    with pytest.raises(ConfigError, match=r"^objective: is masked, which trains boundary_head, and distillation.tea"):
        dataclasses.replace(stage, objective=TrainsMore())


@pytest.mark.slow
@pytest.mark.parametrize(("zero", "terms"), [(1, {}), (3, {"cosine_weight": 1.0})])
def test_two_ranks_are_killed_and_go_on_to_the_same_weights(zero, terms, teacher, tmp_path, inputs, run_stage):
    spec = student(teacher, terms) | {"zero": {"stage": zero}}
    kill = ["headrace.train.engine.engine:Engine", "step", 7]
    runs = [[str(tmp_path / name), own] for name, own in (("whole", None), ("killed", kill), ("killed", None))]
    ends, said = train(specify(tmp_path, inputs, spec, runs, ranks=2))
    assert ends == [0, -9, 0], said
    same(tmp_path / "killed", tmp_path / "whole")
    alone = run_stage(decode(Weights, student(teacher, terms)), inputs, tmp_path / "alone")
    for term in ("loss:distillation", *(["loss:cosine"] if terms else [])):
        of_one, of_two = (
            [row[term] for row in read_metrics(folder / "metrics.jsonl")]
            for folder in (alone.folder, tmp_path / "whole")
        )
        assert of_two == pytest.approx(of_one, rel=1e-4)


def test_a_teacher_that_does_not_fit_is_refused(teacher, tmp_path, inputs, run_stage):
    encoder = student(teacher)
    encoder["model"] |= {"stack": "encoder"}
    with pytest.raises(
        ConfigError, match=r"^distillation.teacher: .* has stack decoder, and model.stack is encoder; give"
    ):
        decode(Weights, encoder | {"objective": {"type": "masked"}}).raw_files()
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError, match=r"^distillation.teacher: "):
        decode(Weights, student(empty)).raw_files()
    with pytest.raises(ConfigError, match=r"^training.sequence_ranks: is 2, and distillation.teacher reads whole rows"):
        decode(Weights, student(teacher, sequence_ranks=2))
    changed = tmp_path / "changed"
    shutil.copytree(teacher, changed)
    tokenizer = json.loads((changed / "tokenizer.json").read_text())
    ids = tokenizer["model"]["vocab"]
    first, second = list(ids)[5:7]
    ids[first], ids[second] = ids[second], ids[first]
    (changed / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(ConfigError, match=r"^distillation.teacher: .*tokenizer.json has the id \d+ for "):
        run_stage(decode(Weights, student(changed)), inputs, tmp_path / "weights")
