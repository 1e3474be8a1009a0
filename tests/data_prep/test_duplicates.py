import dataclasses
import itertools
import json
import random
import re
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.document import digest_of
from headrace.data_prep.duplicates import Duplicates
from headrace.pipeline.core.artifact import Artifact
from tests.data_prep.dedup.corpus import deal, deduplicate, family, slow_jaccard

LENIENT = Dedup(bands=40, rows=2, buckets=3)
"""Misses a pair with J ≥ 0.8 with probability (1 - 0.64)^40 = 2e-18, so in practice all pairs are found."""

BY_SHARD = {"digests", "bands", "sets", "removed"}
"""The phases with a task for each shard; the others have one for each bucket."""


@pytest.fixture(scope="module")
def stories(data_folder):
    """1,000 Reuters stories, id → text."""
    path = data_folder("dedup/reuters_000-015.jsonl.zst")
    with zstandard.open(path, "rt", dctx=zstandard.ZstdDecompressor(max_window_size=2**27)) as stream:
        return {story["id"]: story["text"] for story in map(json.loads, itertools.islice(stream, 1000))}


@pytest.fixture(scope="module", autouse=True)
def _no_waiting_for_the_disk():
    """The tests write hundreds of small artifacts, which need not survive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.pipeline.core.artifact_files.os.fsync", lambda _: None)
        yield


@st.composite
def corpora(draw):
    """Families of near duplicates, some members repeated exactly, and short or empty texts, by id."""
    generator = random.Random(draw(st.integers(0, 2**32)))
    texts = []
    for size in draw(st.lists(st.integers(1, 6), min_size=1, max_size=6)):
        texts += family(generator, size, n_words=generator.choice([8, 30, 120]), changes=generator.choice([0, 2, 6]))
    texts += draw(st.lists(st.sampled_from(["", "…", "Hello.", "hello", "one two three"]), max_size=6))
    texts += generator.choices(texts, k=draw(st.integers(0, 4)))
    names = generator.sample(range(1000), len(texts))
    return {f"file:{name}": text for name, text in zip(names, texts, strict=True)}


def alike(one, two):
    """Returns the similarity of two texts. A text without words is similar only to its copies."""
    if one == two:
        return 1.0
    return slow_jaccard(one, two) if re.search(r"\w", one) and re.search(r"\w", two) else 0.0


def expected_survivors(texts, threshold, older=()):
    """Returns removed id → survivor's id: visits all texts by priority and compares each with all kept ones."""
    kept_names, survivors = list(older), {}
    representatives = {}
    for name in sorted(texts, key=lambda name: (-len(texts[name]), name.encode())):
        if name in older:
            continue
        first = representatives.setdefault(texts[name], name)
        if first != name:
            survivors[name] = survivors.get(first, first)
            continue
        similar = [other for other in kept_names if alike(texts[name], texts[other]) >= threshold]
        if similar:
            survivors[name] = max(similar, key=lambda other: alike(texts[name], texts[other]))
        else:
            kept_names.append(name)
    return survivors


@settings(max_examples=10)
@given(corpora(), st.integers(1, 7), st.sampled_from([0.8, 0.6]))
def test_survivors_are_those_of_brute_force(run_stage, texts, n_shards, threshold):
    with tempfile.TemporaryDirectory() as folder:
        dedup = dataclasses.replace(LENIENT, threshold=threshold)
        result = deduplicate(run_stage, Path(folder), deal(texts, n_shards), dedup)
        survivors = expected_survivors(texts, threshold)
        assert set(result.kept()) == set(texts) - set(survivors)
        for name, drop in result.drops().items():
            survivor, *jaccard = drop["value"].split(" jaccard=")
            assert survivor == survivors[name]
            assert (drop["rule"] == "exact_duplicate") == (texts[name] == texts[survivor]) == (not jaccard)
            if jaccard:
                assert jaccard == [f"{slow_jaccard(texts[name], texts[survivor]):.2f}"]


@pytest.mark.slow
@settings(max_examples=4)
@given(st.integers(0, 2**32), st.sampled_from([2, 5, 1000]))
def test_survivors_do_not_depend_on_sharding_nor_order_nor_buckets(run_stage, seed, window):
    """This holds also for a small window, with which not all pairs of a group are compared."""
    generator = random.Random(seed)
    texts = [text for _ in range(4) for text in family(generator, 12, n_words=60, changes=3)]
    corpus = {f"{generator.random()}": text for text in texts}
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        for n_shards, buckets in ((1, 1), (3, 4), (7, 2)):
            dedup = Dedup(bands=20, rows=3, buckets=buckets, window_documents=window)
            shards = deal(corpus, n_shards, seed=n_shards)
            kept.append(set(deduplicate(run_stage, Path(folder) / f"{n_shards}", shards, dedup).kept()))
    assert kept[0] == kept[1] == kept[2]
    assert len(kept[0]) < len(corpus)


def test_same_bytes_in_any_order_of_tasks(run_stage, tmp_path):
    texts = {f"{i}": text for i, text in enumerate(family(random.Random(1), 30) * 2)}
    one = deduplicate(run_stage, tmp_path / "one", deal(texts, 4))
    two = deduplicate(run_stage, tmp_path / "two", deal(texts, 4), backwards=True, twice=True)
    assert one.duplicates.manifest == two.duplicates.manifest
    assert one.unique.manifest == two.unique.manifest


def test_same_bytes_with_little_memory(run_stage, tmp_path):
    """Sorts spill to disk after a few records."""
    texts = {f"{i}": text for i, text in enumerate(family(random.Random(2), 40) * 2)}
    one, two = (
        deduplicate(run_stage, tmp_path / f"{gb}", deal(texts, 3), dataclasses.replace(LENIENT, memory_gb=gb))
        for gb in (2.0, 1e-5)
    )
    assert one.duplicates.manifest == two.duplicates.manifest
    assert one.duplicates.counts["removed_exact"] > 10 < one.duplicates.counts["removed_near"]


def test_tasks_read_their_own_files(run_stage, tmp_path, monkeypatch):
    """A task of a shard opens only files of this shard, a task of a bucket opens none."""
    texts = {f"{i}": text for i, text in enumerate(family(random.Random(3), 40) * 2)}
    shard_of, phases_of = Artifact.shard, Duplicates.phases
    opened, kinds = [], set()

    def shard(artifact, kind, number, suffix):
        opened.append(number)
        kinds.add(kind)
        return shard_of(artifact, kind, number, suffix)

    def run(phase, task, inputs, out):
        opened.clear()
        counts = phase.run(task, inputs, out)
        assert set(opened) == ({task} if phase.name in BY_SHARD else set())
        return counts

    def phases(stage, shards):
        return tuple(dataclasses.replace(phase, run=partial(run, phase)) for phase in phases_of(stage, shards))

    monkeypatch.setattr(Artifact, "shard", shard)
    monkeypatch.setattr(Duplicates, "phases", phases)
    result = deduplicate(run_stage, tmp_path, deal(texts, 4), LENIENT)
    assert result.duplicates.counts["removed_near"] > 10
    assert kinds >= {"digests", "characters", "ids", "signatures", "documents"}


def test_phases_are_known_from_shards_and_settings():
    phases = Duplicates.of(Dedup(buckets=5)).phases({"clean": 3, "signatures": 3})
    assert {phase.name: phase.tasks for phase in phases} == {p.name: 3 if p.name in BY_SHARD else 5 for p in phases}
    assert len({phase.name for phase in phases}) == len(phases) == 12


def test_files(run_stage, tmp_path):
    """An exact copy, a near duplicate, a copy of the near duplicate in another shard, and a different text."""
    words = [f"w{i}" for i in range(60)]
    text, near = " ".join(words), " ".join(words[:-4])
    shards = [{"b": text, "stranger": "quite another thing"}, {"a": text, "n": near}, {"m": near}]
    result = deduplicate(run_stage, tmp_path, shards)
    a = 1 << 32
    clusters = [np.load(path).tolist() for path in result.duplicates.shards("clusters")]
    assert clusters == [[a, 1], [a, a], [a]]
    removed = [np.load(path) for path in result.duplicates.shards("removed")]
    assert removed[0].dtype.names == ("row", "survivor", "jaccard", "exact", "survivor_id")
    similarity = 52 / 56
    assert [array.tolist() for array in removed] == [
        [(0, a, 1.0, True, b"a")],
        [(1, a, similarity, False, b"a")],
        [(0, a, similarity, False, b"a")],
    ]
    pairs = np.concatenate([np.load(path) for path in result.duplicates.shards("pairs")])
    assert {(first, second, value) for first, second, value in pairs.tolist()} == {(2 << 32, a, similarity)}
    counts = result.duplicates.counts
    assert (counts["removed_exact"], counts["removed_near"], counts["removed_for_older"]) == (1, 2, 0)
    assert (counts["components"], counts["survivors_compared"], counts["unsettled_edges"]) == (1, 1, 0)


def test_a_chain_removes_only_documents_similar_to_a_kept_one(run_stage, tmp_path):
    """Twelve windows over one text, each 8 words on: neighbours are similar (0.86), others are not (0.74)."""
    words = [f"w{i:03}" for i in range(200)]
    texts = {f"{start:02}": " ".join(words[start : start + 104]) for start in range(0, 96, 8)}
    assert slow_jaccard(texts["00"], texts["08"]) > 0.8 > slow_jaccard(texts["00"], texts["16"])
    result = deduplicate(run_stage, tmp_path, deal(texts, 3), LENIENT)
    assert sorted(result.kept()) == [f"{start:02}" for start in range(0, 96, 16)]
    assert result.duplicates.counts["components"] == 1
    assert result.drops()["08"]["value"] == f"00 jaccard={slow_jaccard(texts['00'], texts['08']):.2f}"


def test_a_long_chain_over_many_buckets(run_stage, tmp_path):
    """Each pair shares few bands, so a bucket sees only parts of the chain, and two rounds leave edges."""
    words = [f"w{i:04}" for i in range(600)]
    texts = {f"{start:03}": " ".join(words[start : start + 104]) for start in range(0, 480, 6)}
    few_bands = Dedup(bands=3, rows=1, buckets=1)
    one = deduplicate(run_stage, tmp_path / "one", deal(texts, 1), few_bands)
    many = deduplicate(run_stage, tmp_path / "many", deal(texts, 3), dataclasses.replace(few_bands, buckets=13))
    assert many.duplicates.counts["unsettled_edges"] > 0 == one.duplicates.counts["unsettled_edges"]
    assert many.duplicates.counts["components"] == one.duplicates.counts["components"] < 10
    assert many.drops() == one.drops()


def test_numbers_keep_documents_apart(run_stage, tmp_path):
    texts = {f"{i}": f"flight {i} leaves at {i % 24} from gate {i * 7 % 50}" for i in range(100)}
    assert deduplicate(run_stage, tmp_path, [texts], LENIENT).kept() == texts


@pytest.mark.parametrize(
    "shards",
    [
        [{}],
        [{}, {}, {}],
        [{"only": "one document alone in the world"}],
        [{}, {"a": "…", "b": "!!!"}, {}],
    ],
    ids=["empty shard", "empty shards", "one document", "no words"],
)
def test_nothing_to_remove(run_stage, tmp_path, shards):
    result = deduplicate(run_stage, tmp_path, shards)
    assert result.kept() == {name: text for shard in shards for name, text in shard.items()}
    assert result.duplicates.shard_count == len(shards)
    assert len(result.unique.shards("documents")) == len(shards)


def test_real_newswire(run_stage, tmp_path, stories):
    """Every removed document has a similar survivor that is as long; copies are found."""
    texts = stories
    result = deduplicate(run_stage, tmp_path, deal(texts, 3))
    copies = Counter(digest_of(text) for text in texts.values())
    assert result.duplicates.counts["removed_exact"] >= sum(copies.values()) - len(copies) > 10
    kept = result.kept()
    assert len({digest_of(text) for text in kept.values()}) == len(kept)
    for name, drop in result.drops().items():
        survivor = drop["value"].split(" jaccard=")[0]
        assert survivor in kept
        assert len(texts[survivor]) >= len(texts[name])
        assert slow_jaccard(texts[name], texts[survivor]) >= 0.8
    assert deduplicate(run_stage, tmp_path / "7", deal(texts, 7)).kept() == kept
