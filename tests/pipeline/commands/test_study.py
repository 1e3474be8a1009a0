"""``headrace study`` with planted results: verdicts, page and JSON, and nothing is computed twice.

The runs only write the files that a real training leaves; the last test has real ones.
"""

import json
import re
import signal
from pathlib import Path

import pytest

from headrace.pipeline.core.environment import CONFIG_DIR
from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.signals import Stop
from headrace.pipeline.experiments import arms
from headrace.pipeline.experiments.study_results import carry_out_study
from headrace.pipeline.run.planner import Run, save
from tests.command_line import headrace_here
from tests.finished import finished
from tests.small_runs import TRAINING, Corpus, build

STUDY = """title: Planted rates
question: Which rate is better?
expectation: The higher one.
arms:
  slow: [optimizer.learning_rate=1e-4]
  fast: [optimizer.learning_rate=1e-3]
  broken: [optimizer.learning_rate=1.0]
sizes: {tiny: [training.steps=8], small: [training.steps=9], paper: [training.steps=10]}
held_equal: [parameters, flops, tokens, steps]
measures: {loss: validation_loss, noise: noise, luck: loss}
claims:
  - {claim: The higher rate is better., rising: [fast, slow]}
  - {claim: The higher rate is worse., rising: [slow, fast]}
  - {claim: The noise is higher at the higher rate., rising: [slow.noise, fast.noise]}
  - {claim: Luck grows with the rate., rising: [slow.luck, fast.luck]}
  - {claim: The broken rate is worst., rising: [slow, broken]}
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("study"), "none")


@pytest.fixture
def started(monkeypatch, corpus) -> list[str]:
    """Names of the runs that a study carries out; the second is interrupted, those of the arm ``broken`` fail."""
    (corpus.folder / "own/study").mkdir(parents=True, exist_ok=True)
    (corpus.folder / "own/study/planted.yaml").write_text(STUDY)
    monkeypatch.setenv(CONFIG_DIR, str(corpus.folder / "own"))
    names: list[str] = []

    def carry_out(run):
        names.append(run.config.name)
        if len(names) == 2:
            raise Stop(signal.SIGINT)
        if run.config.optimizer.learning_rate == 1.0:
            raise TaskError("weights", "the gradient's norm is nan", "lower the learning rate")
        leave_weights(run)

    monkeypatch.setattr(arms, "carry_out", carry_out)
    return names


def leave_weights(run: Run) -> None:
    """Leaves the files of a finished training: the loss falls with the rate, ``noise`` depends on the seed alone, and
    the training loss is that of guessing."""
    (step,) = (step for step in run.stages if step.name == "weights")
    rate, seed = run.config.optimizer.learning_rate, run.config.training.seed
    step.folder.mkdir(parents=True)
    row = {"step": 8, "validation_loss": 3 - 1000 * rate + 0.01 * seed + 10 * rate * seed, "tokens_seen": 4000}
    row |= {"noise": (7 * seed + 1000 * rate) % 3, "loss": 6 + 0.01 * seed, "tokens_per_second": 100.0}
    (step.folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    finished(step.folder)
    save(run.config, run.values, run.stages, run.overrides)


def carried(corpus: Corpus, *more: str, seeds: int = 3, starts: bool = True, **files: Path) -> None:
    own = [one for one in [*corpus.overrides, *TRAINING, *more] if not one.startswith("until=")]
    carry_out_study("planted", own, str(seeds), "tiny", files.get("page"), files.get("json_file"), starts)


@pytest.mark.slow
def test_a_study_goes_on_where_it_was_interrupted_and_decides_its_claims(corpus, started, tmp_path, capsys):
    carried(corpus, starts=False)
    assert started == []
    printed = capsys.readouterr().out
    assert "9 of 9 runs have no result yet; the same command goes on." in printed
    assert re.search(r"^cost +\S+ FLOP: about .* on two CPU cores", printed, re.MULTILINE)
    with pytest.raises(Stop):
        carried(corpus)
    page, file = tmp_path / "page.html", tmp_path / "study.json"
    with pytest.raises(TaskError, match=r"weights: the gradient's norm is nan; lower the learning rate"):
        carried(corpus, page=page, json_file=file)
    first = ["planted-tiny-slow-0", "planted-tiny-fast-0"]
    later = [f"planted-tiny-{arm}-{seed}" for seed in (1, 2) for arm in ("slow", "fast", "broken")]
    assert started == [*first, "planted-tiny-fast-0", "planted-tiny-broken-0", *later]
    table = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in capsys.readouterr().out.splitlines()]
    arms = {row[0]: row for row in table if row[0] in ("slow", "fast")}
    rows = [row for row in table if row[0].startswith("The ") and len(row) > 1]
    assert [(row[0], row[-1]) for row in rows] == [
        ("The higher rate is better.", "confirmed"),
        ("The higher rate is worse.", "contradicted"),
        ("The noise is higher at the higher rate.", "undecided"),
        ("The broken rate is worst.", "no result"),
    ]
    assert ["at chance" in cell for cell in arms["fast"][5:8]] == [False, False, True]
    values = json.loads(file.read_text())
    assert [one["verdict"] for one in values["decisions"]] == [
        "confirmed", "contradicted", "undecided", "at chance", "no result",
    ]  # fmt: skip
    assert values["decisions"][0]["steps"][0]["difference"] == pytest.approx(0.9 - 0.009)
    assert [run["seconds"] for run in values["runs"] if run["arm"] != "broken"] == [40.0] * 6
    text = page.read_text()
    assert re.findall(r'id="figure-([\w-]+)"', text) == [
        "measure-validation_loss", "measure-noise", "measure-loss", "claims", "losses",
    ]  # fmt: skip
    for expected in ("4 min 0 s of training in 6 of 9 runs", "Luck grows with the rate."):
        assert expected in text


TUNED = """title: Planted fine-tunings
question: Does pretraining help?
expectation: It does.
overrides: [finetune=sst2, finetune.train=train.tsv, finetune.validation=dev.tsv, finetune.steps=20]
needs: {finetune.train: train.tsv of SST-2, finetune.validation: dev.tsv of SST-2}
arms: {pretrained: [], none: [finetune.from_scratch=true]}
sizes: {tiny: [training.steps=8], small: [training.steps=9], paper: [training.steps=10]}
held_equal: [parameters, flops, tokens, steps]
measures: {sst2: finetuned.accuracy, loss: validation_loss}
claims:
  - {claim: Pretraining helps., rising: [none, pretrained]}
  - {claim: Without it a model is above chance., rising: [0.5, none]}
"""


def leave_tuned(run: Run) -> None:
    """Leaves the files of a fine-tuning of ten examples: nine right answers after a pretraining, else five."""
    if any(step.name == "weights" for step in run.stages):
        leave_weights(run)
    folder = next(step.folder for step in run.stages if step.name == "finetuned")
    (seed,), right = run.config.finetune.seeds, 5 if run.config.finetune.from_scratch else 9
    assert seed == run.config.training.seed
    (folder / f"seed_{seed}").mkdir(parents=True)
    labels = ["positive", "negative"] * 5
    rows = [{"id": str(n), "label": one, "prediction": one if n < right else ""} for n, one in enumerate(labels)]
    (folder / f"seed_{seed}/predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / f"seed_{seed}/metrics.jsonl").write_text('{"step": 20, "tokens_seen": 500, "tokens_per_second": 50}\n')
    scores = {"accuracy": {"mean": right / 10, "half_width": None, "values": [right / 10]}}
    (folder / "scores.json").write_text(json.dumps({"scores": scores, "seeds": [{"seed": seed}]}))
    finished(folder)
    save(run.config, run.values, run.stages, run.overrides)


def test_pretrainings_are_judged_by_a_fine_tuning(corpus, started, monkeypatch, tmp_path, capsys):
    (corpus.folder / "own/study/planted.yaml").write_text(TUNED)
    monkeypatch.setattr(arms, "carry_out", leave_tuned)
    root = f"root={tmp_path}/runs"
    carried(corpus, root, seeds=2, starts=False)
    printed = capsys.readouterr().out
    assert "\nyours to give     finetune.train=…, train.tsv of SST-2; finetune.validation=…, dev.tsv" in printed
    assert "; finetune.seeds: the first weights of the head, the order of examples\n" in printed
    with pytest.raises(ConfigError) as error:
        carried(corpus, root)
    assert str(error.value) == (
        "planted: has no finetune.train, finetune.validation; "
        "give finetune.train=… (train.tsv of SST-2) finetune.validation=… (dev.tsv of SST-2)"
    )
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(f"sentence\tlabel\ngood {name}\t1\nbad {name}\t0\n")
    files = [f"finetune.train={tmp_path}/train.tsv", f"finetune.validation={tmp_path}/dev.tsv"]
    carried(corpus, root, *files, seeds=2, json_file=tmp_path / "study.json")
    values = json.loads((tmp_path / "study.json").read_text())
    assert [one["verdict"] for one in values["decisions"]] == ["confirmed", "at chance"]
    (step,) = values["decisions"][0]["steps"]
    assert (step["difference"], step["over_seeds"]) == (pytest.approx(0.4), [pytest.approx(0.4)] * 2)
    low, high = step["over_items"]
    assert 0 < low < 0.4 < high < 1
    seconds = {"pretrained": 50.0, "none": 10.0}  # 4,000 tokens at 100 a second, and 500 at 50
    assert all(run["seconds"] == seconds[run["arm"]] for run in values["runs"])
    assert [set(run["values"]) for run in values["runs"][:2]] == [{"sst2", "loss"}, {"sst2"}]
    assert values["arms"][1] | {"tokens": 0, "flops": 0, "steps": 0} == values["arms"][1]


def test_one_seed_decides_nothing(corpus, started, capsys):
    started += ["", ""]  # so that nothing is interrupted
    with pytest.raises(TaskError):
        carried(corpus, seeds=1)
    printed = capsys.readouterr().out
    assert "With one seed there is no interval over seeds, so no claim is decided: give --seeds 3." in printed
    assert "| confirmed |" not in printed
    assert "| undecided |" in printed


def test_studies_are_listed(started):
    assert "| planted | Planted rates | slow, fast, broken |" in headrace_here("study").stdout.splitlines()


def test_unknown_names_are_refused(started):
    with pytest.raises(ConfigError) as error:
        carry_out_study("planed", [], "3", "tiny", None, None, starts=True)
    assert str(error.value) == "study: unknown study 'planed'; did you mean 'planted'?"
    with pytest.raises(ConfigError) as error:
        carry_out_study("planted", [], "3", "tny", None, None, starts=True)
    assert str(error.value) == "--size: unknown size 'tny'; did you mean 'tiny'?"
    with pytest.raises(ConfigError) as error:
        carry_out_study("planted", [], "0", "tiny", None, None, starts=True)
    assert str(error.value) == "--seeds: must be at least 1 (got '0'); correct the value"


def test_an_override_does_not_replace_what_an_arm_is(corpus, started):
    with pytest.raises(ConfigError) as error:
        carried(corpus, "optimizer.learning_rate=1e-3")
    wrong = "is what makes the arms slow, fast, broken, and optimizer.learning_rate=1e-3 would replace it in all arms"
    remedy = "leave it out, or change one arm: --arm slow:optimizer.learning_rate=1e-3"
    assert str(error.value) == f"optimizer.learning_rate: {wrong}; {remedy}"
    assert started == []
