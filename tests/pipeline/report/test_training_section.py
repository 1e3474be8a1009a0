"""The sections of the training and of fine-tuning, from planted files."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.report.formatting import Statistic
from headrace.pipeline.report.training_section import FinetunedScores, epochs, origins
from headrace.pipeline.run.summary import finetuned, next_commands
from headrace.train.weights import ORIGIN
from tests.pipeline.report.test_report import artifact, metrics


def test_a_mixture_has_epochs_of_each_source() -> None:
    mixed = [{"step": 9, "epoch:crawl": 0.1}, {"step": 10, "epoch:crawl": 0.4444, "epoch:wiki": 3.4}]
    assert epochs(mixed) == [
        Statistic("epochs of crawl", "0.44", "a source of the mixture"),
        Statistic("epochs of wiki", "3.40", "a source of the mixture"),
    ]
    assert epochs(metrics(300)) == [Statistic("epochs", "2.00", "over the training rows")]


FOUND = {
    "task": "classification",
    "metric": "accuracy",
    "examples": {"train": 67_349, "validation": 872, "test": 0},
    "cut": {"train": 0, "validation": 0},
    "dropped": {},
    "overlapping": 0,
}


def planted(folder: Path, accuracies: list[float], **facts) -> Artifact:
    """An artifact with one seed for each of ``accuracies``, evaluated twice."""
    out = TaskOutput(folder, "finetuned", 0)
    width = 0.0127 if len(accuracies) > 1 else None
    scores = {"accuracy": {"mean": sum(accuracies) / len(accuracies), "half_width": width, "values": accuracies}}
    best = max(range(len(accuracies)), key=accuracies.__getitem__)
    found = FOUND | {"scores": scores, "seeds": [{"seed": n} for n in range(len(accuracies))], "best_seed": best}
    with out.file("scores.json") as path:
        path.write_text(json.dumps(found | facts))
    for seed, accuracy in enumerate(accuracies):
        rows = [{"step": 5, "loss": 0.9}, {"step": 10, "validation_loss": 0.6, "validation_accuracy": accuracy - 0.1}]
        rows.append({"step": 20, "validation_loss": 0.5, "validation_accuracy": accuracy})
        with out.file(f"seed_{seed}/metrics.jsonl") as path:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out.done({})
    return finish(folder, {"stage": "finetuned"}, {"finetuned": 1})


def test_several_seeds_have_a_mean_with_its_interval_and_a_curve_each(tmp_path) -> None:
    found = FinetunedScores.of(planted(tmp_path, [0.91, 0.93]))
    assert (found.task, found.table.header) == ("classification", ["metric", "mean", "seed 0", "seed 1"])
    assert found.table.rows == [["accuracy", "0.9200 ± 0.0127", "0.9100", "0.9300"]]
    assert found.notes == [
        "67,349 examples of training, 872 of validation",
        "±: half of the 95% interval of the mean over seeds (Student's t)",
        "best checkpoint by accuracy of validation; the model of seed 1 is in hf/",
    ]
    lines = json.loads(found.figure.json)["data"]
    assert [(one["name"], one["x"], one["y"]) for one in lines] == [
        ("seed 0", [10, 20], [0.6, 0.5]),
        ("seed 0", [10, 20], [pytest.approx(0.81), 0.91]),
        ("seed 1", [10, 20], [0.6, 0.5]),
        ("seed 1", [10, 20], [pytest.approx(0.83), 0.93]),
    ]
    table, *notes = finetuned(found)
    assert [column.header for column in table.columns] == ["fine-tuned: classification", *found.table.header[1:]]
    assert notes == [*found.notes, f"fine-tuned model: {tmp_path}/hf"]


def test_one_seed_has_no_interval_and_what_was_left_out_is_named(tmp_path) -> None:
    dropped = {"train": {"no_label": 3, "blank_text": 1_200}}
    facts = {"cut": {"train": 12, "validation": 0}, "overlapping": 1_024, "dropped": dropped}
    found = FinetunedScores.of(planted(tmp_path, [0.5], **facts))
    assert (found.table.header, found.table.rows) == (["metric", "seed 0"], [["accuracy", "0.5000"]])
    assert found.notes == [
        "67,349 examples of training, 872 of validation",
        "best checkpoint by accuracy of validation; the model of seed 0 is in hf/",
        "texts cut to finetune.context: 12 of training, 0 of validation",
        "left out of training, because validation has them: 1,024",
        "lines of train that hold no example: no_label 3, blank_text 1,200",
    ]


def test_a_result_is_judged_by_the_most_frequent_class_and_the_number_of_updates(tmp_path) -> None:
    seeds = [{"seed": 0, "steps": 99}, {"seed": 1, "steps": 6}]
    facts = {"majority": {"class": "pos", "share": 0.5}, "own_format": True, "seeds": seeds}
    found = FinetunedScores.of(planted(tmp_path, [0.5, 0.5], **facts))
    assert "for comparison: the most frequent class is that of 50.0% of the examples of validation (pos)" in found.notes
    assert "only 6 updates: more epochs, or a higher finetune.optimizer.learning_rate, may teach more" in found.notes
    assert found.notes[-1].startswith("no class of transformers has this model with a head for the task: hf/ is in ")


def test_enough_updates_are_not_named(tmp_path) -> None:
    notes = FinetunedScores.of(planted(tmp_path, [0.5], seeds=[{"seed": 0, "steps": 100}])).notes
    assert not any("updates" in note or "most frequent" in note for note in notes)


def test_the_first_command_after_a_fine_tuning_exports_its_model(tmp_path) -> None:
    config = SimpleNamespace(root=str(tmp_path), name=None, until="report")
    run: Any = SimpleNamespace(config=config, id="0b5c2f7d9e11")
    commands = list(next_commands(run, {"finetuned": planted(tmp_path / "f", [0.5])}))
    assert commands == [f"headrace export 0b5c2f7d9e11 --to fine_tuned_model root={tmp_path}"]


def test_a_branch_names_the_checkpoints_that_it_went_on_from(tmp_path: Path) -> None:
    changed = {"training.steps": [8, 900], "optimizer.learning_rate": [1e-3, None]}
    known = [{"weights": "trunk", "step": 400, "changed": {}}, {"weights": "late", "step": 1800, "changed": changed}]

    def fill(out: TaskOutput) -> dict[str, int]:
        with out.file(ORIGIN) as path:
            path.write_text(json.dumps({"origins": known}))
        return {}

    table = origins(artifact(tmp_path / "branch", "weights", {}, fill))
    assert table.rows == [
        ["trunk", "400", ""],
        ["late", "1,800", "training.steps: 900, optimizer.learning_rate: default"],
    ]
    assert origins(artifact(tmp_path / "trunk", "weights", {}, lambda out: {})) is None
