"""A file of weights gives the same scores for ever, is refused when damaged, and its probabilities add up."""

import hashlib
import re

import numpy as np
import pytest

from headrace.data_prep.classifiers.counted_ngrams import ONE, NgramSettings, features
from headrace.data_prep.classifiers.linear_classifier import (
    CERTAIN,
    HEAD,
    SCALE,
    LinearClassifier,
    Logistic,
    load,
    parsed,
)
from headrace.pipeline.core.errors import ArtifactError
from tests.data_prep.small_classifier import MILL, OTHER, TRAINING, small_classifier

TWO = ((90_000, -20_000),)
THREE = (*TWO, (40_000, 10_000), (200_000, -150_000))
CHARACTERS = NgramSettings(words=1, characters=(2, 3), bucket_bits=11, fold=False)


@pytest.mark.parametrize(
    ("classes", "ngrams", "logistics", "digest", "scores"),
    [
        (
            ("hq", "other"), NgramSettings(bucket_bits=10), TWO, "202b832f2d6c0707",
            {
                "The mill turns, the river runs.": (0.5632660128176212, 0.43673398718237877),
                "水車小屋は川のそばにある。 Мельница": (0.6119887344539165, 0.38801126554608345),
                "": (0.4511110791936517, 0.5488889208063483),
            },
        ),
        (
            ("a", "b", "c"), CHARACTERS, THREE, "9a2e3eef4b2039ec",
            {
                "The mill turns, the river runs.": (0.31722274606390505, 0.44462683584231744, 0.23815041809377754),
                "水車小屋は川のそばにある。 Мельница": (0.09133907126840048, 0.848192736721054, 0.060468192010545506),
                "": (0.24300382103857324, 0.6259730118343337, 0.13102316712709303),
            },
        ),
    ],
)  # fmt: skip
def test_the_bytes_and_scores_of_given_weights_stay(classes, ngrams, logistics, digest, scores):
    """Scores by the code of November 2026. A change needs another version of the file, and one of the filter."""
    rows, columns = (1 << ngrams.bucket_bits) + 1, len(logistics)
    weights = (np.arange(rows * columns) * 2654435761 % 400_001 - 200_000).astype(np.int32).reshape(rows, columns)
    weights[::3] = 0
    own = tuple(Logistic(*values) for values in logistics)
    content = LinearClassifier(classes, ngrams, weights, own, {"texts": {"a": 1}}).to_bytes()
    assert hashlib.sha256(content).hexdigest()[:16] == digest
    for text, expected in scores.items():
        assert tuple(parsed(content, "x").scores(text).values()) == expected


@pytest.mark.parametrize("logistic", [Logistic(), Logistic(4 * SCALE, -SCALE), Logistic(SCALE // 3, 2 * SCALE)])
def test_probabilities_are_those_of_the_function(logistic):
    margins = np.linspace(-7.99, 7.99, 4001)
    expected = 1 / (1 + np.exp(-(logistic.steepness * margins + logistic.offset) / SCALE))
    got = logistic.of((margins * 2.0**31).astype(np.int64))
    np.testing.assert_allclose(got / CERTAIN, expected, atol=5e-5)  # lines between steps of 1/64
    assert np.all(np.diff(got) >= 0)
    low, high = logistic.of(np.array([-(2**62), 2**62]))
    assert (low, CERTAIN >= high >= logistic.table[-2]) == (logistic.table[0], True)


def test_scores_are_those_of_plain_numpy():
    model = small_classifier()
    for text in (*MILL, *OTHER, "", "Мельница"):
        buckets, values = features(text, model.ngrams)
        margin = ((values / ONE) @ model.weights[buckets, 0] + model.weights[-1, 0]) / SCALE
        [logistic] = model.logistics
        chance = 1 / (1 + np.exp(-(logistic.steepness * margin + logistic.offset) / SCALE))
        assert model.scores(text) == pytest.approx({"mill": 1 - chance, "other": chance}, abs=2e-4)
    assert model.scores(MILL[0])["mill"] > 0.6 > 0.4 > model.scores(OTHER[0])["mill"]


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
