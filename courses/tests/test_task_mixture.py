"""Mixtures of text-to-text tasks: T5's proportions, an order of seed and position alone, scores by task."""

from pathlib import Path

import numpy as np
import pytest

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.settings import decode
from headrace.train.finetune.tasks.sequences import Form
from headrace_courses.task_mixture import CYCLE_ROWS, TaskMixture, rates, whole
from tests.train.finetune.small_tasks import sentiment, stage
from tests.train.finetune.tasks import test_written_texts as written
from tests.train.finetune.tasks.test_text_to_text import T5, WORDS, words_artifact, words_tokenizer

GLUE = {"cola": 8_551, "sst2": 67_349, "mrpc": 3_668, "qqp": 363_849, "mnli": 392_702, "rte": 2_490}
SST2 = {"type": "text_to_text", "format": {"type": "glue", "task": "sst2"}}
CB = {"type": "text_to_text", "format": {"type": "superglue", "task": "cb"}}
LABELS = ("entailment", "contradiction", "neutral", "cb", "premise", "hypothesis")


@pytest.mark.parametrize("limit", [2**16, 2**18, 2**21, None])
@pytest.mark.parametrize("temperature", [1, 2, 4, 8])
def test_shares_are_those_of_t5(limit, temperature):
    """r_m = min(e_m, K)^(1/T) / sum of the same, as the paper writes it."""
    capped = np.array([min(number, limit or 10**9) for number in GLUE.values()], float)
    wanted = capped ** (1 / temperature) / (capped ** (1 / temperature)).sum()
    found = rates(list(GLUE.values()), limit, temperature, False)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    weights = np.array(whole(found))
    np.testing.assert_allclose(weights / weights.sum(), wanted, atol=1 / CYCLE_ROWS)


def test_equal_shares_are_equal():
    assert whole(rates([5, 70, 9], None, 1.0, True)) == (1, 1, 1)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "sst2.tsv").write_text("sentence\tlabel\n" + "".join(f"good {'a ' * n}\t1\n" for n in range(30)))
    lines = [f'{{"premise": "a", "hypothesis": "{"b " * n}", "label": "neutral"}}\n' for n in range(1, 11)]
    (tmp_path / "cb.jsonl").write_text("".join(lines))
    return [str(tmp_path / "sst2.tsv"), str(tmp_path / "cb.jsonl")]


def mixture(**more: object) -> TaskMixture:
    return decode(TaskMixture, {"tasks": {"sst2": SST2, "cb": CB}, **more})


def fitted(files, **more: object):
    task = mixture(**more)
    examples, dropped = task.read(files)
    task.check(examples, examples)
    assert not dropped
    form = Form(Encoder(words_tokenizer((*WORDS, *LABELS))), T5, 24)
    return task.fitted(examples, form), examples


@pytest.mark.parametrize(("more", "share"), [({}, 0.75), ({"limit": 10}, 0.5), ({"equal": True}, 0.5)])
def test_the_order_follows_from_seed_and_position(files, more, share):
    task, examples = fitted(files, **more)
    rows = task.rows(examples, True)
    assert [row.facts["task"] for row in rows] == ["sst2"] * 30 + ["cb"] * 10
    order = task.order(3, rows)
    numbers = order.batch(0, 400)
    assert np.mean(numbers < 30) == share
    assert [order.batch(start, 40).tolist() for start in (0, 160)] == [numbers[:40].tolist(), numbers[160:200].tolist()]
    assert sorted(numbers[numbers >= 30][:10].tolist()) == list(range(30, 40))
    assert order.epochs(40).keys() == {"epoch:sst2", "epoch:cb"}


def test_scores_are_those_of_each_task_and_their_mean(files):
    task, examples = fitted(files)
    rows = task.rows(examples, False)
    right = [task.form.ids([example.label])[0].tolist() for example in examples]
    outputs = [np.array([0.5, *tokens, 1], np.float32) for tokens in right]
    outputs[0][1:] = 2
    predictions = task.predictions(examples, rows, outputs)
    assert [one["id"] for one in predictions] == [example.id for example in examples]
    assert predictions[-1]["id"] == "cb/cb.jsonl:10"
    scores = task.scores(examples, predictions)
    assert scores == {
        "mean": pytest.approx((29 / 30 + (1 / 3 + 1) / 2) / 2),
        "sst2_accuracy": pytest.approx(29 / 30),
        "cb_macro_f1": pytest.approx(1 / 3),
        "cb_accuracy": 1.0,
    }


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"equal": True, "temperature": 2.0},
            "finetune.task.equal: is true with limit=None and temperature=2, which then change nothing; leave these "
            "out",
        ),
        (
            {"tasks": {"sst2": SST2, "cb": {**CB, "looks_ahead": True}}},
            "finetune.task.tasks: looks_ahead differs between sst2, cb; give tasks of one form",
        ),
        ({"tasks": {}}, "finetune.task.tasks: there is none; give tasks of one form"),
        ({"tasks": {"a/b": SST2}}, "finetune.task.tasks: 'a/b' is no name of a task; leave out the slash"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(more, message):
    with pytest.raises(ConfigError) as caught:
        mixture(**more)
    assert str(caught.value) == message


def test_each_task_has_one_file(files):
    with pytest.raises(ConfigError) as caught:
        mixture().read(files[:1])
    assert str(caught.value) == (
        "finetune: there are 1 files and 2 tasks (sst2, cb); give one file for each task, in their order, for each "
        "split"
    )


@pytest.mark.slow
def test_a_model_learns_two_tasks_at_once(tmp_path, run_stage) -> None:
    files = sentiment(tmp_path)
    lines = [
        line.split("\t") for name in ("train", "validation") for line in Path(files[name]).read_text().splitlines()
    ]
    wrong = {"1": "fine", "0": "poor"}
    rows = [f"{wrong[label]} {text}\t{label}\n" for text, label in lines if label != "label"]
    for name, part in (("mood", rows[:80]), ("mood_validation", rows[80:])):
        (tmp_path / f"{name}.tsv").write_text("text\tmood\n" + "".join(part))
    mood = {"type": "fields", "texts": ["text"], "label": "mood", "labels": {"0": "bad", "1": "good"}}
    task = {"type": "mixture", "tasks": {"sst2": SST2, "mood": {"type": "text_to_text", "format": mood}}}
    both = {
        "train": [files["train"], str(tmp_path / "mood.tsv")],
        "validation": [files["validation"], str(tmp_path / "mood_validation.tsv")],
    }
    inputs = {"tokenizer": words_artifact(tmp_path / "tokenizer", WORDS)}
    artifact = run_stage(stage(T5, both, task, context=24), inputs, tmp_path / "finetuned")
    scores = read_json(artifact.path("scores.json"))["scores"]
    assert scores.keys() == {"mean", "sst2_accuracy", "mood_accuracy"}
    assert min(one["mean"] for one in scores.values()) > 0.9


word_tokenizer = written.tokenizer


@pytest.mark.slow
def test_a_mixture_of_aligned_files_counts_bleu_as_a_share(tmp_path, word_tokenizer, run_stage) -> None:
    files = written.capitals(tmp_path)
    tasks = {name: written.TASK | {"prefix": name, "metrics": ["bleu"]} for name in ("say", "in")}
    doubled = {split: paths * 2 for split, paths in files.items()}
    mixture = {"type": "mixture", "tasks": tasks}
    tuning = stage(written.T5, doubled, mixture, context=24, epochs=2, evaluate_every=24)
    artifact = run_stage(tuning, {"tokenizer": word_tokenizer}, tmp_path / "mixed")
    scores = read_json(artifact.path("scores.json"))
    means = {name: row["mean"] for name, row in scores["scores"].items()}
    assert means["mean"] == pytest.approx((means["say_bleu"] + means["in_bleu"]) / 200)
    assert set(scores["seeds"][0]["signatures"]) == {"say_bleu", "in_bleu"}


def test_tasks_are_of_one_form() -> None:
    with pytest.raises(ConfigError) as caught:
        stage(written.T5, {"train": ["a"], "validation": ["b"]},
              {"type": "mixture", "tasks": {"a": written.TASK | {"beams": 2}, "b": written.TASK}})  # fmt: skip
    assert str(caught.value) == "finetune.task.tasks: beams differs between a, b; give tasks of one form"
