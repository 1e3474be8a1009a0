"""A fine-tuning on two ranks: killed with SIGKILL anywhere it goes on to the same bytes; ZeRO changes no result."""

import pytest

from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from tests.train.finetune.small_tasks import ENCODER, sentiment, tokenizer_artifact, values_of
from tests.train.finetune.tasks.test_text_to_text import T5, words_artifact
from tests.train.finetune.tasks.test_written_texts import TASK, WORDS, capitals
from tests.train.training import owner_of, specify, train

FILES = ("scores.json", "seed_1/predictions.jsonl", "seed_2/predictions.jsonl", "hf/model.safetensors")
SESSION = "headrace.train.finetune.session"
SEED_FILES = "headrace.train.finetune.seed_files"
KILLS = {
    "the manifest of a checkpoint": ["headrace.train.checkpoint.store", "write_sealed", 1],
    "the evaluation": ["headrace.train.finetune.session:Examination", "values", 2],
    "the export of the first seed": ["headrace.train.families.hf_folder", "save_file", 1],
    "the predictions": [SESSION, "write_lines", 1],
    "the result": [SESSION, "write_json", 1],
    "the checkpoints after the result": [f"{SEED_FILES}:SeedFiles", "_remove_checkpoints", 1],
    "an update of the second seed": ["headrace.train.engine.engine:Engine", "step", 3],
    "the registration": [f"{SEED_FILES}:shutil", "copyfile", 2],
}
"""In the order in which a fine-tuning comes to them: each start goes on where the kill before left it."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return {"tokenizer": tokenizer_artifact(tmp_path_factory.mktemp("tokenizer"))}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return sentiment(tmp_path_factory.mktemp("files"), 32, 16)


@pytest.mark.parametrize(("module", "function", "call"), KILLS.values(), ids=KILLS)
def test_what_a_kill_waits_for_exists(module, function, call):
    assert callable(getattr(owner_of(module), function))


@pytest.mark.slow
def test_two_ranks_killed_anywhere_go_on_to_the_same_bytes(inputs, files, tmp_path):
    settings = values_of(ENCODER, files, seeds=[1, 2], epochs=3, evaluate_every=2, patience=2)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    runs = [[str(whole), None], *([str(killed), kill] for kill in (*KILLS.values(), None))]
    ends, said = train(specify(tmp_path, inputs, settings, runs, ranks=2, name="finetuned"))
    assert ends == [0, *[-9] * len(KILLS), 0], said
    for file in FILES:
        assert (killed / file).read_bytes() == (whole / file).read_bytes(), file


@pytest.mark.slow
def test_two_ranks_of_any_zero_stage_learn_what_one_learns(inputs, files, tmp_path):
    learned = []
    for ranks, stage in ((1, 0), (2, 1), (2, 3)):
        settings = values_of(ENCODER, files, layer_decay=0.8) | {"zero": {"stage": stage}}
        (tmp_path / f"{ranks}-{stage}").mkdir()
        run = [str(tmp_path / f"{ranks}-{stage}" / "run"), None]
        ends, said = train(specify(tmp_path / f"{ranks}-{stage}", inputs, settings, [run], ranks, "finetuned"))
        assert ends == [0], said
        folder = tmp_path / f"{ranks}-{stage}" / "run"
        losses = [row["loss"] for row in read_metrics(folder / "seed_1/metrics.jsonl") if "loss" in row]
        learned.append((losses, read_json(folder / "scores.json")["scores"]))
    alone, *others = learned
    assert len(alone[0]) > 2
    for losses, scores in others:
        assert losses == pytest.approx(alone[0], abs=1e-5)
        assert scores["accuracy"] == alone[1]["accuracy"]


@pytest.mark.slow
def test_two_ranks_write_and_average_what_one_does(tmp_path):
    """Beam search ends when no rank has a text under way, so ranks that share the weights have as many passes."""
    inputs = {"tokenizer": words_artifact(tmp_path / "tokenizer", WORDS)}
    task = TASK | {"beams": 2, "label_smoothing": 0.1, "answer_tokens": 10}
    written = []
    for ranks, stage in ((1, 0), (2, 3)):
        folder = tmp_path / f"{ranks}-{stage}"
        folder.mkdir()
        files = capitals(folder, 48, 15)
        settings = values_of(T5, files, task, context=24, epochs=6, evaluate_every=6, average_last=2)
        run = [str(folder / "run"), None]
        ends, said = train(specify(folder, inputs, settings | {"zero": {"stage": stage}}, [run], ranks, "finetuned"))
        assert ends == [0], said
        scores = read_json(folder / "run/scores.json")
        assert scores["seeds"][0]["averaged_steps"] == [12, 18]
        written.append(((folder / "run/seed_1/predictions.jsonl").read_text(), scores["scores"]))
    assert written[0] == written[1]
