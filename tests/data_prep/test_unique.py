import dataclasses

import pytest

from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.decontamination.overlap import read_overlaps
from headrace.data_prep.document import read_documents
from headrace.data_prep.unique import Unique
from headrace.pipeline.core.artifact import Artifact
from tests.data_prep.decontamination.quiz import numbered, quiz
from tests.data_prep.dedup.corpus import deduplicate

WORDS = [f"w{i}" for i in range(60)]
TEXT, NEAR = " ".join(WORDS), " ".join(WORDS[:-4])


def rows(artifact, kind):
    return [
        [(document.id, document.text, document.metadata) for document in read_documents(path)]
        for path in artifact.shards(kind)
    ]


def test_kept_and_dropped_documents(run_stage, tmp_path):
    unique = deduplicate(run_stage, tmp_path, [{"z": "last", "c": NEAR, "a": TEXT}, {"b": TEXT}, {"y": "é"}]).unique
    assert rows(unique, "documents") == [[("z", "last", {}), ("a", TEXT, {})], [], [("y", "é", {})]]
    near = {"drop": {"rule": "near_duplicate", "value": "a jaccard=0.93"}}
    exact = {"drop": {"rule": "exact_duplicate", "value": "a"}}
    assert rows(unique, "dropped") == [[("c", NEAR, near)], [("b", TEXT, exact)], []]
    assert unique.counts == {
        "documents_in": 5,
        "kept": 3,
        "dropped:exact_duplicate": 1,
        "dropped:near_duplicate": 1,
        "bytes": len("last") + len(TEXT) + 2,
    }


def decontaminate(run_stage, folder, shards, **settings):
    """Runs ``unique`` on these shards without the items of QUIZ; ``how`` goes to ``run_stage``."""
    how = settings.pop("how", {})
    before = deduplicate(run_stage, folder, shards)
    stage = Unique.of(Decontamination(**settings), {"quiz": QUIZ})
    inputs = {"clean": Artifact(folder / "clean" / "c"), "duplicates": before.duplicates}
    return run_stage(stage, inputs, folder / "decontaminated", **how)


def found(unique):
    return [[dataclasses.astuple(one) for one in read_overlaps(path)] for path in unique.shards("overlaps")]


ITEM = "In my palm is a clear stone, and inside it is a small ivory statuette."
FOLDED = "in my palm is a clear stone and inside it is a small ivory statuette"
FIRST = " ".join(FOLDED.split()[:13])
QUIZ = quiz(stone=ITEM, other=numbered(0, 20, "other"), common=numbered(0, 13, "common"))
PAGE = numbered(0, 100, "page")
PLANTED = {
    "exact": f"{numbered(0, 100, 'a')} {ITEM} {numbered(0, 100, 'b')}",
    "shouted": f"{numbered(0, 100, 'c')} IN MY PALM — is a clear “stone”; and inside: it is a small\nIvory-Statuette! "
    + PAGE,
    "twelve": f"{numbered(0, 100, 'd')} {' '.join(FOLDED.split()[:12])} {numbered(0, 100, 'e')}",
}


def test_contaminated_documents_are_dropped(run_stage, tmp_path):
    unique = decontaminate(run_stage, tmp_path, [PLANTED, {"copy": PLANTED["exact"], "z": TEXT}], action="drop")
    assert [[row[0] for row in shard] for shard in rows(unique, "documents")] == [["twelve"], ["z"]]
    drop = {"drop": {"rule": "contaminated", "value": "quiz/stone"}}
    duplicate = {"drop": {"rule": "exact_duplicate", "value": "copy"}}
    assert rows(unique, "dropped") == [
        [("exact", PLANTED["exact"], duplicate), ("shouted", PLANTED["shouted"], drop)],
        [("copy", PLANTED["exact"], drop)],
    ]
    assert unique.counts["dropped:contaminated"] == 2
    assert unique.counts["dropped:exact_duplicate"] == 1
    assert unique.counts["benchmark_items"] == 3
    assert unique.counts["documents_in"] == unique.counts["kept"] + 3 == 5


def test_matches_are_masked(run_stage, tmp_path):
    unique = decontaminate(run_stage, tmp_path, [PLANTED], action="mask", window_characters=0)
    masked = {"masked": ["quiz/stone"]}
    assert rows(unique, "documents") == [
        [
            ("exact", f"{numbered(0, 100, 'a')}\n\n{numbered(0, 100, 'b')}", masked),
            ("shouted", f"{numbered(0, 100, 'c')}\n\n{PAGE}", masked),
            ("twelve", PLANTED["twelve"], {}),
        ]
    ]
    assert rows(unique, "dropped") == [[]]
    assert (unique.counts["masked"], unique.counts["kept"]) == (2, 3)
    assert found(unique) == [[("quiz/stone", name, 3, 3, FIRST, "masked") for name in ("exact", "shouted")]]
    texts = sum(len(row[1].encode()) for row in rows(unique, "documents")[0])
    assert unique.counts["bytes"] == texts


def test_common_phrases_are_ignored(run_stage, tmp_path):
    """Each document is counted once, over all shards, without duplicates."""
    pages = {f"p{n}": f"{numbered(0, 80, f'p{n}x')} {numbered(0, 13, 'common')}" for n in range(4)}
    pages["p0"] += " and again " + numbered(0, 13, "common")
    shards = [
        {"p0": pages["p0"], "p1": pages["p1"], "exact": PLANTED["exact"]},
        {"p2": pages["p2"], "copy": pages["p1"]},
    ]
    kept = decontaminate(run_stage, tmp_path / "a", shards, action="drop", common_documents=3)
    assert rows(kept, "documents") == [[], []]
    assert kept.counts["common_ngrams"] == 0
    shards[1]["p3"] = pages["p3"]
    kept = decontaminate(run_stage, tmp_path / "b", shards, action="drop", common_documents=3)
    assert [[row[0] for row in shard] for shard in rows(kept, "documents")] == [["p0"], ["p2", "copy", "p3"]]
    assert kept.counts["common_ngrams"] == 1
    assert kept.counts["dropped:contaminated"] == 1


@pytest.mark.parametrize("how", [{"backwards": True}, {"twice": True}])
def test_order_and_repetition_change_nothing(how, run_stage, tmp_path):
    shards = [PLANTED, {"c": f"{PAGE} {numbered(0, 13, 'common')}", "z": TEXT}, {}]
    values = {"action": "mask", "common_documents": 5}
    one = decontaminate(run_stage, tmp_path / "one", shards, **values)
    other = decontaminate(run_stage, tmp_path / "other", shards, **values, how=how)
    assert one.manifest["files"] == other.manifest["files"]
    assert one.manifest["counts"] == other.manifest["counts"]


def test_reporting_does_not_change_the_address():
    plain = Unique().address({"clean": "a", "duplicates": "b"})
    for action in ("none", "report"):
        assert Unique.of(Decontamination(action=action), {"quiz": QUIZ}) == Unique()
    assert Unique.of(Decontamination(action="drop"), {}).address({"clean": "a", "duplicates": "b"}) == plain
    assert Unique.of(Decontamination(action="drop"), {"quiz": QUIZ}).address({"clean": "a", "duplicates": "b"}) != plain
    assert Unique.of(Decontamination(action="drop"), {"quiz": QUIZ}).raw_files() == QUIZ.raw_files()
