"""Samples files compared with those of lm-evaluation-harness; its own functions find them."""

import json

import pytest

from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.harness_files import file_of
from headrace.train.evaluation.settings import Evaluation
from headrace.train.scores import FolderScores

lm_eval = pytest.importorskip("lm_eval", reason="the optional extra 'evaluation' is not installed")
from lm_eval.loggers import EvaluationTracker  # noqa: E402
from lm_eval.utils import get_file_task_name, get_results_filenames, get_sample_results_filenames  # noqa: E402

from tests.train.evaluation.test_harness import ALONE, folder, models, task  # noqa: E402

pytestmark = pytest.mark.slow

__all__ = ["ALONE", "folder", "models", "task"]


@pytest.fixture(scope="module")
def artifact(folder, task, run_stage, tmp_path_factory):
    """Scores of the task ``piqa_local``, of our benchmark ``piqa`` over the same questions, and of pairs by group."""
    root = tmp_path_factory.mktemp("scored")
    records = [json.loads(line) for line in (task.parent / "piqa.jsonl").read_text().splitlines()]
    ours = [{"query": f"Question: {one['goal']}\n", "choices": [one["sol1"], one["sol2"]], "gold": one["label"]}
            for one in records]  # fmt: skip
    (root / "piqa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ours))
    piqa = {"type": "multiple_choice", "paths": [str(root / "piqa.jsonl")], "query_suffix": "Answer:"}
    benchmarks = {"piqa": piqa, "agreement": {"type": "agreement"}}
    evaluation = decode(Evaluation, {"benchmarks": benchmarks, "tasks": [str(task)], "device": "cpu"})
    return run_stage(FolderScores(evaluation=evaluation, folder=str(folder)), {}, root / "scores")


def lines_of(path):
    return [json.loads(row) for row in path.read_text().splitlines()]


def test_every_task_of_the_results_has_its_samples(artifact):
    files = [path.as_posix() for path in sorted(artifact.path("scores.json").parent.glob("lm_eval/*"))]
    (found,) = get_results_filenames(files)
    with open(found, encoding="utf-8") as stream:
        results = json.load(stream)
    tasks = {get_file_task_name(name.rpartition("/")[2]) for name in get_sample_results_filenames(files)}
    assert tasks == results["configs"].keys() > {"piqa", "piqa_local", "agreement", "agreement_simple"}
    for name in tasks:
        lines, known = lines_of(artifact.path(file_of(name))), results["configs"][name]
        assert known["output_type"] == "multiple_choice"
        for metric in (one["metric"] for one in known["metric_list"]):
            mean = sum(line[metric] for line in lines) / len(lines)
            assert mean == pytest.approx(results["results"][name][f"{metric},none"])


def test_lines_equal_those_that_the_harness_writes(artifact, models, task, tmp_path):
    """A task's lines are equal byte for byte; our benchmark's lines except for the document and the metrics."""
    alone = {"task_manager": ALONE, "bootstrap_iters": 0}
    found = lm_eval.simple_evaluate(model=models[0], tasks=[str(task)], **alone)["samples"]["piqa_local"]
    tracker = EvaluationTracker(output_path=str(tmp_path))
    tracker.general_config_tracker.model_name_sanitized = "model"
    tracker.date_id = "now"
    tracker.save_results_samples("piqa_local", found)
    (written,) = tmp_path.rglob("samples_piqa_local_now.jsonl")
    assert artifact.path(file_of("piqa_local")).read_bytes() == written.read_bytes()
    for ours, theirs in zip(lines_of(artifact.path(file_of("piqa"))), lines_of(written), strict=True):
        assert theirs.keys() == ours.keys() - {"acc_bytes"}
        for field in ("doc_id", "target", "arguments", "filter", "prompt_hash", "target_hash", "acc", "acc_norm"):
            assert ours[field] == theirs[field], field
        for form in ("resps", "filtered_resps"):
            assert numbers(ours[form]) == pytest.approx(numbers(theirs[form]), abs=1e-6)
            assert json.dumps(ours[form]).count("True") == json.dumps(theirs[form]).count("True")


def numbers(answers):
    """Returns the numbers in nested lists of texts."""
    if isinstance(answers, list):
        return [number for one in answers for number in numbers(one)]
    return [] if answers in ("True", "False") else [float(answers)]
