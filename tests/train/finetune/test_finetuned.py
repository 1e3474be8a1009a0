"""The stage ``finetuned``: it learns a task, seed by seed, and a killed one goes on as if it had not been."""

import dataclasses
import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.stage import Stage
from headrace.train.context import LEFT_TO_RIGHT
from headrace.train.engine.engine import Engine
from headrace.train.families.hf_folder import exported_family
from headrace.train.finetune.session import Material
from headrace.train.finetune.tuning import Splits, check_tuning
from headrace.train.training_config import ZeroConfig
from tests.train.finetune.small_tasks import (
    ENCODER,
    SENTIMENT,
    sentiment,
    stage,
    tokenizer_artifact,
    words_tokenizer,
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return tokenizer_artifact(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("files")
    found = sentiment(folder)
    test = folder / "test.tsv"
    test.write_text("index\tsentence\n0\ta b good c\n1\tdull d e\n")
    return {**found, "test": str(test)}


@pytest.fixture(scope="module")
def learned(files, tokenizer, run_stage, tmp_path_factory) -> Artifact:
    """Two seeds from random weights."""
    folder = tmp_path_factory.mktemp("learned")
    return run_stage(stage(ENCODER, files, seeds=[1, 2]), {"tokenizer": tokenizer}, folder)


def test_a_small_encoder_learns_a_sentiment_from_random_weights(learned) -> None:
    scores = read_json(learned.path("scores.json"))
    accuracy = scores["scores"]["accuracy"]
    assert min(accuracy["values"]) > 0.9
    first, second = accuracy["values"]
    assert accuracy["mean"] == pytest.approx((first + second) / 2)
    assert accuracy["half_width"] == pytest.approx(12.7062 * abs(first - second) / 2, rel=1e-4)  # t of 1 degree
    assert scores["best_seed"] == (1 if first >= second else 2)
    assert scores["examples"] == {"train": 96, "validation": 32, "test": 2}
    assert learned.counts["steps"] == 2 * 30
    assert scores["majority"] == {"class": "negative", "share": 0.5}
    assert "own_format" not in scores


@pytest.mark.parametrize(
    ("changes", "kind", "model_type"),
    [
        ({}, "classification", "bert"),
        ({"qk_norm": True}, "classification", "headrace"),
        ({"stack": "decoder"}, "classification", "headrace"),
    ],
)
def test_the_format_of_the_folder_is_known_before_the_training(changes, kind, model_type) -> None:
    model = dataclasses.replace(ENCODER, **changes)
    assert exported_family(model, words_tokenizer(), LEFT_TO_RIGHT, kind).model_type == model_type


def test_each_seed_has_its_curve_its_predictions_and_its_best_step(learned) -> None:
    for seed, result in zip((1, 2), read_json(learned.path("scores.json"))["seeds"], strict=True):
        rows = read_metrics(learned.path(f"seed_{seed}/metrics.jsonl"))
        curve = {row["step"]: row["validation_accuracy"] for row in rows if "validation_accuracy" in row}
        assert list(curve) == [10, 20, 30]
        assert result["best_step"] == min(step for step, value in curve.items() if value == max(curve.values()))
        written = [json.loads(line) for line in learned.path(f"seed_{seed}/predictions.jsonl").read_text().splitlines()]
        right = [line["prediction"] == line["label"] for line in written]
        assert sum(right) / len(right) == curve[result["best_step"]] == result["scores"]["accuracy"]
        test = learned.path(f"seed_{seed}/test_predictions.jsonl").read_text().splitlines()
        assert [json.loads(line)["prediction"] for line in test] == ["positive", "negative"]
        assert not (learned.folder / f"seed_{seed}" / "checkpoints").exists()


class Killed(BaseException):
    """Stands in for SIGKILL: nothing of ours catches it."""


@pytest.mark.slow
@pytest.mark.parametrize("call", [15, 45])
def test_a_killed_one_goes_on_at_its_seed_and_step(call, learned, files, tokenizer, run_stage, tmp_path, monkeypatch):
    """In the first seed after a checkpoint, and in the second one; all files are the same bytes."""
    step, calls = Engine.step, 0

    def killed(*arguments, **named):
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        return step(*arguments, **named)

    tuning = stage(ENCODER, files, seeds=[1, 2])
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "step", killed)
        with pytest.raises(Killed):
            run_stage(tuning, {"tokenizer": tokenizer}, tmp_path / "killed")
    for folder in ("seed_2", "scratch/hf_1", "scratch/hf_2"):  # what a kill in the middle of a write leaves
        (tmp_path / "killed" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "killed" / folder / "tmp-result.json").write_text("{")
    again = run_stage(tuning, {"tokenizer": tokenizer}, tmp_path / "killed")
    assert again.manifest["files"].keys() == learned.manifest["files"].keys()
    for name in ("scores.json", "seed_1/predictions.jsonl", "seed_2/predictions.jsonl", "hf/model.safetensors"):
        assert again.path(name).read_bytes() == learned.path(name).read_bytes(), name


def test_a_training_ends_early_without_a_better_evaluation(files, tokenizer, run_stage, tmp_path) -> None:
    tuning = stage(ENCODER, files, epochs=20, patience=2, evaluate_every=5)
    result = read_json(run_stage(tuning, {"tokenizer": tokenizer}, tmp_path / "tuned").path("seed_1/result.json"))
    assert result["steps"] == result["best_step"] + 10 < 120


LAYER_RATES = {"classifier.": 1.0, "bert.pooler.": 1.0, "bert.encoder.layer.1.": 0.5, "bert.encoder.layer.0.": 0.25}
LAYER_RATES |= {"bert.embeddings.": 0.125}


def test_each_layer_moves_by_its_own_rate(files, tokenizer, run_stage, tmp_path) -> None:
    """The first update of AdamW is the learning rate, wherever there is a gradient; a key's bias has none."""
    adam = {"type": "adamw", "learning_rate": 1e-2, "weight_decay": 0.0, "epsilon": 1e-12}
    tuning = stage(ENCODER, files, steps=1, optimizer=adam, layer_decay=0.5)
    artifact = run_stage(tuning, {"tokenizer": tokenizer}, tmp_path / "tuned")
    network = Material.read(tuning, tokenizer.path("tokenizer.json"), None).network
    network.export(network.first_weights(1), tokenizer.path("tokenizer.json"), tmp_path / "first")
    first, last = (load_file(folder / "model.safetensors") for folder in (tmp_path / "first", artifact.folder / "hf"))
    moved = {name: float((last[name] - value).abs().max()) for name, value in first.items()}
    for layer, rate in LAYER_RATES.items():
        of_layer = [size for name, size in moved.items() if name.startswith(layer) and not name.endswith("key.bias")]
        assert of_layer == pytest.approx([1e-2 * rate] * len(of_layer), rel=0.01), layer
        moved = {name: size for name, size in moved.items() if not name.startswith(layer)}
    assert not moved


def said(tuning: Stage) -> str:
    with pytest.raises(ConfigError) as error:
        tuning.check_start()
    return str(error.value)


def tsv(path: Path, *rows: str) -> str:
    path.write_text("sentence\tlabel\n" + "".join(f"{row}\n" for row in rows))
    return str(path)


def test_examples_that_do_not_fit_are_refused_before_any_stage(tmp_path) -> None:
    train = tsv(tmp_path / "train.tsv", "a good b\tright", "a dull b\twrong", "a c\twrong")
    task = SENTIMENT | {"format": {"type": "fields", "texts": ["sentence"], "label": "label"}}
    validation = tsv(tmp_path / "validation.tsv", "d e\tright", "d f\tmaybe")
    assert said(stage(ENCODER, {"train": train, "validation": validation}, task)) == (
        f"finetune.validation: example {validation}:3 has the class 'maybe', which no training example has; "
        "correct the files; the classes of finetune.train are right, wrong"
    ).replace(validation, "validation.tsv")
    assert said(stage(ENCODER, {"train": train, "validation": train}, task)) == (
        "finetune.validation: 3 of its 3 examples are in finetune.train, too; give files without common examples"
    )
    one = tsv(tmp_path / "one.tsv", "a good b\tright", "a c\tright")
    assert said(stage(ENCODER, {"train": one, "validation": validation}, task)) == (
        "finetune.train: all 2 examples have the class 'right'; give examples of at least two classes"
    )
    named = {**task, "texts": ["title"]}
    assert said(stage(ENCODER, {"train": train, "validation": validation}, named)) == (
        "finetune.task.texts: the format has no text 'title'; give some of: sentence"
    )
    few = tsv(tmp_path / "few.tsv", "d e\tright")
    assert said(stage(ENCODER, {"train": few, "validation": validation}, task)) == (
        "finetune.train: all its 1 examples are in finetune.validation, too; give files without common examples"
    )


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("classification", {}, "label: is missing: it names the field with the results; write {}.label=label"),
        ("regression", {}, "value: is missing: it names the field with the results; write {}.value=label"),
        (
            "multiple_choice",
            {"texts": ["label"]},
            "gold: is missing: it names the field with the results; write {}.gold=sentence",
        ),
    ],
)
def test_a_format_without_the_field_of_results_names_the_fields(name, settings, message, tmp_path) -> None:
    train = tsv(tmp_path / "train.tsv", "a good b\tright", "a dull b\twrong")
    task = {"type": name, "format": {"type": "fields", "texts": ["sentence"], **settings}}
    key = "finetune.task.format"
    refused = said(stage(ENCODER, {"train": train, "validation": train}, task))
    assert refused == f"{key}.{message.format(key)} (fields in train.tsv: sentence, label)"


def test_a_common_example_is_left_out_of_training_and_counted(tmp_path) -> None:
    train = tsv(tmp_path / "train.tsv", "a good b\t1", "a dull b\t0", "d e\t1")
    validation = tsv(tmp_path / "validation.tsv", "d e\t1", "d f\t0", "d g\t0")
    splits = Splits.read(stage(ENCODER, {"train": train, "validation": validation}).finetune)
    assert [example.texts["sentence"] for example in splits.training] == ["a good b", "a dull b"]
    assert splits.overlapping == 1


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"context": 64}, "finetune.context: is 64, and the model has 32 positions; give at most 32"),
        ({"context": 4}, "finetune.context: is 4, too short for a task of type classification; give at least 8"),
        ({"batch_rows": 9}, "finetune.batch_rows: 9 examples cannot be dealt to 2 ranks; give a multiple of 2"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(recipe, message) -> None:
    with pytest.raises(ConfigError) as error:
        check_tuning(stage(ENCODER, {"train": "a", "validation": "b"}, **recipe), ranks=2)
    assert str(error.value) == message


def test_an_update_that_the_cpu_cannot_compute_is_refused() -> None:
    tuned = stage(ENCODER, {"train": "a", "validation": "b"}, optimizer={"type": "muon", "learning_rate": 0.1})
    with pytest.raises(ConfigError, match=r"^zero.offload: is optimizer, and an update of optimizer=muon needs whole"):
        check_tuning(dataclasses.replace(tuned, zero=ZeroConfig(offload="optimizer")), ranks=1)


def test_a_stack_that_a_task_does_not_train_is_refused() -> None:
    decoder = dataclasses.replace(ENCODER, stack="decoder")
    with pytest.raises(ConfigError) as error:
        check_tuning(stage(decoder, {"train": "a", "validation": "b"}, {"type": "span"}), ranks=1)
    assert str(error.value) == (
        "finetune.task.type: span trains a stack encoder or discriminator, and that of the model is decoder; "
        "give another type, or another model"
    )
