"""``headrace mixtures``: its trainings, how it goes on, and what it refuses.

The trainings of the quick tests only write the files that a real one leaves; the last test has real ones.
"""

import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.signals import Stop
from headrace.pipeline.ladder import law
from headrace.pipeline.ladder.mixture_results import search
from headrace.pipeline.ladder.proxies import shares_of
from headrace.pipeline.run.costs import mixture_facts
from headrace.pipeline.run.planner import save
from headrace.pipeline.series import trainings
from tests.command_line import headrace_here
from tests.finished import finished
from tests.pipeline.ladder.test_mixing_law import NOISE
from tests.small_runs import TRAINING, Corpus, build, trained


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("mixtures"), "none")


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    monkeypatch.setattr(law, "RESAMPLES", 40)


def settings(corpus: Corpus, *more: str) -> list[str]:
    """The settings of a mixture of the corpus' rows and of rows of another run, which happen to be the same."""
    sources = f"[{{name: web, weight: 4}}, {{name: wiki, weight: 1, packed: {corpus.artifact('packed').folder}}}]"
    own = [one for one in TRAINING if not one.startswith("training.save_every")]
    return [*corpus.overrides, *own, "training.save_every=100", "training.steps=2", f"mixture.sources={sources}", *more]


def test_a_plan_has_the_epochs_of_sources_whose_rows_are_packed(corpus):
    """A fifth of 10,000 positions is read of the second source."""
    config = decoded(compose(settings(corpus)))
    rows = corpus.artifact("packed").counts["train_rows"] * config.packing.row_tokens
    own, wiki = (text for name, text in mixture_facts(config, 10_000) if name == "epochs")
    assert own == "web: not known before the rows of this run are packed"
    assert wiki == f"wiki: {2_000 / rows:.3g}: 2,000 positions are read of {rows:,}"


@pytest.fixture
def started(monkeypatch) -> list[str]:
    """Names of the runs that are carried out; the third is interrupted, m-mixture-4 fails.

    Each source is learned from its own text, with the noise of small trainings.
    """
    names: list[str] = []

    def carry_out(run):
        names.append(run.config.name)
        if len(names) == 3:
            raise Stop(signal.SIGINT)
        if run.config.name == "m-mixture-4":
            raise TaskError("weights", "the gradient's norm is nan", "lower the learning rate")
        (step,) = (step for step in run.stages if step.name == "weights")
        shares = shares_of([source.weight for source in run.config.mixture.sources])
        noise = np.random.default_rng(len(names)).normal(0, NOISE / 10, 2)
        web, wiki = (2 + np.exp(1 - shares) + noise).tolist()
        step.folder.mkdir(parents=True)
        row = {"step": 2, "validation_loss": web, "source_loss:web": web, "source_loss:wiki": wiki}
        row |= {"epoch:web": 0.5, "epoch:wiki": 4.5}
        (step.folder / "metrics.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({"step": 2}) + "\n")
        finished(step.folder)
        save(run.config, run.values, run.stages, run.overrides)

    monkeypatch.setattr(trainings, "carry_out", carry_out)
    return names


@pytest.mark.slow
def test_a_search_goes_on_and_proposes_a_mixture(corpus, started, tmp_path, capsys):
    line = settings(corpus, "name=m")
    search(line, "4", "", None, None, starts=False)
    assert started == []
    shown = capsys.readouterr().out
    assert len(re.findall(r"\| not started \|", shown)) == 4
    assert "No proposal yet: the law needs 4 different mixtures with losses, and there are 0." in shown
    with pytest.raises(Stop):
        search(line, "6", "", None, None, starts=True)
    page, file = tmp_path / "page.html", tmp_path / "mixtures.json"
    with pytest.raises(TaskError, match=r"weights: the gradient's norm is nan; lower the learning rate"):
        search(line, "6", "web=1,wiki=1", page, file, starts=True)
    assert started == [f"m-mixture-{n}" for n in (0, 1, 2, 2, 3, 4, 5)]
    shown = capsys.readouterr().out
    assert "1 of 6 trainings have no result yet; the same command goes on." in shown
    assert "A source was read 4.5 times." in shown
    values = json.loads(file.read_text())
    assert values["target"] == {"web": 0.5, "wiki": 0.5}
    assert values["trainings"][0]["shares"] == {"web": 0.8, "wiki": 0.2}
    assert values["trainings"][1]["shares"] == {"web": 0.5, "wiki": 0.5}, "both have the same rows"
    proposal = values["proposal"]
    assert proposal["is_better"]
    assert proposal["shares"]["web"] == pytest.approx(0.5, abs=0.05)
    assert proposal["intervals"]["web"][0] <= 0.5 <= proposal["intervals"]["web"][1]
    assert sum(proposal["weights"].values()) == 1000
    weights = " ".join(f"mixture.sources.{n}.weight={w}" for n, w in enumerate(proposal["weights"].values()))
    text = page.read_text()
    assert weights in text
    assert weights in " ".join(shown.split())
    assert re.findall(r'id="figure-([\w-]+)"', text) == ["weights", "left-out"]
    assert "the proposed mixture is better than the given one, at this size and length of training" in text


REFUSED = {
    "--runs: is 3, and the law of 2 sources, with 3 coefficients, needs 4 trainings; give 4 or more": ("3", "", []),
    "--target: 'wik' is no source; did you mean 'wiki'?": ("8", "wik=1", []),
    "--target: 'wiki=0' has no weight above 0; give one to a source: NAME=WEIGHT": ("8", "wiki=0", []),
    "mixture.sources: names 0 sources, and shares of two or more are compared; name the sources": (
        "8", "", ["mixture.sources=[]"]
    ),
    "mixture.curriculum: changes weights that the trainings compare; leave it out": (
        "8", "", ["mixture.curriculum=[{from_tokens: 9, weights: {web: 1, wiki: 1}}]"]
    ),
    "mixture.exponent: is 0.7, and the trainings compare weights alone; leave it out": (
        "8", "", ["mixture.exponent=0.7"]
    ),
    "training.validation_rows: is 0, and a search compares validation losses; give a value above 0": (
        "8", "", ["training.validation_rows=0"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", REFUSED)
def test_what_is_no_search_is_refused_before_anything_is_trained(corpus, started, wrong):
    number, target, more = REFUSED[wrong]
    with pytest.raises(ConfigError) as error:
        search(settings(corpus, *more), number, target, None, None, starts=True)
    assert (str(error.value), started) == (wrong, [])


def test_a_source_without_held_out_rows_is_refused(corpus):
    folder = Path(corpus.artifact("packed").folder)
    manifest = read_sealed(folder / "manifest.json")
    manifest["counts"]["validation_rows"] = 0
    other = corpus.folder / "other" / "packed" / folder.name
    other.mkdir(parents=True)
    write_sealed(other / "manifest.json", manifest)
    for stage in ("tokens", "tokenizer"):
        (corpus.folder / "other" / stage).symlink_to(folder.parents[1] / stage)
    with pytest.raises(ConfigError) as error:
        search(settings(corpus, f"mixture.sources.1.packed={other}"), "8", "", None, None, starts=True)
    assert str(error.value) == (
        "mixture.sources: the source 'wiki' has no held-out rows; "
        "make its run with a larger packing.validation_fraction"
    )


@pytest.mark.slow
def test_real_trainings_of_equal_sources_show_no_better_mixture(tmp_path, monkeypatch):
    """Both sources have the same rows, so no mixture can be better. The models are trained in this process."""
    monkeypatch.setattr(trainings, "carry_out", trained)
    line = settings(build(tmp_path, "none"))
    file = tmp_path / "mixtures.json"
    done = headrace_here("mixtures", "--runs=4", f"--json={file}", *line)
    assert done.returncode == 0, done.stderr
    assert "no mixture is shown to be better than the given one" in done.stdout
    values = json.loads(file.read_text())
    assert [one["state"] for one in values["trainings"]] == ["done"] * 4
    assert all(one["losses"]["web"] == one["losses"]["wiki"] for one in values["trainings"])
