"""A training has the same bytes with any number of workers and threads, its weights are those of the least objective,
and its probabilities those of the likeliest logistic function."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from headrace.data_prep.classifiers.counted_ngrams import ONE, NgramSettings, features
from headrace.data_prep.classifiers.linear_classifier import SCALE, Logistic
from headrace.data_prep.classifiers.linear_training import (
    CountedSample,
    LabelledText,
    LinearTraining,
    _likeliest,
    distinctive,
    divided,
    judgement_of,
    trained,
)
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.text_files import read_lines
from tests.data_prep.small_classifier import TRAINING, examples, small_classifier

OTHERWISE = {"OMP_NUM_THREADS": "3", "NUMBA_NUM_THREADS": "2", "PYTHONHASHSEED": "7", "LC_ALL": "C"}


def counted(*labelled: tuple[str, str]) -> CountedSample:
    texts = [LabelledText(f"a:{n}", text, label) for n, (label, text) in enumerate(labelled)]
    return CountedSample.of(texts, TRAINING.ngrams, 1)


@pytest.mark.slow
def test_workers_and_the_environment_change_no_byte():
    code = "import sys; from tests.data_prep.small_classifier import *; write_classifier(Path(sys.argv[1]))"
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", code, "/dev/stdout"]
    env = {**os.environ, **OTHERWISE, "PYTHONPATH": path}
    process = subprocess.run(command, env=env, cwd=root, capture_output=True, check=True)
    assert process.stdout == small_classifier(1).to_bytes() == small_classifier(4).to_bytes()


@pytest.mark.parametrize("cost", [0.1, 1.0, 16.0])
def test_the_weights_are_those_of_the_least_objective(cost):
    sample = counted(*[(own.label, own.text) for own in examples()], *[("mill", "home mill")] * 5)
    model = trained(sample, dataclasses.replace(TRAINING, cost=cost))
    dense = np.append(sample.features.toarray() / ONE, np.ones((53, 1)), axis=1)
    signs = np.where(sample.is_of("other"), 1, -1)

    def objective(weights):
        slack = np.maximum(0, 1 - signs * (dense @ weights))
        return weights @ weights / 2 + cost * (slack @ slack), weights - 2 * cost * dense.T @ (signs * slack)

    least = minimize(objective, np.zeros(4097), jac=True, method="L-BFGS-B", tol=1e-12).x
    assert np.abs(model.weights[:, 0] / SCALE - least).max() < 0.02 * np.abs(least).max()
    assert model.about["has_converged"]


@pytest.mark.parametrize(("steepness", "offset"), [(1.0, 0.0), (4.0, -1.0), (0.5, 2.0)])
def test_the_logistic_function_is_the_likeliest_one(steepness, offset):
    generator = np.random.default_rng(1)
    margins = generator.normal(0, 1, 600)
    is_own = generator.random(600) < 1 / (1 + np.exp(-(steepness * margins + offset)))
    own = _likeliest(margins, is_own)
    n = is_own.sum()
    targets = np.where(is_own, (n + 1) / (n + 2), 1 / (600 - n + 2))
    best = minimize(lambda x: np.sum(np.logaddexp(0, z := x[0] * margins + x[1]) - targets * z), [0, 0], tol=1e-12).x
    assert (own.steepness / SCALE, own.offset / SCALE) == pytest.approx(tuple(best), abs=1e-4)
    assert tuple(best) == pytest.approx((steepness, offset), abs=0.6)


@pytest.mark.parametrize(
    ("margins", "is_own", "expected"),
    [
        ([], [], None),
        ([-1, 1], [True, True], None),
        ([-1, 1], [True, False], None),
        ([np.nan, 1], [False, True], None),
        ([-1, 1] * 5, [False, True] * 5, (1 / 7, 6 / 7)),
    ],
)
def test_little_evidence_gives_no_certainty(margins, is_own, expected):
    logistic = _likeliest(np.array(margins, float), np.array(is_own, bool))
    assert (logistic == Logistic()) == (expected is None)
    if expected:
        assert logistic.of(np.array([-(2**31), 2**31])) / 2**30 == pytest.approx(expected, abs=1e-3)


def test_several_classes_sum_to_one():
    texts = (("a", "mill"), ("b", "水車"), ("c", ""))
    model = trained(counted(*texts * 9), TRAINING)
    assert (model.classes, model.weights.shape) == (("a", "b", "c"), (4097, 3))
    for label, text in texts:
        scores = model.scores(text)
        assert sum(scores.values()) == pytest.approx(1)
        assert max(scores, key=scores.__getitem__) == label


def test_a_class_of_one_text_is_trained():
    model = trained(counted(*[("a", "mill"), ("b", "river")] * 5, ("rare", "home")), TRAINING)
    scores = model.scores("home")
    assert max(scores, key=scores.__getitem__) == "rare"
    two = trained(counted(("a", "mill"), ("b", "")), TRAINING)
    assert two.logistics == (Logistic(),)
    assert two.scores("mill")["a"] > 0.5 > two.scores("")["a"]


@pytest.mark.parametrize("labels", [[], ["a"], ["a"] * 9])
def test_one_class_is_refused(labels):
    message = (
        rf"classifier\.examples: {len(labels)} texts to train on are of the classes \[.*; give texts of two classes"
    )
    with pytest.raises(ConfigError, match=message):
        trained(counted(*((label, "mill") for label in labels)), TRAINING)


def test_without_scikit_learn_nothing_is_trained(monkeypatch):
    monkeypatch.setattr("headrace.pipeline.core.extras.is_installed", lambda module: False)
    with pytest.raises(ConfigError, match=r"sklearn is not installed; pip install 'headrace\[classifier-training\]'"):
        small_classifier()


def test_a_training_that_does_not_converge_says_so(monkeypatch):
    monkeypatch.setattr("headrace.data_prep.classifiers.linear_training.MOST_EPOCHS", 1)
    assert not small_classifier().about["has_converged"]


def test_the_id_decides_the_part():
    quarter = dataclasses.replace(TRAINING, held_out=0.25)
    sample = CountedSample.of(examples() * 20, TRAINING.ngrams, 1)
    own, held = divided(sample, quarter)
    assert {*own.identities}.isdisjoint(held.identities)
    assert len(own.identities) + len(held.identities) == 960
    backwards, _ = divided(CountedSample.of(examples()[::-1], TRAINING.ngrams, 1), quarter)
    assert {*backwards.identities} == {*own.identities}
    assert divided(sample, dataclasses.replace(TRAINING, held_out=0.0))[1].identities == ()
    many = counted(*[("a", "")] * 5000)
    assert len(divided(many, TRAINING)[1].identities) == pytest.approx(1000, abs=120)


def test_a_sample_is_read_as_it_was_saved(tmp_path):
    parts = [counted(("a", "the mill"), ("b", "")), counted(), counted(("ü", "river river"))]
    for number, part in enumerate(parts):
        part.save(tmp_path / str(number))
    read = CountedSample.read(tmp_path / str(number) for number in range(3))
    whole = counted(("a", "the mill"), ("b", ""), ("ü", "river river"))
    assert (read.identities, read.labels) == (("a:0", "a:1", "a:0"), whole.labels)
    np.testing.assert_array_equal(read.features.toarray(), whole.features.toarray())
    assert (read.features.dtype, read.features.indices.dtype) == (np.uint16, np.int32)


def test_distinctive_ngrams_are_those_of_the_definition():
    """The distance of mean margins is the sum over buckets; the named n-grams are in the texts of the class."""
    sample = CountedSample.of(examples(), TRAINING.ngrams, 1)
    model = trained(sample, TRAINING)
    best = distinctive(model, sample, (example.text for example in examples()))
    distances = {name: {entry["ngram"]: entry["distance"] for entry in own} for name, own in best.items()}
    assert not distances["mill"].keys() & distances["other"].keys()
    assert list(distances["mill"].values()) == sorted(distances["mill"].values(), reverse=True)
    [bucket] = features("mill", NgramSettings(words=1, bucket_bits=12))[0]
    values, is_mill = (sample.features.toarray() / ONE)[:, bucket], sample.is_of("mill")
    difference = values[is_mill].mean() - values[~is_mill].mean()
    assert distances["mill"]["mill"] == pytest.approx(-model.weights[bucket, 0] / SCALE * difference)


def test_real_pages_are_told_apart(data_folder):
    """DCLM's pages with a keep/drop label: seeds of the split give areas from 0.84 to 0.91."""
    rows = [json.loads(line) for line in read_lines(data_folder("web/dclm_keep_drop_labels.jsonl.zst"))]
    texts = (LabelledText(f"a:{number}", row["text"], str(row["label"])) for number, row in enumerate(rows))
    training = LinearTraining(held_out=0.3)
    own, held = divided(CountedSample.of(texts, training.ngrams, 2), training)
    model = trained(own, training)
    area = judgement_of(model, held).classes[1].auc
    assert 0.84 < area.value < 0.86
    assert area.low > 0.75
    assert model.about["has_converged"]
