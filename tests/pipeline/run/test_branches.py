"""``training.branch_from`` from the command line: names, refusals before any stage runs, and a real branch."""

from pathlib import Path

import pytest

from headrace.pipeline.command_line.request import composed, planned
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.documents import forgetting, training_rows
from headrace.pipeline.run.branches import beginnings, with_address
from headrace.pipeline.run.planner import Run, save
from tests.command_line import headrace_here
from tests.small_runs import TRAINING, Corpus, build, trained, training_of


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("branches"), "none")


@pytest.fixture(scope="module")
def trunk(corpus) -> Run:
    """A finished training of 4 steps, whose run has the name ``trunk``."""
    return trained(training_of(corpus, "training.steps=4", "name=trunk"))


def weights_of(run: Run) -> Path:
    return next(step.folder for step in run.stages if step.name == "weights")


def point(corpus: Corpus, named: str) -> str:
    values = with_address({"root": f"{corpus.folder}/runs", "training": {"branch_from": named}})
    return str(values["training"]["branch_from"])


@pytest.mark.slow
def test_a_branch_point_is_named_by_a_run_and_a_step(corpus, trunk):
    address = weights_of(trunk).name
    for named in ("trunk@4", "trunk", "tru@4", trunk.config.id, f"{address}@4"):
        assert point(corpus, named) == f"{address}@4"
    assert point(corpus, "trunk@2") == f"{address}@2"
    without = {"root": "runs", "training": {"branch_from": None}}
    assert with_address(without) == without


@pytest.mark.slow
def test_a_teacher_is_named_by_a_run_or_by_a_folder(corpus, trunk):
    root, weights = f"{corpus.folder}/runs", weights_of(trunk)
    for named in ("trunk", trunk.config.id, weights.name):
        values = with_address({"root": root, "training": {}, "distillation": {"teacher": named}})
        assert values["distillation"]["teacher"] == f"{root}/weights/{weights.name}/hf"
    folder = {"root": root, "training": {}, "distillation": {"teacher": str(weights / "hf")}}
    assert with_address(folder) == folder
    with pytest.raises(ConfigError, match=r"distillation.teacher: 'nothing' is not a run below "):
        training_of(corpus, "training.steps=6", "distillation.teacher=nothing")
    student = training_of(corpus, "training.steps=6", "distillation.teacher=trunk")
    assert student.config.distillation.teacher == str(weights / "hf")


REFUSED = {
    "nothing@3": r"training.branch_from: 'nothing' is not a run below '.*'; known: .*, trunk \(headrace runs",
    "1f2e3d4c5b6a": r"training.branch_from: '1f2e3d4c5b6a' is not a run below .*",
    "two words@x": r"training.branch_from: must be RUN@STEP, or RUN alone \(got 'two words@x'\); correct the value",
}


@pytest.mark.slow
@pytest.mark.parametrize("named", REFUSED)
def test_what_names_no_branch_point_is_refused(corpus, trunk, named):
    with pytest.raises(ConfigError, match=REFUSED[named]):
        training_of(corpus, "training.steps=6", f"training.branch_from='{named}'")


@pytest.mark.slow
def test_a_run_without_a_training_is_refused(corpus, trunk, tmp_path):
    words = [*corpus.overrides, "name=only-data"]
    run = planned(composed(words), words)
    save(run.config, run.values, run.stages, run.overrides)
    with pytest.raises(ConfigError) as error:
        point(corpus, "only-data@3")
    assert str(error.value) == "training.branch_from: the run 'only-data' trains no model; name another run"


@pytest.mark.slow
def test_an_unfinished_training_needs_a_step(corpus, trunk):
    run = training_of(corpus, "training.steps=9", "training.seed=5", "name=unfinished")
    save(run.config, run.values, run.stages, run.overrides)
    with pytest.raises(ConfigError) as error:
        point(corpus, "unfinished")
    wrong = "the training of 'unfinished' is not finished"
    assert str(error.value) == f"training.branch_from: {wrong}; give a step: unfinished@STEP"


@pytest.mark.slow
def test_a_branch_point_that_does_not_fit_is_refused_before_any_stage(corpus, trunk):
    run = training_of(corpus, "training.steps=6", "training.branch_from=trunk@3")
    with pytest.raises(ConfigError) as error:
        beginnings(run.stages)
    wrong = f"{weights_of(trunk)} has no checkpoint of step 3: there are checkpoints of 2, 4"
    remedy = "branch from one of them (training.keep_every=N keeps more)"
    assert str(error.value) == f"training.branch_from: {wrong}; {remedy}"


@pytest.mark.slow
def test_a_command_says_where_a_branch_begins(corpus, trunk):
    run = training_of(corpus, "training.steps=6", "training.branch_from=trunk@2")
    assert beginnings(run.stages) == [f"weights: goes on from step 2 of {weights_of(trunk)}"]
    assert beginnings(training_of(corpus, "training.steps=6").stages) == []


@pytest.mark.slow
def test_a_branch_is_trained_and_its_steps_are_found(corpus, trunk):
    words = [*corpus.overrides, *TRAINING, "training.steps=6", "training.branch_from=trunk@2", "training.batch_rows=8"]
    run = planned(composed(words), words)
    with pytest.raises(ArtifactError, match=r"branches from [0-9a-f]+@2 and has no checkpoint yet"):
        list(training_rows.step_facts(run, "3"))
    done = headrace_here(*words)
    assert done.returncode == 0, done.stderr
    assert f"weights: goes on from step 2 of {weights_of(trunk)}" in done.stderr
    (known,) = read_json(weights_of(run) / "origin.json")["origins"]
    assert (known["weights"], known["step"], known["rows_seen"]) == (weights_of(trunk).name, 2, 8)
    facts = dict(training_rows.step_facts(run, "4"))
    assert facts["step"] == "4 of 6: rows 16 to 23 of the training"
    with pytest.raises(ConfigError) as error:
        list(training_rows.step_facts(run, "2"))
    wrong = "2 is a step of the trunk (trunk); this training went on after step 2"
    assert str(error.value) == f"STEP: {wrong}; ask for its run: headrace why 2 --as step --run trunk"
    tokens = corpus.artifact("tokens")
    seen = list(forgetting.seen_by(Path(f"{corpus.folder}/runs"), tokens, ["a.jsonl:0", "a.jsonl:2", "a.jsonl:3"]))
    assert any(str(weights_of(run)) in line for line in seen)
    assert "done before" in headrace_here(*words).stderr
