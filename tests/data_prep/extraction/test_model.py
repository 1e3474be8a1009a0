"""The model and the choice: what they decide, that it is the same everywhere, and files that are no model."""

import hashlib
import itertools
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

from benchmarks.data.extractor_training import logistic
from headrace.data_prep.extraction.features import FEATURE_NAMES, FEATURES
from headrace.data_prep.extraction.model import (
    CERTAIN,
    DEFAULT,
    FEATURE,
    LEFT,
    SCALE,
    SCORE,
    SLOPE,
    THRESHOLD,
    choice,
    explained,
    feature_rows,
    judged,
    load,
    probabilities,
    reasons,
)
from headrace.data_prep.extraction.page import HtmlPage, read_page
from headrace.pipeline.core.errors import ConfigError
from tests.data_prep.extraction.labelled import labelled_page

GOLDEN = "8ed653fdb3eaf649e2bbcb715f484b351abc22175eb3209db950cfa7cb94fe4c"
"""``digest()`` with the model of the project."""


def page(number: int) -> HtmlPage:
    read = read_page(labelled_page(number)["html"])
    assert isinstance(read, HtmlPage)
    return read


def digest() -> str:
    """Returns a hash of what the model sees and decides on 40 pages."""
    model, found = load(), hashlib.sha256()
    for number in range(40):
        found.update(feature_rows(page(number), (model.hashes, model.scores)).tobytes())
        probability, keep = judged(page(number), model)
        found.update(probability.tobytes() + keep.tobytes())
    return found.hexdigest()


def test_golden():
    assert (digest(), len(set(FEATURE_NAMES))) == (GOLDEN, FEATURES)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"NUMBA_DISABLE_JIT": "1"}, {"NUMBA_OPT": "0"}, {"NUMBA_CPU_NAME": "generic"}])
def test_the_same_on_every_machine(options, tmp_path):
    """Python itself, and other code for other processors, decide the same."""
    program = "from tests.data_prep.extraction.test_model import digest; print(digest())"
    environment = os.environ | options | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == GOLDEN


def by_hand(row, model) -> int:
    total = 0
    for root in model.roots:
        node = root
        while model.nodes[node, LEFT] != node:
            node = model.nodes[node, LEFT] + int(row[model.nodes[node, FEATURE]] > model.nodes[node, THRESHOLD])
        total += int(model.nodes[node, SCORE])
    step = max(min(total * SLOPE // SCALE, 8 * SLOPE), -8 * SLOPE)
    return int(logistic()[step + 8 * SLOPE])


def test_probabilities():
    model = load()
    rows = np.concatenate([feature_rows(page(number), (model.hashes, model.scores)) for number in range(3)])[:37]
    found = probabilities(np.asfortranarray(rows), *model.trees, model.table)
    assert found.tolist() == [by_hand(row, model) for row in rows]
    assert np.array_equal(model.table, logistic())


def test_reasons_sum_up_to_the_score():
    model = load()
    (row, *_) = feature_rows(page(1), (model.hashes, model.scores))
    base = sum(int(model.nodes[root, SCORE]) for root in model.roots)
    total = base + int(reasons(row, model.roots, model.nodes).sum())
    assert by_hand(row, model) == logistic()[max(min(total * SLOPE // SCALE, 8 * SLOPE), -8 * SLOPE) + 8 * SLOPE]


def expected_f1(keep, probability, words) -> Fraction:
    right = sum(int(p) * int(w) for k, p, w in zip(keep, probability, words, strict=True) if k)
    whole = sum(int(w) * CERTAIN for k, w in zip(keep, words, strict=True) if k)
    whole += sum(int(p) * int(w) for p, w in zip(probability, words, strict=True))
    return Fraction(2 * right, whole) if whole else Fraction(0)


@given(
    some.integers(1, 7).flatmap(
        lambda n: some.tuples(
            arrays.arrays(np.int64, n, elements=some.integers(1, CERTAIN)),
            arrays.arrays(np.int64, n, elements=some.integers(0, 50)),
        )
    )
)
def test_no_other_choice_has_a_higher_expected_f1(case):
    probability, words = case
    keep = choice(probability, words)
    best = max(expected_f1(some_kept, probability, words) for some_kept in itertools.product((0, 1), repeat=len(words)))
    assert expected_f1(keep, probability, words) == best


def test_choice_of_large_numbers():
    probability, words = np.array([4000, 3000, 10]), np.array([10**12, 10**12, 10**12])
    assert choice(probability, words).tolist() == [True, True, False]
    assert choice(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []


def test_explanations():
    blocks = explained(page(1), load())
    assert [block.text for block in blocks if block.is_kept] == labelled_page(1)["truth"].split("\n")
    (first, *_) = blocks
    assert (first.path, first.is_kept) == ("nav > ul > li", False)
    assert first.reasons[0][1] < 0 < len(first.reasons)


DAMAGES = {
    "no file": lambda path: path.unlink(),
    "not a file of arrays": lambda path: path.write_bytes(b"x" * 100),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "a leaf that leads on": lambda path: changed(path, "nodes", lambda nodes: set_at(nodes, (-1, LEFT), len(nodes))),
    "another feature": lambda path: changed(path, "nodes", lambda nodes: set_at(nodes, (0, FEATURE), FEATURES)),
    "negative": lambda path: changed(path, "nodes", lambda nodes: set_at(nodes, (0, LEFT), -1)),
    "in a circle": lambda path: changed(path, "nodes", lambda nodes: set_at(nodes, (1, LEFT), 0)),
    "nodes without their leaves": lambda path: changed(path, "nodes", lambda nodes: nodes[:, :4]),
    "nodes in a row": lambda path: changed(path, "nodes", lambda nodes: nodes.ravel()),
    "a root after the last node": lambda path: changed(path, "roots", lambda roots: set_at(roots, -1, roots[-1] * 9)),
    "a root at the end": lambda path: changed(path, "nodes", lambda nodes: nodes[: len(nodes) // 2]),
    "a full lexicon": lambda path: changed(path, "hashes", lambda hashes: np.full_like(hashes, 7)),
    "a cut lexicon": lambda path: changed(path, "hashes", lambda hashes: hashes[:-1]),
}


def set_at(array, place, value):
    array[place] = value
    return array


def changed(path, name, change) -> None:
    with np.load(path) as file:
        known = {name: file[name] for name in file.files}
    known[name] = change(known[name])
    with path.open("wb") as file:
        np.savez_compressed(file, **known)


@pytest.mark.parametrize("damage", DAMAGES)
def test_files_that_are_no_model(tmp_path, damage):
    path = tmp_path / "model.npz"
    path.write_bytes(DEFAULT.read_bytes())
    DAMAGES[damage](path)
    with pytest.raises(ConfigError) as error:
        load(path)
    assert str(error.value).startswith(f"source.extractor_model: cannot read the model '{path}' (")
    assert str(error.value).endswith("); give a file that benchmarks/data/extractor_training.py wrote")
