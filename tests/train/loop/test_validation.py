"""Benchmarks scored while a model is trained: the scores of the exported weights, and not a bit of those changed."""

import dataclasses
import json
import weakref
from pathlib import Path

import pytest

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import canonical, decode
from headrace.train.context import LEFT_TO_RIGHT
from headrace.train.distributed.processes import Ranks
from headrace.train.distributed.watchdog import Watchdog
from headrace.train.evaluation.held_out_documents import HeldOut
from headrace.train.evaluation.scoring import score_all
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.inference_model import open_exported
from headrace.train.loop import validation
from headrace.train.loop.validation import InLoopEvaluation
from headrace.train.model.transformer import Transformer
from tests.train import fork_server
from tests.train.test_weights import BENCHMARKS, settings, stage


def evaluation_rows(folder: Path) -> list[dict]:
    return [row for row in read_metrics(folder / "metrics.jsonl") if "evaluation" in row]


def scores_of_export(folder: Path, inputs) -> dict[str, list[dict]]:
    """Returns the scores of the weights that were exported to ``folder``."""
    evaluation = decode(Evaluation, {"benchmarks": BENCHMARKS, "device": "cpu"})
    encoder = Encoder.load(folder / "hf" / "tokenizer.json")
    subject = open_exported(folder / "hf", encoder, evaluation)
    found = score_all(evaluation, HeldOut(inputs["tokens"], inputs["packed"], encoder), {}, subject)
    return {scored.scores.name: [metric.row() for metric in scored.scores.metrics] for scored in found}


def test_the_last_scores_are_those_of_the_export_and_no_weight_differs(tmp_path, inputs, run_stage):
    with_scores, without = tmp_path / "with", tmp_path / "without"
    run_stage(stage(evaluate_every=5), inputs, with_scores)
    run_stage(stage(), inputs, without)
    assert (with_scores / "hf/model.safetensors").read_bytes() == (without / "hf/model.safetensors").read_bytes()
    rows = evaluation_rows(with_scores)
    assert [row["step"] for row in rows] == [5, 10, 12]
    as_written = json.loads(json.dumps(scores_of_export(with_scores, inputs)))
    assert rows[-1]["evaluation"] == as_written
    assert rows[0]["evaluation"] != as_written
    assert read_metrics(with_scores / "metrics.jsonl")[-1].keys() >= {"loss", "epoch"}
    assert evaluation_rows(without) == []


def test_each_weight_is_converted_before_the_next_one_is_gathered(inputs, monkeypatch):
    encoder = Encoder.load(inputs["tokenizer"].path("tokenizer.json"))
    network = Transformer(stage().model, encoder.vocabulary_size)
    fp32: list[weakref.ref] = []

    def weights():
        for name, value in network.named_parameters():
            assert not any(before() is not None for before in fp32[:-1]), "an earlier value is still held in fp32"
            one = value.detach().clone()
            fp32.append(weakref.ref(one))
            yield name, one

    evaluation = decode(Evaluation, {"benchmarks": BENCHMARKS, "device": "cpu", "precision": "bf16"})
    scoring = InLoopEvaluation(
        evaluation=evaluation,
        held_out=HeldOut(inputs["tokens"], inputs["packed"], encoder),
        encoder=encoder,
        model=stage().model,
        context_form=LEFT_TO_RIGHT,
        weights=weights,
        ranks=Ranks(0, 1, 0, 1),
        watchdog=Watchdog(60.0, 60.0, 0, Path()),
    )
    monkeypatch.setattr(validation, "score_all", lambda *_: [])
    assert scoring.scores(1) == {}
    assert len(fp32) == len(list(network.parameters()))


@pytest.mark.slow
def test_no_weight_differs_on_two_ranks_at_any_zero_stage(tmp_path, inputs):
    trainings = {}
    for zero in (0, 1, 2, 3):
        for every in (None, 2):
            values = settings(steps=4, evaluate_every=every) | {"zero": {"stage": zero}}
            trainings[str(tmp_path / f"{zero}-{every}")] = values
    spec = {"inputs": {name: str(artifact.folder) for name, artifact in inputs.items()}, "trainings": trainings}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    done = fork_server.run("tests.train.in_loop_evaluation_ranks", str(tmp_path / "spec.json"))
    assert done.returncode == 0, done.stderr
    for zero in (0, 1, 2, 3):
        with_scores, without = tmp_path / f"{zero}-2", tmp_path / f"{zero}-None"
        assert (with_scores / "hf/model.safetensors").read_bytes() == (without / "hf/model.safetensors").read_bytes()
        rows = evaluation_rows(with_scores)
        assert [row["step"] for row in rows] == [2, 4]
        assert rows[-1]["evaluation"] == json.loads(json.dumps(scores_of_export(with_scores, inputs)))


def test_what_is_scored_on_the_way_stays_out_of_the_address():
    other = stage(evaluate_every=3, evaluate_items=7)
    assert canonical(
        dataclasses.replace(other, evaluation=Evaluation(batch_tokens=9, benchmarks=other.evaluation.benchmarks))
    ) == canonical(stage())


def test_a_light_set_has_the_named_benchmarks_and_fewer_items():
    whole = decode(
        Evaluation,
        {"benchmarks": {"a": {"type": "agreement"}, "b": {"type": "agreement", "limit": 3}}, "tasks": ["piqa"]},
    )
    light = whole.light(["b", "a"], 50)
    assert {name: one.limit for name, one in light.benchmarks.items()} == {"b": 3, "a": 50}
    assert light.tasks == ()
    assert set(whole.light([], 50).benchmarks) == {"a", "b"}
    assert whole.light(["a"], None).benchmarks["a"].limit is None
    with pytest.raises(ConfigError) as error:
        whole.light(["bb"], 50)
    assert str(error.value) == "training.evaluate: no benchmark of evaluation is named 'bb'; did you mean 'b'?"


def test_without_benchmarks_there_is_nothing_to_score():
    with pytest.raises(ConfigError) as error:
        dataclasses.replace(stage(evaluate_every=3), evaluation=Evaluation())
    assert str(error.value) == (
        "training.evaluate_every: is 3, and evaluation has no benchmarks; give it some, or null"
    )


def test_a_broken_file_is_found_before_the_first_step(tmp_path, inputs, run_stage):
    quiz = tmp_path / "quiz.jsonl"
    quiz.write_text('{"query": "Q", "choices": ["a", "b"], "gold": 2}\n')
    benchmarks = {"quiz": {"type": "multiple_choice", "paths": [str(quiz)]}}
    evaluation = decode(Evaluation, {"benchmarks": benchmarks})
    with pytest.raises(ArtifactError, match="field 'gold' holds 2"):
        run_stage(dataclasses.replace(stage(evaluate_every=3), evaluation=evaluation), inputs, tmp_path / "weights")
    assert not (tmp_path / "weights" / "metrics.jsonl").exists()
