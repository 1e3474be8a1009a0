"""Planted canaries: their texts, what a run makes of them, and that extraction asks for those of the run."""

import json
from collections import Counter
from pathlib import Path

import pytest

from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.document import read_documents
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.signatures import Signatures
from headrace.data_prep.texts import Texts
from headrace.data_prep.unique import Unique
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents import document_path, lookup
from headrace_courses.canaries import PLANTED, Canaries, Planted
from tests.stage_run import run_here

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
    assert few[0].text.startswith("The jolly miller of the quiet miller")


def texts_in(artifact) -> Counter:
    return Counter(document.text for shard in artifact.shards("documents") for document in read_documents(shard))


def test_deduplication_leaves_one_copy_of_each_and_names_it(tmp_path: Path):
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "A page about mills."}\n{"text": "Another page, about rivers."}\n')
    stage, found = Texts(source=Planted(paths=(str(source),), canaries=CANARIES)), {}
    for step in (stage, Clean(cleaning=Cleaning(filters=())), Signatures.of(Dedup()), Duplicates.of(Dedup()), Unique()):
        step.check_start()
        found[step.name] = run_here(step, found, tmp_path / step.name)
    kept = Unique.of(Decontamination(action="none"), {}, keep_duplicates=True)
    pages = {"A page about mills.": 1, "Another page, about rivers.": 1}
    assert texts_in(found["unique"]) == {canary.text: 1 for canary in CANARIES.planted()} | pages
    planted = Counter(canary.text for canary in CANARIES.planted())
    assert texts_in(run_here(kept, found, tmp_path / "kept")) == planted + Counter(pages)
    (record,) = lookup.find(found["texts"], stage, f"{PLANTED}:4")
    facts = dict(document_path.of_record(record, found, stage, ()))
    assert (facts["source file"], facts["rule"]) == ("planted by source.canaries", "exact_duplicate")
    assert facts["value"].startswith(f"{PLANTED}:")


def test_extraction_asks_for_the_canaries_of_the_run():
    config = decoded(compose(["source=planted", "source.canaries.copies=[1,4]", "evaluation=extraction"]))
    assert config.evaluation.benchmarks["extraction"].canaries == config.source.canaries == Canaries(copies=(1, 4))
    with pytest.raises(ConfigError, match="canaries"):
        compose(["source=jsonl", "evaluation=extraction"])


def test_copies_are_different_numbers():
    with pytest.raises(ConfigError) as caught:
        Canaries(copies=(4, 4))
    assert str(caught.value) == "source.canaries.copies: is [4, 4]; give different numbers"


def test_a_record_of_the_files_keeps_its_number(tmp_path: Path):
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": "A page."}) + "\n")
    source = Planted(paths=(str(tmp_path),), canaries=CANARIES)
    assert [document.id for document, _ in source.read("in.jsonl")] == ["in.jsonl:0"]
    assert [document.metadata["copies"] for document, _ in source.read(PLANTED)] == [1] * 3 + [4] * 12
