"""The plain sentences about a run."""

import dataclasses

import pytest

from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.report.score_sentences import first_sentence
from headrace.pipeline.report.score_table import ScoreTable
from headrace.pipeline.report.sections import conclusions
from tests.pipeline.report.test_report import Reader, empty_run, full_run, write_report


def sentences(inputs) -> list[str]:
    table = ScoreTable.of(inputs["scores"]) if "scores" in inputs else None
    metrics = read_metrics(inputs["weights"].path("metrics.jsonl")) if "weights" in inputs else []
    return conclusions(inputs, metrics, table)


def test_a_run_is_summed_up_in_plain_sentences(tmp_path):
    inputs = full_run(tmp_path)
    *found, text = sentences(inputs)
    assert found == [
        "Of 10,000 records, 4,200 were kept: 2.48 M tokens.",
        "A model of 3.41 M parameters read 1.23 M tokens; its loss fell from 8.99 nats per token in step 1"
        " to 3.70 on held-out text.",
        "Held-out text takes 1.23 bits per byte; 2.90 with all tokens equally likely.",
        "Better than chance, by 3 standard errors or more: agreement acc 71.0 % ± 4.5 % (chance 50.0 %).",
    ]
    assert text.startswith('After "Once </script>')
    assert "\x1b" not in text
    page = " ".join(Reader(write_report(inputs, tmp_path / "report").read_text()).text.split())
    for sentence in found:
        assert sentence in page


def test_a_run_without_a_model_has_sentences_about_what_there_is(tmp_path):
    whole = full_run(tmp_path / "full")
    until = {stage: {name: whole[name] for name in list(whole)[: number + 1]} for number, stage in enumerate(whole)}
    assert sentences(until["texts"]) == []
    assert sentences(until["clean"]) == ["Of 10,000 records, 5,200 were kept."]
    assert sentences(until["packed"]) == ["Of 10,000 records, 4,200 were kept: 2.48 M tokens."]
    assert sentences(until["weights"])[1].endswith(
        "its loss fell from 8.99 nats per token in step 1 to 3.44 in step 300."
    )
    assert sentences(empty_run(tmp_path / "empty")) == ["Of 0 records, 0 were kept: 0 tokens."]


@pytest.mark.parametrize(
    ("value", "error", "random", "items", "expected"),
    [
        (0.66, 0.05, 0.5, 104, ["Better than chance"]),
        (0.64, 0.05, 0.5, 104, ["Not better than chance"]),
        (0.30, 0.05, 0.5, 104, ["Not better than chance"]),
        (1.0, 0.0, 0.5, 104, ["Better than chance"]),
        (1.0, None, 0.5, 104, ["Not better than chance"]),
        (1.0, 0.0, 0.5, 2, ["Not better than chance"]),
        (1.0, 0.0, 0.01, 9, ["Not better than chance"]),
        (1.0, 0.0, 0.5, 10, ["Better than chance"]),
        (0.62, 0.0, 0.5, 104, ["Not better than chance"]),
        (0.9, 0.01, None, 104, []),
    ],
)
def test_three_standard_errors_above_chance_are_asked_for(value, error, random, items, expected, tmp_path):
    """The error is at least that of guessing, 10 items are needed, and an unknown chance allows no sentence."""
    table = ScoreTable.of(full_run(tmp_path)["scores"])
    (row,) = [row for row in table.rows if row.benchmark.name == "agreement"]
    metric = dataclasses.replace(row.metric, value=value, standard_error=error, random=random, items=items)
    table = dataclasses.replace(table, rows=[dataclasses.replace(row, metric=metric)], written=[])
    assert [found.partition(", by ")[0].partition(", or ")[0] for found in conclusions({}, [], table)] == expected


def test_a_loss_that_rose_is_called_so(tmp_path):
    """With the steps that the log names: it begins with the step ``training.log_every``."""
    inputs = full_run(tmp_path)
    rows = [{"step": 10, "loss": 3.5}, {"step": 20, "loss": 3.6}]
    *_, training = conclusions({"weights": inputs["weights"]}, rows, None)
    assert training.endswith("its loss rose from 3.50 nats per token in step 10 to 3.60 in step 20.")
    table = dataclasses.replace(ScoreTable.of(inputs["scores"]), rows=[], written=[])
    *_, training = conclusions({"weights": inputs["weights"]}, rows, table)
    assert training.endswith("its loss rose from 3.50 nats per token in step 10 to 3.70 on held-out text.")
    denoising = [rows[0], rows[1] | {"validation_loss": 3.2}]
    *_, training = conclusions({"weights": inputs["weights"]}, denoising, table)
    assert training.endswith("its loss fell from 3.50 nats per token in step 10 to 3.20 on held-out text.")
    likelihood = [rows[0], rows[1] | {"validation_loss": 3.2, "bits_per_byte": 1.5}]
    *_, training = conclusions({"weights": inputs["weights"]}, likelihood, table)
    assert training.endswith("its loss rose from 3.50 nats per token in step 10 to 3.70 on held-out text.")
    *_, training = conclusions({"weights": inputs["weights"]}, rows[:1], None)
    assert training.endswith("its loss was 3.50 nats per token in step 10.")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (" the number\nof rows. The second", "the number of rows."),
        ("3.5 of numpy.ndarray, and more", "3.5 of numpy.ndarray, and more"),
        ('it is "so." More', 'it is "so."'),
        ("", ""),
        ("a" * 300, "a" * 200 + "…"),
    ],
)
def test_a_text_is_cut_after_its_first_sentence(text, first):
    assert first_sentence(text) == first
