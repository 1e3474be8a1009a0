"""Repeated spans against a brute force over the tuples of all windows."""

import dataclasses
import itertools
import json
import random

import pytest
import xxhash
from hypothesis import HealthCheck, given
from hypothesis import settings as how_often
from hypothesis import strategies as st

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.cuts import cut
from headrace.data_prep.document import read_documents
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.signatures import Signatures
from headrace.data_prep.text.words import words
from headrace.data_prep.unique import Unique
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.text_files import read_lines
from tests.data_prep.dedup.corpus import NO_METADATA, clean, deal
from tests.stage_run import run_here

WORDS = 6
DEDUP = Dedup(threshold=1.0, repeated_words=WORDS, buckets=3, memory_gb=1e-5)
"""Only equal sets of shingles are near duplicates, and so little memory that everything spills."""


def stages(dedup, root, shards, metadata=NO_METADATA, **how):
    """Returns the artifacts of all stages of deduplication, by name."""
    line = (Signatures.of(dedup), Duplicates.of(dedup), Unique.of(*NOTHING_ELSE, **dedup.of_unique))
    artifacts = {"clean": clean(root / "clean" / "c", shards, metadata)}
    for stage in Unique.joined(line, dedup):
        inputs = {name: artifacts[name] for name in stage.inputs}
        artifacts[stage.name] = run_here(stage, inputs, root / stage.name / stage.name[0], **how)
    return artifacts


NOTHING_ELSE = (Unique().decontamination, {})


def documents(artifact, kind):
    return {document.id: document for path in artifact.shards(kind) for document in read_documents(path)}


def brute_force(texts, size, precedence):
    """Returns for each id whether each word is covered, and the first place of each window."""
    first = {}
    covered = {name: [False] * len(words(text)) for name, text in texts.items()}
    survivors = {name: {} for name in texts}
    for name in sorted(texts, key=precedence):
        parts = words(texts[name])
        for start in range(len(parts) - size + 1):
            place = first.setdefault(tuple(parts[start : start + size]), (name, start))
            if place != (name, start):
                covered[name][start : start + size] = [True] * size
                survivors[name][start] = place
    return covered, survivors


def by_length(texts):
    return lambda name: (-len(texts[name]), xxhash.xxh64_intdigest(name.encode()))


def check(artifacts, texts, size=WORDS, precedence=by_length):
    """Compares the result of the stages with the brute force over the documents that ``duplicates`` keeps."""
    kept, dropped = (documents(artifacts["unique"], kind) for kind in ("documents", "dropped"))
    short = {name for name, document in dropped.items() if document.metadata["drop"]["rule"].startswith("repeated_")}
    remaining = {name: texts[name] for name in texts if name in kept or name in short}
    covered, survivors = brute_force(remaining, size, precedence(remaining))
    firsts = {place[0] for places in survivors.values() for place in places.values()}
    for name, text in remaining.items():
        rest = [word for word, is_cut in zip(words(text), covered[name], strict=True) if not is_cut]
        is_dropped = any(covered[name]) and (not rest or (len(rest) < size and name not in firsts))
        assert (name in short) == is_dropped
        if name in kept:
            assert words(kept[name].text) == rest
        if not any(covered[name]):
            assert kept[name].text == text
            assert "repeated_text" not in kept[name].metadata
        check_spans(text, {**kept, **dropped}[name].metadata.get("repeated_text", []), covered[name], texts)
    return kept


def check_spans(text, spans, covered, texts):
    """Each span is a run of whole words that its survivor has at the offset that it names."""
    places = set()
    for span in spans:
        before, parts = len(words(text[: span["start"]])), words(text[span["start"] : span["end"]])
        assert words(texts[span["survivor"]][span["survivor_start"] :])[: len(parts)] == parts
        assert text[span["start"] : span["end"]].strip() == text[span["start"] : span["end"]]
        places |= {*range(before, before + len(parts))}
    assert places == {number for number, is_covered in enumerate(covered) if is_covered}


def periodic(generator):
    unit = generator.choices("ab", k=generator.randint(1, 4))
    return " ".join(unit * generator.randint(1, 12))


def patched(generator, sources):
    """A text of pieces of ``sources`` that overlap and of words of its own."""
    pieces = []
    for _ in range(generator.randint(1, 5)):
        parts = generator.choice(sources).split()
        start = generator.randrange(len(parts))
        pieces += parts[start : start + generator.randint(1, 14)]
        pieces += [f"own{generator.randrange(10**6)}"] * generator.randint(0, 2)
    return " ".join(pieces)


def corpus(seed, n_documents=14):
    generator = random.Random(seed)
    vocabulary = ["a", "b", "C", "Straße", "e\u0301", "名前", "don't", "x\u00ady", "ŉ", "\u037a", "=\u0338"]
    sources = [" ".join(generator.choices(vocabulary, k=generator.randint(1, 40))) for _ in range(3)]
    sources += [periodic(generator) for _ in range(3)]
    texts = [*sources, *(patched(generator, sources) for _ in range(n_documents - 7)), "名" * 30]
    joints = [" ", "\n", "\n\n", ", ", "  "]
    texts = ["".join(part + generator.choice(joints) for part in text.split()) for text in texts]
    return {f"d:{number}": text for number, text in enumerate(texts)}


@pytest.mark.parametrize("seed", range(12))
def test_equal_to_brute_force(seed, tmp_path):
    texts = corpus(seed)
    check(stages(DEDUP, tmp_path, deal(texts, 3, seed)), texts)


@pytest.mark.slow
def test_real_stories(data_folder, tmp_path):
    """Reuters repeats paragraphs from story to story."""
    path = data_folder("dedup/reuters_000-015.jsonl.zst")
    stories = [json.loads(line) for line in itertools.islice(read_lines(path), 1500)]
    texts = {f"d:{number}": story["text"] for number, story in enumerate(stories)}
    dedup = Dedup(repeated_words=20, buckets=3, memory_gb=1e-3)
    artifacts = stages(dedup, tmp_path, deal(texts, 4))
    near = {n for n, d in documents(artifacts["unique"], "dropped").items() if "near" in d.metadata["drop"]["rule"]}
    exact = {n for n, d in documents(artifacts["unique"], "dropped").items() if "exact" in d.metadata["drop"]["rule"]}
    check(artifacts, {name: text for name, text in texts.items() if name not in near | exact}, 20)
    assert artifacts["repeats"].counts["spans"] > 50


@pytest.mark.slow
@given(
    texts=st.lists(st.lists(st.sampled_from(["a", "b", "c,", "É", "e\u0301", "我", "\n"]), max_size=24), max_size=6),
    size=st.integers(2, 5),
)
@how_often(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_few_different_words(texts, size, tmp_path_factory):
    named = {f"d:{number}": " ".join(parts) for number, parts in enumerate(texts)}
    dedup = dataclasses.replace(DEDUP, repeated_words=size)
    check(stages(dedup, tmp_path_factory.mktemp("few"), deal(named, 2)), named, size)


@pytest.mark.parametrize("how", [{"backwards": True}, {"twice": True}])
def test_order_and_repetition_change_nothing(how, tmp_path):
    shards = deal(corpus(5), 3)
    first = stages(DEDUP, tmp_path / "first", shards)
    second = stages(DEDUP, tmp_path / "second", shards, **how)
    for name in ("repeats", "unique"):
        assert first[name].manifest["files"] == second[name].manifest["files"]


def test_shards_buckets_and_memory_change_nothing(tmp_path):
    texts, kept = corpus(6, 30), []
    for number, (shards, buckets, memory_gb) in enumerate([(1, 1, 2.0), (4, 5, 1e-5)]):
        dedup = dataclasses.replace(DEDUP, buckets=buckets, memory_gb=memory_gb)
        unique = stages(dedup, tmp_path / str(number), deal(texts, shards, number))["unique"]
        kept.append({name: (one.text, one.metadata) for name, one in documents(unique, "documents").items()})
    assert kept[0] == kept[1]


def numbered(first, last, word="w"):
    return " ".join(f"{word}{number}" for number in range(first, last))


def test_paragraphs_and_lines_around_a_cut(tmp_path):
    shared = numbered(0, 10)
    texts = {
        "a": f"{numbered(0, 40, 'a')} ({shared}) end",
        "b": f"{numbered(0, 9, 'b')}.\n\n{shared.upper()}!\n\n{numbered(9, 20, 'b')}.",
        "c": f"{numbered(0, 9, 'c')}\n{shared} {numbered(9, 18, 'c')}",
        "d": f"{numbered(0, 9, 'd')} {shared}\t{numbered(9, 17, 'd')}",
        "e": f"start {shared}",
    }
    unique = stages(DEDUP, tmp_path, [texts])["unique"]
    kept = documents(unique, "documents")
    assert kept["b"].text == f"{numbered(0, 9, 'b')}.\n\n{numbered(9, 20, 'b')}."
    assert kept["c"].text == f"{numbered(0, 9, 'c')}\n{numbered(9, 18, 'c')}"
    assert kept["d"].text == numbered(0, 17, "d")
    start = len(numbered(0, 9, "b")) + 3
    (span,) = kept["b"].metadata["repeated_text"]
    offset = texts["a"].index("w0")
    assert span == {"start": start, "end": start + len(shared) + 1, "survivor": "a", "survivor_start": offset}
    assert documents(unique, "dropped")["e"].metadata["drop"] == {"rule": "repeated_text.short", "value": "1"}
    assert documents(unique, "dropped")["e"].text == texts["e"]
    assert unique.counts["cut"] == 3
    assert unique.counts["dropped:repeated_text.short"] == 1


def test_a_short_rest_with_a_first_occurrence_stays(tmp_path):
    """In b, w6 to w9 follow words of a; c repeats the windows that are first in b."""
    texts = {
        "a": f"{numbered(0, 6)} {numbered(0, 30, 'a')}",
        "b": numbered(0, 9),
        "c": f"x {numbered(3, 9)}",
    }
    kept = check(stages(DEDUP, tmp_path, [texts]), texts)
    assert kept["b"].text == numbered(6, 9)
    assert "c" not in kept


def test_newest_first(tmp_path):
    texts = {"old": f"{numbered(0, 20)} {numbered(0, 30, 'old')}", "new": f"{numbered(0, 20)} {numbered(0, 20, 'new')}"}
    metadata = {"old": {"date": "2019-01-01"}, "new": {"date": "2021-01-01"}}
    dedup = dataclasses.replace(DEDUP, keep="newest")
    kept = check(stages(dedup, tmp_path, [texts], metadata), texts, WORDS, lambda _: ["new", "old"].index)
    assert kept["old"].text == numbered(0, 30, "old")


def test_older_runs_keep_their_text(tmp_path):
    older = {
        "old:0": f"{numbered(0, 20)} {numbered(0, 10, 'old')}",
        "old:1": f"{numbered(0, 12)} {numbered(0, 9, 'z')}",
    }
    stages(dataclasses.replace(DEDUP, repeated_words=None), tmp_path / "older", [older])
    dedup = dataclasses.replace(DEDUP, against=(str(tmp_path / "older" / "unique" / "u"),))
    texts = {"a": f"{numbered(0, 9, 'a')} {numbered(2, 18)}", "b": f"{numbered(0, 30, 'b')} {numbered(0, 9, 'z')}"}
    kept = documents(stages(dedup, tmp_path / "new", [texts])["unique"], "documents")
    assert kept["a"].text == numbered(0, 9, "a")
    assert kept["b"].text == numbered(0, 30, "b")
    (span,) = kept["b"].metadata["repeated_text"]
    assert (span["survivor"], span["survivor_start"]) == ("old:1", len(numbered(0, 12)) + 1)


def test_without_the_setting_nothing_changes():
    assert Unique.joined((Unique(),), Dedup()) == (Unique(),)
    assert Unique().inputs == ("clean", "duplicates")
    with pytest.raises(ConfigError, match=r"dedup\.repeated_words: is 50, and dedup\.keep_duplicates keeps"):
        Dedup(repeated_words=50, keep_duplicates=True)


@pytest.mark.parametrize(
    ("spans", "rest"),
    [
        ([(0, 3)], "b c\n\nd"),
        ([(5, 6)], "a  b\n\nd"),
        ([(5, 9)], "a  b"),
        ([(3, 4), (3, 6), (5, 6)], "a\n\nd"),
        ([(0, 9)], ""),
        ([(0, 4), (5, 6)], "d"),
    ],
)
def test_cut(spans, rest):
    assert cut("a  b c\n\nd", spans) == rest
