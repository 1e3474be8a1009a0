from data_prep.document import read_documents
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


def test_every_document_of_a_shard_dropped(run_stage, tmp_path):
    unique = deduplicate(run_stage, tmp_path, [{"b": TEXT, "c": TEXT}, {"a": TEXT}]).unique
    assert [[row[0] for row in shard] for shard in rows(unique, "documents")] == [[], ["a"]]
    assert [[row[0] for row in shard] for shard in rows(unique, "dropped")] == [["b", "c"], []]
