"""Entities and their scores against the package seqeval, on random tags, right and malformed ones."""

import random
import warnings

import pytest

from headrace_courses.entity_metrics import entities, entity_scores

SCHEMES = {"lenient": "OBIES", "iob2": "OBI", "iobes": "OBIES"}
TYPES = ("PER", "LOC", "x-y")


def sentences(case: int, prefixes: str) -> list[list[str]]:
    chance = random.Random(case)

    def tag() -> str:
        prefix = chance.choice(prefixes + "O")
        if prefix == "O":
            return prefix
        return prefix if case % 7 == 0 and chance.random() < 0.2 else f"{prefix}-{chance.choice(TYPES)}"

    return [[tag() for _ in range(chance.randrange(1, 9))] for _ in range(chance.randrange(1, 6))]


def similar(case: int, truth: list[list[str]], prefixes: str) -> list[list[str]]:
    """Tags of the same lengths, about half of them those of ``truth``."""
    chance, other = random.Random(case), [tag for tags in sentences(case + 1000, prefixes) for tag in tags]
    return [[tag if chance.random() < 0.6 else chance.choice(other) for tag in tags] for tags in truth]


@pytest.mark.parametrize("prefixes", ["OB", "OI", "OBI", "OBIES"])
def test_lenient_entities_and_scores_are_those_of_seqeval(prefixes: str) -> None:
    seqeval = pytest.importorskip("seqeval.metrics")
    from seqeval.metrics.sequence_labeling import get_entities

    counted = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in range(300):
            truth = sentences(case, prefixes)
            predicted = similar(case, truth, prefixes)
            for tags in truth:
                assert entities(tags) == get_entities(tags), tags
                counted += len(entities(tags))
            scores = entity_scores(truth, predicted)
            assert scores["f1"] == pytest.approx(float(seqeval.f1_score(truth, predicted)))
            assert scores["precision"] == pytest.approx(float(seqeval.precision_score(truth, predicted)))
            assert scores["recall"] == pytest.approx(float(seqeval.recall_score(truth, predicted)))
    assert counted > 500


@pytest.mark.parametrize("scheme", ["iob2", "iobes"])
def test_strict_entities_and_scores_are_those_of_seqeval(scheme) -> None:
    seqeval = pytest.importorskip("seqeval.metrics")
    from seqeval import scheme as schemes

    theirs = getattr(schemes, scheme.upper())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in range(300):
            truth = sentences(case, SCHEMES[scheme])
            predicted = similar(case, truth, SCHEMES[scheme])
            (listed,) = schemes.Entities([truth[0]], theirs).entities
            assert entities(truth[0], scheme) == [(entity.tag, entity.start, entity.end - 1) for entity in listed]
            if not any(entities(tags, scheme) for tags in (*truth, *predicted)):
                continue  # seqeval divides nothing by nothing
            scores = entity_scores(truth, predicted, scheme)
            options = {"mode": "strict", "scheme": theirs}
            assert scores["f1"] == pytest.approx(float(seqeval.f1_score(truth, predicted, **options)))
            assert scores["precision"] == pytest.approx(float(seqeval.precision_score(truth, predicted, **options)))
            assert scores["recall"] == pytest.approx(float(seqeval.recall_score(truth, predicted, **options)))


def test_scores_written_out() -> None:
    """The drawing of the module: two of three entities are right, and one is invented."""
    truth = [["B-ORG", "O", "B-MISC", "O", "B-PER", "I-PER"]]
    predicted = [["B-ORG", "B-LOC", "B-MISC", "O", "B-PER", "O"]]
    assert entities(truth[0]) == [("ORG", 0, 0), ("MISC", 2, 2), ("PER", 4, 5)]
    assert entity_scores(truth, predicted) == {"f1": 4 / 7, "precision": 2 / 4, "recall": 2 / 3}
    assert entity_scores([["O"]], [["O"]]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0}
    assert entities(["O", "I-PER"]) == [("PER", 1, 1)]
    assert entities(["O", "I-PER"], "iob2") == []
    assert entities(["B-PER", "I-PER", "S-LOC"], "iobes") == [("LOC", 2, 2)]
