"""A classifier has the same bytes wherever it is trained, its file is refused when damaged, and its scores add up."""

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from headrace.data_prep.classifiers.counted_ngrams import ONE, NgramSettings, features
from headrace.data_prep.classifiers.distinctive_ngrams import distinctive
from headrace.data_prep.classifiers.judgement import auc
from headrace.data_prep.classifiers.linear_classifier import HEAD, LinearClassifier, load, parsed
from headrace.data_prep.classifiers.linear_training import CountedSample, LabelledText, LinearTraining, divided, trained
from headrace.data_prep.classifiers.probability import SCALE, Logistic
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.text_files import read_lines
from tests.data_prep.small_classifier import MILL, OTHER, TRAINING, examples, small_classifier

THREE = [
    LabelledText(f"{label}:{n}", text, label)
    for n in range(9)
    for label, text in zip("abc", ("mill", "水車", ""), strict=True)
]
OTHERWISE = {
    "OMP_NUM_THREADS": "3", "NUMBA_NUM_THREADS": "2", "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "",
    "PYTHONHASHSEED": "7", "LC_ALL": "C", "TZ": "Asia/Tokyo",
}  # fmt: skip
"""Among other things, kernels are compiled for the oldest processor: without fused products, and narrow registers."""


def test_any_number_of_workers_gives_the_same_bytes():
    assert small_classifier(1).to_bytes() == small_classifier(4).to_bytes()


def test_another_environment_gives_the_same_bytes():
    work = "sys.stdout.buffer.write(small_classifier(3).to_bytes())"
    code = f"import sys; from tests.data_prep.small_classifier import *; {work}"
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")])
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **OTHERWISE, "PYTHONPATH": path},
        cwd=root,
        capture_output=True,
        check=True,
    )
    assert process.stdout == small_classifier().to_bytes()


def test_the_bytes_are_those_of_other_machines():
    """A change of a feature, the training or the file changes them: raise the version of the file then."""
    content = small_classifier().to_bytes()
    assert hashlib.sha256(content).hexdigest()[:16] == "ee03a37f6fa1146f"


def test_scores_are_those_of_plain_numpy():
    model = small_classifier()
    for text in (*MILL, *OTHER, "", "Мельница"):
        buckets, values = features(text, model.ngrams)
        margin = ((values / ONE) @ model.weights[buckets, 0] + model.weights[-1, 0]) / SCALE
        [logistic] = model.logistics
        chance = 1 / (1 + np.exp(-(logistic.steepness * margin + logistic.offset) / SCALE))
        assert model.scores(text) == pytest.approx({"mill": 1 - chance, "other": chance}, abs=2e-4)
    assert model.scores(MILL[0])["mill"] > 0.6 > 0.4 > model.scores(OTHER[0])["mill"]


def test_several_classes_sum_to_one():
    model = trained(CountedSample.of(THREE, TRAINING.ngrams, 2), TRAINING, 2)
    assert model.classes == ("a", "b", "c")
    assert model.weights.shape == (4097, 3)
    for text, label in (("mill", "a"), ("水車", "b"), ("", "c")):
        scores = model.scores(text)
        assert sum(scores.values()) == pytest.approx(1)
        assert max(scores, key=scores.__getitem__) == label


def test_no_probability_at_all_is_shared_equally():
    flat = Logistic(1000 * SCALE, -1000 * SCALE)
    model = LinearClassifier(("a", "b", "c"), TRAINING.ngrams, np.zeros((4097, 3), np.int32), (flat,) * 3, {})
    assert list(model.scores("mill").values()) == [1 / 3] * 3


def test_a_file_is_read_as_it_was_written(tmp_path):
    model = small_classifier()
    (tmp_path / "model").write_bytes(model.to_bytes())
    read = load(str(tmp_path / "model"))
    assert read.to_bytes() == model.to_bytes()
    assert (read.classes, read.ngrams, read.logistics) == (model.classes, model.ngrams, model.logistics)
    assert dict(read.about["texts"]) == {"mill": 24, "other": 24}


def resealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def damaged() -> dict[str, tuple[bytes, str]]:
    content = small_classifier().to_bytes()
    body = content[:-32]
    return {
        "empty": (b"", "is no linear classifier (it begins with b'')"),
        "foreign": (b"\x93NUMPY" + content, "is no linear classifier (it begins with b'\\x93NUMPYheadrace linea')"),
        "later": (
            content.replace(b"classifier 1", b"classifier 2", 1),
            "is of another version ('headrace linear classifier 2')",
        ),
        "cut": (content[:-1], "is damaged (its checksum differs)"),
        "flipped": (body[:-1] + bytes([body[-1] ^ 1]) + content[-32:], "is damaged (its checksum differs)"),
        "short": (resealed(body[:-4]), "has values that do not fit (cannot reshape"),
        "odd": (resealed(body[:-1]), "has values that do not fit (buffer size"),
        "no_json": (resealed(HEAD + b"{"), "has values that do not fit (Expecting property name"),
        "no_keys": (resealed(HEAD + b"{}\n"), "has values that do not fit (classes: "),
        "nested": (resealed(HEAD + b"[" * 100_000), "has values that do not fit (maximum recursion depth"),
        "infinite": (
            resealed(re.sub(rb'"buckets": [0-9]+', b'"buckets": Infinity', body)),
            "has values that do not fit (buckets: ",
        ),
        "number": (
            resealed(body.replace(b'["mill", "other"]', b'["mill", 7]', 1)),
            "has values that do not fit (classes.1: ",
        ),
        "steep": (
            resealed(re.sub(rb'"steepness": [0-9]+', b'"steepness": ' + b"9" * 400, body)),
            "has values that do not fit (logistics.0.steepness: ",
        ),
        "falling": (
            resealed(re.sub(rb'"steepness": ', b'"steepness": -', body)),
            "has values that do not fit (logistics.0.steepness: ",
        ),
        "unsorted": (
            resealed(body.replace(b'["mill", "other"]', b'["other", "mill"]', 1)),
            "has values that do not fit (classes other, mill, or about",
        ),
        "same": (
            resealed(body.replace(b'["mill", "other"]', b'["mill", "mill"]', 1)),
            "has values that do not fit (classes mill, mill, or about",
        ),
        "buckets": (
            resealed(body.replace(b'"bucket_bits": 12', b'"bucket_bits": 10')),
            "has values that do not fit (buckets",
        ),
        "classes": (
            resealed(body.replace(b'["mill", "other"]', b'["mill"]', 1)),
            "has values that do not fit (classes mill, or about",
        ),
    }


@pytest.mark.parametrize("kind", damaged())
def test_a_damaged_or_foreign_file_is_refused(kind):
    content, message = damaged()[kind]
    with pytest.raises(ArtifactError) as caught:
        parsed(content, "x.model")
    assert str(caught.value).startswith(f"x.model: {message}")
    assert str(caught.value).endswith(("train-classifier wrote", "train it again"))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match=r"cannot be read \(No such file or directory\); give a file that headrace"):
        load(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("labelled", "message"),
    [
        ([], "classifier.examples: 0 texts to train on are of the classes []; give texts of two classes or more"),
        ([LabelledText("a:0", "mill", "a")], "classifier.examples: 1 texts to train on are of the classes ['a']"),
        (
            [LabelledText(f"a:{n}", "mill", "a") for n in range(9)],
            "classifier.examples: 9 texts to train on are of the classes ['a']",
        ),
    ],
)
def test_one_class_is_refused(labelled, message):
    with pytest.raises(ConfigError) as caught:
        trained(CountedSample.of(labelled, TRAINING.ngrams, 1), TRAINING, 1)
    assert str(caught.value).startswith(message)


def test_two_texts_are_enough():
    model = trained(
        CountedSample.of([LabelledText("a:0", "mill", "a"), LabelledText("a:1", "", "b")], TRAINING.ngrams, 1),
        TRAINING,
        1,
    )
    assert model.logistics == (Logistic(),)
    assert model.scores("mill")["a"] > 0.5 > model.scores("")["a"]


def test_the_id_decides_the_part():
    sample = CountedSample.of(examples() * 20, TRAINING.ngrams, 1)
    own, held = divided(sample, dataclasses.replace(TRAINING, held_out=0.25))
    assert {*own.identities}.isdisjoint(held.identities)
    assert len(own.identities) + len(held.identities) == 960
    backwards, _ = divided(
        CountedSample.of(examples()[::-1], TRAINING.ngrams, 1), dataclasses.replace(TRAINING, held_out=0.25)
    )
    assert {*backwards.identities} == {*own.identities}
    assert divided(sample, dataclasses.replace(TRAINING, held_out=0.0))[1].identities == ()


def test_parts_have_their_shares():
    many = CountedSample.of([LabelledText(f"a:{n}", "", "a") for n in range(5000)], TRAINING.ngrams, 1)
    assert len(divided(many, TRAINING)[1].identities) == pytest.approx(1000, abs=120)


def test_distinctive_ngrams_are_those_of_the_definition():
    """The distance of mean margins is the sum over buckets; the named n-grams are in the texts of the class."""
    sample = CountedSample.of(examples(), TRAINING.ngrams, 1)
    model = trained(sample, TRAINING, 1)
    best = distinctive(model, sample.documents, sample.labels, (example.text for example in examples()))
    assert best["mill"][0].ngram in ("mill", "the", "wheel", "river")
    assert "mill" in [entry.ngram for entry in best["mill"]]
    assert not {entry.ngram for entry in best["mill"]} & {entry.ngram for entry in best["other"]}
    is_mill = np.array([label == "mill" for label in sample.labels])
    [entry] = [entry for entry in best["mill"] if entry.ngram == "mill"]
    [bucket] = features("mill", NgramSettings(words=1, bucket_bits=12))[0]
    values = (
        np.array(
            [
                dict(zip(*map(np.ndarray.tolist, sample.documents.row(row)), strict=True)).get(bucket, 0)
                for row in range(48)
            ]
        )
        / ONE
    )
    assert entry.weight == -model.weights[bucket, 0] / SCALE
    assert entry.distance == pytest.approx(entry.weight * (values[is_mill].mean() - values[~is_mill].mean()))
    assert entry.texts == 24


def test_a_wrong_share_is_refused():
    with pytest.raises(ConfigError, match="held_out"):
        decode(LinearTraining, {"held_out": 1.5})


def test_real_pages_are_told_apart(data_folder):
    """DCLM's pages with a keep/drop label: seeds of the split give areas from 0.84 to 0.91."""
    rows = [json.loads(line) for line in read_lines(data_folder("web/dclm_keep_drop_labels.jsonl.zst"))]
    texts = (LabelledText(f"a:{number}", row["text"], str(row["label"])) for number, row in enumerate(rows))
    training = LinearTraining(held_out=0.3)
    own, held = divided(CountedSample.of(texts, training.ngrams, 2), training)
    model = trained(own, training, 2)
    probabilities = model.probabilities(model.margins(held.documents))
    area = auc(probabilities[:, 1], np.array([label == "1" for label in held.labels]))
    assert 0.84 < area.value < 0.86
    assert area.low > 0.75
    assert model.about["has_converged"]
