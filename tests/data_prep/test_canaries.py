"""Planted canaries: their texts, what deduplication leaves of them, and their facts."""

from collections import Counter
from pathlib import Path

import pytest

from headrace.data_prep.canaries import Canaries
from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.document import read_documents
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.signatures import Signatures
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.source import PLANTED
from headrace.data_prep.texts import Texts
from headrace.data_prep.unique import Unique
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents import document_path, lookup

CANARIES = Canaries(copies=(1, 4), each=3)


def test_a_canary_is_a_function_of_seed_copies_and_number():
    few, more = (list(Canaries(each=each).canaries(4)) for each in (2, 3))
    assert more[:2] == few
    texts = {canary.text for copies in (0, 1, 4) for canary in CANARIES.canaries(copies)}
    assert len(texts) == 9
    assert not texts & {canary.text for canary in Canaries(copies=(1, 4), each=3, seed=1).planted()}
    assert Counter(canary.text for canary in CANARIES.planted()) == {
        canary.text: copies for copies in (1, 4) for canary in CANARIES.canaries(copies)
    }
    assert few[0].text.count(". ") + 1 == 5
    assert few[0].text.startswith("The jolly miller of the quiet miller")


@pytest.fixture(scope="module")
def planted(tmp_path_factory, run_stage):
    """The stage and the artifacts of a source of two pages and the canaries, with duplicates removed and kept."""
    root = tmp_path_factory.mktemp("planted")
    source = root / "in.jsonl"
    source.write_text('{"text": "A page about mills."}\n{"text": "Another page, about rivers."}\n')
    stage = Texts(source=Jsonl(paths=(str(source),)), canaries=CANARIES)
    found = {"texts": run_stage(stage, {}, root / "texts")}
    found["clean"] = run_stage(Clean(cleaning=Cleaning(filters=())), found, root / "clean")
    found["signatures"] = run_stage(Signatures.of(Dedup()), found, root / "signatures")
    found["duplicates"] = run_stage(Duplicates.of(Dedup()), found, root / "duplicates")
    found["unique"] = run_stage(Unique(), found, root / "unique")
    kept = run_stage(Unique.of(Decontamination(action="none"), {}, keep_duplicates=True), found, root / "kept")
    return stage, found, kept


def texts_in(artifact) -> Counter:
    return Counter(document.text for shard in artifact.shards("documents") for document in read_documents(shard))


def test_deduplication_leaves_one_copy_of_each(planted):
    _, found, kept = planted
    pages = {"A page about mills.": 1, "Another page, about rivers.": 1}
    assert texts_in(found["unique"]) == {canary.text: 1 for canary in CANARIES.planted()} | pages
    assert texts_in(kept) == Counter(canary.text for canary in CANARIES.planted()) + Counter(pages)
    assert found["unique"].counts["dropped:exact_duplicate"] == 3 * 3
    assert (kept.counts["kept"], kept.counts["documents_in"]) == (17, 17)


def test_why_a_copy_was_dropped(planted):
    stage, found, _ = planted
    survivors = {}
    for number in range(15):
        (record,) = lookup.find(found["texts"], stage, f"{PLANTED}:{number}")
        facts = dict(document_path.of_record(record, found, stage, ()))
        assert facts["source file"] == "planted by the settings canaries"
        if "dropped by" in facts:
            assert (facts["dropped by"], facts["rule"]) == ("unique", "exact_duplicate")
            survivors[number] = facts["value"]
    assert len(survivors) == 9
    assert all(survivor.startswith(f"{PLANTED}:") for survivor in survivors.values())


def test_without_canaries_nothing_changes():
    source = Jsonl(paths=(str(Path(__file__).parents[2] / "conf"),))
    assert Texts(source=source) == Texts(source=source, canaries=Canaries())
    assert Unique.of(Decontamination(action="none"), {}) == Unique()


def test_copies_are_different_numbers():
    with pytest.raises(ConfigError) as caught:
        Canaries(copies=(4, 4))
    assert str(caught.value) == "canaries.copies: is [4, 4]; give different numbers"
