"""The sample of an audit against a brute force over all documents."""

import dataclasses
import re
from collections import Counter
from pathlib import Path

import pytest
import xxhash
from datatrove.data import Document

from headrace.data_prep.document import read_documents
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.pipeline.documents.audit_estimates import Stratum
from headrace.pipeline.documents.audit_sheet import (
    BEGINNING,
    END,
    document_artifacts,
    drawn_sheet,
    excerpt_of,
    sheet_of,
)
from tests.small_runs import Corpus, build, run_with


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return build(tmp_path_factory.mktemp("audit"), "c4")


def all_documents(artifact: Artifact, kind: str) -> list[Document]:
    return [document for path in sorted((artifact.folder / kind).iterdir()) for document in read_documents(path)]


@pytest.mark.parametrize("seed", [0, 7])
def test_the_draw_is_the_lowest_hashes_of_all_documents(corpus: Corpus, seed: int) -> None:
    sheet = drawn_sheet(corpus.run, 4, seed)
    expected = set()
    for stage in ("texts", "clean", "unique"):
        by_rule: dict[str, list[str]] = {}
        for document in all_documents(corpus.artifact(stage), "dropped"):
            by_rule.setdefault(document.metadata["drop"]["rule"], []).append(document.id)
        if stage == "unique":
            by_rule["kept"] = [document.id for document in all_documents(corpus.artifact(stage), "documents")]
        for rule, ids in by_rule.items():
            ranked = sorted(ids, key=lambda identity: xxhash.xxh64_intdigest(identity, seed))
            expected.add(Stratum(stage, rule, len(ids), tuple(ranked[:4])))
    assert set(sheet.strata) == expected
    assert Counter(page.id for page in sheet.pages) == Counter(
        identity for stratum in sheet.strata for identity in stratum.ids
    )


def test_another_seed_draws_others_in_another_order(corpus: Corpus) -> None:
    first, again, other = (drawn_sheet(corpus.run, 4, seed) for seed in (0, 0, 1))
    assert first == again
    assert first.key != other.key
    assert [page.id for page in first.pages] != [page.id for page in other.pages]


def test_a_removed_copy_comes_with_the_page_that_stays(corpus: Corpus) -> None:
    pages = {re.search(": (.*?):|$", page.reason)[1]: page for page in drawn_sheet(corpus.run, 4, 0).pages}
    copy = pages["near_duplicate"]
    stays = {document.id: document.text for document in all_documents(corpus.artifact("clean"), "documents")}
    assert copy.survivor_text == stays[copy.survivor]
    assert copy.id != copy.survivor
    assert pages["c4_lines.sentences"].survivor == ""


def test_a_run_whose_stages_are_not_finished_is_refused(tmp_path: Path, corpus: Corpus) -> None:
    stages = [dataclasses.replace(stage, folder=tmp_path / stage.name) for stage in corpus.run.stages]
    moved = dataclasses.replace(corpus.run, stages=stages)
    with pytest.raises(ArtifactError, match="texts: is not finished, so there is no page to draw; run it first"):
        document_artifacts(moved)


def test_a_sheet_is_read_as_it_was_saved(corpus: Corpus) -> None:
    sheet = sheet_of(corpus.run, 2, 0)
    assert sheet == drawn_sheet(corpus.run, 2, 0) == sheet_of(corpus.run)
    path = corpus.run.run_json.parent / "audit/sheet.json"
    write_json(path, read_json(path) | {"seed": 5})
    with pytest.raises(ArtifactError, match="is damaged"):
        sheet_of(corpus.run)


def test_documents_that_are_not_selected_are_pages_of_unique(tmp_path: Path) -> None:
    """``selected`` is an index without documents, so there is nothing of it to draw."""
    before = build(tmp_path, "c4")
    rule = "{type: share, column: words, share: 0.5}"
    chosen = run_with(tmp_path, [*before.overrides, "columns=basic", f"selection.rules=[{rule}]"])
    assert chosen.artifact("selected").counts["dropped:share.words"]
    sheet, expected = drawn_sheet(chosen.run, 4, 0), drawn_sheet(before.run, 4, 0)
    assert (sheet.strata, sheet.pages) == (expected.strata, expected.pages)


def test_a_long_text_is_cut_in_its_middle() -> None:
    assert excerpt_of("a" * (BEGINNING + END)) == "a" * (BEGINNING + END)
    assert excerpt_of("a" * BEGINNING + "b" * 1234 + "c" * END) == (
        "a" * BEGINNING + "\n\n[… 1,234 characters …]\n\n" + "c" * END
    )
