"""Overrides of settings: the form in which Hydra takes a field that no file lists, and replacement by setting."""

import pytest

from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.overrides import as_typed, replaced, settable


@pytest.mark.parametrize(
    "override",
    [
        "training.unique_rows=5",
        "model.deviations.matrix=0.1",
        "finetune.limit=100",
        "evaluation.chat.template=own",
        "finetune.optimizer.learning_rate=1e-4",
        "finetune.task.format.header=false",
        "cleaning.filters.3.rules.0.marks=[x]",
    ],
)
def test_a_field_needs_no_line_in_any_file(override) -> None:
    assert settable(override) == f"++{override}"
    assert as_typed(settable(override)) == override


@pytest.mark.parametrize(
    "override",
    [
        "finetune=sst2",
        "training=gpu",
        "experiment=demo",
        "name=mine",
        "+finetune.limit=100",
        "~cleaning.filters.3",
        "evaluation.benchmarks.own.limit=5",
        "training.unique_rows.deeper=5",
    ],
)
def test_other_overrides_are_left_as_they_are(override) -> None:
    assert settable(override) == as_typed(override) == override


def test_fields_of_a_task_are_set_below_those_that_its_file_lists() -> None:
    files = ["finetune.train=[a.tsv]", "finetune.validation=[b.tsv]"]
    more = ["finetune.task.metrics=[f1]", "finetune.limit=100", "finetune.optimizer.beta2=0.98"]
    found = compose(["finetune=sst2", *files, *more])["finetune"]
    assert (found["task"]["metrics"], found["limit"], found["optimizer"]["beta2"]) == (["f1"], 100, 0.98)
    assert found["task"]["format"] == {"type": "glue", "task": "sst2"}


def test_overrides_of_the_same_setting_are_replaced_and_come_last() -> None:
    known = ["experiment=demo", "training.steps=5", "+evaluation.benchmarks.own.limit=3", "model.layers=2"]
    others = ["training.steps=7", "evaluation.benchmarks.own.limit=4", "seed=1"]
    assert replaced(known, others) == ["experiment=demo", "model.layers=2", *others]
    assert replaced(known, []) == known
    assert replaced(["training=gpu"], ["training.steps=7"]) == ["training=gpu", "training.steps=7"]
