"""Contained documents against a brute force over all pairs, and the recall that dedup.containment promises."""

import dataclasses
import math
import random

import pytest
import xxhash

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.containment import SAMPLE, probes, sampled
from headrace.data_prep.dedup.shingles import shingle_set
from headrace.data_prep.document import read_documents
from tests.data_prep.dedup.corpus import deal
from tests.data_prep.test_repeats import documents, numbered, stages

DEDUP = Dedup(contained=0.8, buckets=3, memory_gb=1e-5)


def grams(text):
    """Word 5-grams of a text of ASCII words, independent of the code under test."""
    parts = text.split()
    return {tuple(parts[start : start + 5]) for start in range(max(1, len(parts) - 4))}


def brute_force(texts, threshold):
    """Returns the container and the containment of each document to remove."""
    sets, removed = {name: grams(text) for name, text in texts.items()}, {}
    visited = []
    for name in sorted(texts, key=lambda name: (len(sets[name]), xxhash.xxh64_intdigest(name.encode())), reverse=True):
        shares = [len(sets[name] & sets[other]) / len(sets[name]) for other in visited]
        if max(shares, default=0) >= threshold:
            removed[name] = visited[shares.index(max(shares))], max(shares)
        else:
            visited.append(name)
    return removed


def pages(seed, n_long=8, n_parts=24):
    """Long texts, parts of them with words of their own, parts of parts, and a phrase that all share."""
    generator = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(5000)]
    texts = [" ".join(generator.choices(vocabulary, k=generator.randint(300, 900))) for _ in range(n_long)]
    for _ in range(n_parts):
        parts = generator.choice(texts).split()
        length = generator.randint(100, 280)
        start = generator.randrange(max(1, len(parts) - length))
        part = parts[start : start + length]
        for _ in range(generator.choice([0, 0, 1, 3, 9])):
            part[generator.randrange(len(part))] = generator.choice(vocabulary)
        texts.append(" ".join(part))
    return {f"d:{number}": f"{text} {numbered(0, 20, 'same')}" for number, text in enumerate(texts)}


def drops(artifacts):
    return {
        name: document.metadata["drop"]
        for name, document in documents(artifacts["unique"], "dropped").items()
        if document.metadata["drop"]["rule"] == "contained"
    }


def remaining(artifacts, texts):
    """The texts that ``duplicates`` keeps."""
    dropped = documents(artifacts["unique"], "dropped").values()
    near = {document.id for document in dropped if document.metadata["drop"]["rule"] != "contained"}
    return {name: text for name, text in texts.items() if name not in near}


@pytest.mark.parametrize("seed", range(2))
def test_equal_to_brute_force(seed, tmp_path):
    texts = pages(seed)
    artifacts = stages(DEDUP, tmp_path, deal(texts, 3, seed))
    expected = brute_force(remaining(artifacts, texts), 0.8)
    assert len(expected) > 5
    assert drops(artifacts) == {
        name: {"rule": "contained", "value": f"{container} containment={share:.2f}"}
        for name, (container, share) in expected.items()
    }


@pytest.mark.slow
def test_shards_buckets_order_and_memory_change_nothing(tmp_path):
    texts, results = pages(7), []
    for number, (shards, buckets, memory_gb, how) in enumerate(
        [(1, 1, 2.0, {}), (4, 5, 1e-5, {"backwards": True}), (3, 2, 1e-5, {"twice": True})]
    ):
        dedup = dataclasses.replace(DEDUP, buckets=buckets, memory_gb=memory_gb)
        artifacts = stages(dedup, tmp_path / str(number), deal(texts, shards, number), **how)
        results.append((drops(artifacts), documents(artifacts["unique"], "documents").keys()))
    assert results[0] == results[1] == results[2]


def test_no_chains(tmp_path):
    """b is within c and a within b, but a is not within c: only b is removed."""
    core, own = numbered(0, 100), numbered(0, 15, "own")
    texts = {
        "c": f"{core} {numbered(0, 100, 'c')}",
        "b": f"{numbered(30, 100)} {own}",
        "a": f"{numbered(58, 100)} {own}",
    }
    artifacts = stages(Dedup(contained=0.8, threshold=0.99, buckets=2), tmp_path, [texts])
    assert brute_force(texts, 0.8) == {"b": ("c", 66 / 81)}
    assert drops(artifacts) == {"b": {"rule": "contained", "value": "c containment=0.81"}}


def test_older_runs_contain_and_stay(tmp_path):
    stages(Dedup(buckets=2), tmp_path / "older", [{"old": numbered(0, 90), "small": numbered(0, 80, "z")}])
    dedup = dataclasses.replace(DEDUP, against=(str(tmp_path / "older" / "unique" / "u"),))
    texts = {"part": numbered(10, 60), "large": numbered(0, 200, "z"), "other": numbered(0, 50, "other")}
    artifacts = stages(dedup, tmp_path / "new", [texts])
    assert drops(artifacts) == {"part": {"rule": "contained", "value": "old containment=1.00"}}
    assert documents(artifacts["unique"], "documents").keys() == {"large", "other"}


def test_contained_documents_keep_no_spans(tmp_path):
    """The text of a contained page does not count as an earlier copy of a span."""
    dedup = dataclasses.replace(DEDUP, repeated_words=20, keep="newest")
    texts = {"long": numbered(0, 200), "part": numbered(20, 100), "mixed": f"{numbered(40, 80)} {numbered(0, 90, 'm')}"}
    kept = documents(stages(dedup, tmp_path, deal(texts, 2))["unique"], "documents")
    assert kept.keys() == {"long", "mixed"}
    assert sum(word in document.text.split() for document in kept.values() for word in ["w50"]) == 1


def test_recall_is_that_of_the_formula():
    """A container that lacks the rarest fifth of the shingles, which is the worst case, in 4,000 draws."""
    generator, hits, draws = random.Random(0), 0, 4000
    for _ in range(draws):
        shingles = shingle_set(" ".join(f"{generator.getrandbits(40):x}" for _ in range(34)), 5)
        generator.shuffle(order := shingles.tolist())
        lacking = set(order[: round(0.2 * len(order))])
        sample = sampled(shingles).tolist()
        alone = sum(shingle in lacking for shingle in sample)
        hits += probes(alone, len(sample) - alone, 0.8) > 0
    expected = 1 - (1 - 1 / SAMPLE) ** 24
    assert abs(hits / draws - expected) < 5 * math.sqrt(expected * (1 - expected) / draws) + 0.01


def test_the_result_is_whole(tmp_path):
    artifacts = stages(DEDUP, tmp_path, [pages(9), {}])
    contained, unique = artifacts["contained"], artifacts["unique"]
    assert contained.counts["removed"] == unique.counts["dropped:contained"] > 0
    assert sum(1 for path in unique.shards("documents") for _ in read_documents(path)) == unique.counts["kept"]
