"""A run against an older one, from settings to ``why``: dedup.against."""

import json
from pathlib import Path

import pytest

from headrace.data_prep.document import read_documents
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents import document_path, samples
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import plan
from tests.small_runs import page


def write(path: Path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def overrides(folder: Path, file: str, *more: str) -> list[str]:
    source = ["source=jsonl", f"source.paths=[{folder}/{file}.jsonl]", "cleaning=none", "dedup.buckets=2"]
    return [*source, f"root={folder}/runs", "until=unique", *more]


def run(run_stage, values: list[str]) -> list[PlannedStage]:
    steps = plan(decoded(compose(values)))[:-1]  # without the report
    for step in steps:
        run_stage(step.stage, {name: Artifact(path) for name, path in step.inputs.items()}, step.folder)
    return steps


@pytest.fixture(scope="module")
def folder(run_stage, tmp_path_factory):
    """Two crawls. In ``new``, 0 is new, 1 and 2 are copies of an older page, 3 is longer and 4 shorter than one."""
    folder = tmp_path_factory.mktemp("crawls")
    write(folder / "old.jsonl", [page(1), page(2), page(3) + " The last one."])
    write(folder / "new.jsonl", [page(9), page(1), page(1), page(2) + " And one more.", page(3)])
    run(run_stage, overrides(folder, "old"))
    return folder


@pytest.fixture(scope="module")
def against(run_stage, folder):
    """The overrides and the steps of the second run."""
    (old,) = folder.glob("runs/unique/*")
    values = overrides(folder, "new", f"dedup.against=[{old}]")
    return values, run(run_stage, values), old


def test_why_names_the_older_document(folder, against):
    _, steps, old = against
    kept = [document.id for path in Artifact(steps[-1].folder).shards("documents") for document in read_documents(path)]
    assert kept == ["new.jsonl:0"]
    removed = [("exact_duplicate", 0), ("exact_duplicate", 0), ("near_duplicate", 1), ("near_duplicate", 2)]
    for record, (rule, original) in enumerate(removed, 1):
        found = dict(document_path.document_facts(steps, f"new.jsonl:{record}"))
        assert found["rule"] == rule
        assert found["duplicate of"] == f"old.jsonl:{original} of the older run unique/{old.name}"
    assert found["cluster"] == "2 documents"
    both = list(document_path.document_facts(steps, "new.jsonl:1"))
    assert ("also removed", "new.jsonl:2  jaccard 1.0000 (equal texts)") in both


def test_the_report_shows_no_pair_whose_survivor_lies_elsewhere(against):
    _, steps, _ = against
    assert samples.near_duplicates(Artifact(steps[0].folder), Artifact(steps[2].folder)) == []


def test_an_older_run_of_other_settings_is_refused_at_once(against):
    values, _, _ = against
    with pytest.raises(ConfigError, match=r"were made with shingle_words=5, ours with shingle_words=4; "):
        plan(decoded(compose([*values, "dedup.shingle_words=4"])))
