"""A run with columns and a selection: what commands say about its documents is true of the rows."""

import json
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from headrace.data_prep.columns.scorer import read_values
from headrace.data_prep.document import read_documents
from headrace.data_prep.packed import SPLITS, held_out
from headrace.data_prep.selected import COPIES
from headrace.data_prep.selection_rules.rules import Threshold
from headrace.data_prep.tokenization.shards import PackedRows, TokenShards
from headrace.pipeline.commands import export, inspect
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.documents import forgetting
from headrace.pipeline.documents.cleaning_effects import PERCENTS_KEPT, threshold_facts
from headrace.pipeline.documents.lookup import whole
from headrace.pipeline.documents.stored_documents import columns_in
from headrace.pipeline.documents.training_rows import step_facts
from headrace.pipeline.papers.export_data import DocumentChoice
from headrace.pipeline.report.funnel import funnel, steps
from headrace.pipeline.report.report import Report
from tests.small_runs import Corpus, build, overrides, planned, run_with, trained, training_of
from tests.stage_run import run_here

COLUMNS = [
    "+columns.scorers.characters={type: length}",
    "+columns.scorers.language={type: filter, filter: {type: language}, value: language}",
    "+columns.scorers.word_length={type: filter, filter: {type: gopher_quality}, value: word_length}",
]
RULES = (
    "selection.rules=[{type: threshold, column: characters, min: 1}, {type: share, column: word_length, share: 0.6},"
    " {type: copies, column: characters, otherwise: 2.5, seed: 4}]"
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """``plain_corpus`` with three columns, of which it selects."""
    folder = tmp_path_factory.mktemp("columns")
    build(folder, "none")
    return run_with(folder, [*overrides(folder, "none"), *COLUMNS, RULES])


def copies_of(corpus: Corpus) -> dict[str, int]:
    """The copies of each document of unique, by its id."""
    unique, selected = corpus.artifact("unique"), corpus.artifact("selected")
    copies = {}
    for shard in range(unique.shard_count):
        ids = [document.id for document in read_documents(unique.shard("documents", shard, "jsonl.zst"))]
        numbers = np.load(selected.shard(COPIES, shard, "npy")).tolist()
        copies |= dict(zip(ids, numbers, strict=True))
    return copies


def rows_by_document(corpus: Corpus) -> dict[str, Counter[str]]:
    """The number of spans that begin each document, by split and id, from the rows themselves."""
    shards, packed, unique = (
        TokenShards(corpus.artifact("tokens")),
        corpus.artifact("packed"),
        corpus.artifact("unique"),
    )
    ids = [
        [document.id for document in read_documents(unique.shard("documents", shard, "jsonl.zst"))]
        for shard in range(unique.shard_count)
    ]
    found = {split: Counter[str]() for split in SPLITS}
    for split in SPLITS:
        rows = PackedRows(packed, split)
        for shard, start, _ in (span for row in range(len(rows)) for span in rows.spans(row).tolist()):
            if start in shards.bounds(shard)[:-1]:
                found[split][ids[shard][shards.document(shard, start)]] += 1
    return found


def test_the_rows_hold_each_document_as_often_as_it_has_copies(corpus: Corpus) -> None:
    copies, rows = copies_of(corpus), rows_by_document(corpus)
    assert set(copies.values()) == {0, 2, 3}
    assert rows["train"] + rows["validation"] == +Counter(copies)
    assert not rows["train"].keys() & rows["validation"].keys(), "copies of a document are in one split"
    tokens = corpus.artifact("tokens")
    keys = np.concatenate([np.load(tokens.shard("keys", shard, "npy")) for shard in range(tokens.shard_count)])
    is_held = dict(zip(copies, held_out(keys, 0.4).tolist(), strict=True))
    assert {name for name, number in copies.items() if number and is_held[name]} == rows["validation"].keys()


def test_without_columns_no_address_changes(corpus: Corpus) -> None:
    before = {step.name: step.address for step in planned(corpus.folder, overrides(corpus.folder, "none")).steps}
    now = {step.name: step.address for step in corpus.steps}
    assert [name for name in before if before[name] != now[name]] == ["packed"]
    other_rules = RULES.replace("word_length", "characters")
    changed = planned(corpus.folder, [*overrides(corpus.folder, "none"), *COLUMNS[:2], other_rules])
    other = {step.name: step.address for step in changed.steps}
    assert {name for name in other if other[name] != now[name]} == {"selected", "packed"}


def test_why_says_values_and_copies(corpus: Corpus) -> None:
    unique = corpus.artifact("unique")
    values = [read_values(columns_in(whole(corpus.steps))["word_length"], shard) for shard in range(2)]
    for identity, copies in copies_of(corpus).items():
        facts = corpus.why(identity)
        shard = int(identity.startswith(corpus.second))
        row = [d.id for d in read_documents(unique.shard("documents", shard, "jsonl.zst"))].index(identity)
        measured = values[shard][row]
        assert dict(facts)["column word_length"] == ("none" if np.isnan(measured) else f"{measured:g}")
        shown = dict(facts)["copies"]
        assert shown == str(copies) if copies else shown.startswith("0, not selected by ")
        assert len([fact for name, fact in facts if name == "row" and " from " in fact]) >= copies
        assert bool(copies) == any(name == "split" for name, _ in facts)


def test_the_documents_of_a_step_are_selected(corpus: Corpus) -> None:
    run = trained(training_of(corpus, "training.steps=2"))
    copies = copies_of(corpus)
    spans = [fact for step in ("1", "2") for name, fact in step_facts(run, step) if name == "span"]
    named = {identity for identity in copies if any(f": {identity} " in f"{span} " for span in spans)}
    assert named
    assert all(copies[identity] for identity in named)


def test_a_forgotten_document_loses_all_copies(corpus: Corpus) -> None:
    copies = copies_of(corpus)
    several = next(identity for identity, number in copies.items() if number == 3)
    none = next(identity for identity, number in copies.items() if not number and ":10" not in identity)
    fates = forgetting.fates_of(corpus.steps, [several, none])
    facts = list(forgetting.fate_facts(corpus.steps, fates))
    assert ("row", "none: not selected by share.word_length") in facts
    again = forgetting.without(corpus.run, fates)
    made = run_with(corpus.folder, [*corpus.overrides, f"packing.forget={again.config.packing.forget}"])
    rows = rows_by_document(made)
    assert rows["train"] + rows["validation"] == +Counter({**copies, several: 0})
    counts = made.artifact("packed").counts
    assert (counts["forgotten_documents"], counts["forgotten_copies"]) == (2, 3)


def test_the_funnel_has_the_selection(corpus: Corpus) -> None:
    last = steps(funnel(whole(corpus.steps)))[-1]
    assert (last.name, last.documents) == ("selected", sum(map(bool, copies_of(corpus).values())))


def test_inspect_shows_the_documents_nearest_to_a_value(corpus: Corpus) -> None:
    column = columns_in(whole(corpus.steps))["characters"]
    values = sorted(value for shard in range(2) for value in read_values(column, shard).tolist())
    nearest = sorted(sorted(values, key=lambda value: abs(value - 600))[:4])
    chosen = inspect.chosen(corpus.steps, "unique", "", "4", score="characters", around="600")
    shown = [dict(inspect.facts_of(page))["column characters"] for page in chosen.kept]
    assert shown == [f"{value:g}" for value in nearest]
    assert [len(page.document.text) for page in chosen.kept] == nearest


@pytest.mark.parametrize(
    ("stage", "score", "around", "message"),
    [
        (
            "clean",
            "characters",
            "1",
            "no filter stored a number 'characters' with the documents of clean; give one that",
        ),
        ("clean", "language.en", "1", "no filter stored a number 'language.en'"),
        ("packed", "characters", "1", "'packed' does not keep or drop documents"),
        ("unique", "characers", "1", "no column 'characers'; did you mean 'characters'"),
        ("unique", "language", "1", "holds texts; name one of numbers"),
        ("unique", "characters", "", "belong together"),
        ("unique", "characters", "nan", "around"),
    ],
)
def test_inspect_refuses(corpus: Corpus, stage: str, score: str, around: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        inspect.chosen(corpus.steps, stage, score=score, around=around)


def test_thresholds_keep_the_shares_that_they_say(corpus: Corpus) -> None:
    column = columns_in(whole(corpus.steps))["word_length"]
    values = [value for shard in range(2) for value in read_values(column, shard).tolist()]
    numbers = [value for value in values if not math.isnan(value)]
    printed = dict(threshold_facts(corpus.run, "column.word_length", "3.5"))
    assert printed["documents"] == f"{len(values)}, {len(values) - len(numbers)} of them without a value"
    assert len(printed) == 2 + len(PERCENTS_KEPT)
    for percent in PERCENTS_KEPT:
        rules = re.findall(r"(min|max)=(\S+): (\d+) \((\S+)%\)", printed[f"share {percent} %"])
        assert [name for name, *_ in rules] == ["min", "max"]
        for name, limit, kept, share in rules:
            rule = decode(Threshold, {"type": "threshold", "column": "word_length", name: float(limit)})
            assert int(kept) == rule.factors(np.array(numbers)).sum() >= percent / 100 * len(numbers)
            fewer = [value for value in numbers if (value > float(limit) if name == "min" else value < float(limit))]
            assert len(fewer) < percent / 100 * len(numbers)
            assert float(share) == round(100 * int(kept) / len(numbers), 1)
    above, below = (sum(value >= 3.5 for value in numbers), sum(value <= 3.5 for value in numbers))
    assert re.findall(r"min=3.5: (\d+) .*max=3.5: (\d+) ", printed["at 3.5"]) == [(str(above), str(below))]


@pytest.mark.parametrize(
    ("column", "at", "message"),
    [
        ("column.word_lenght", "", "RULE: the run has computed no column 'word_lenght'; did you mean 'word_length'"),
        ("column.language", "", "RULE: the column 'language' holds texts; name one of numbers"),
        ("column.word_length", "high", "--at: must be a number"),
    ],
)
def test_thresholds_refuses(corpus: Corpus, column: str, at: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        list(threshold_facts(corpus.run, column, at))


def test_inspect_says_how_to_compute_a_column_that_comes_after_the_end_of_the_run(corpus: Corpus) -> None:
    before = [stage for stage in corpus.steps if not stage.name.startswith("column.")]
    with pytest.raises(ConfigError, match=r"computed no column 'characters'; .* until=column\.characters or later"):
        inspect.chosen(before, "unique", "", "", score="characters", around="600")


def test_export_has_the_columns(corpus: Corpus, tmp_path: Path) -> None:
    artifacts = whole(corpus.steps)
    export.write(artifacts["unique"], tmp_path / "pages.jsonl", DocumentChoice().of_run("unique", artifacts))
    rows = [json.loads(line) for line in (tmp_path / "pages.jsonl").read_text().splitlines()]
    assert len(rows) == artifacts["unique"].counts["kept"]
    for row in rows:
        assert row["columns.characters"] == len(row["text"])
        assert (row["columns.word_length"] is None) == (not row["text"])


def test_the_report_shows_columns_and_selection(corpus: Corpus, tmp_path: Path) -> None:
    inputs = {name: artifact for name, artifact in whole(corpus.steps).items() if name != "weights"}
    stage = Report(cleaning=corpus.config.cleaning, shown=tuple(inputs))
    page = run_here(stage, inputs, tmp_path / "report" / "r").path("report.html").read_text(encoding="utf-8")
    kept = sum(map(bool, copies_of(corpus).values()))
    assert f"{kept} of {len(copies_of(corpus))} unique documents are trained on" in page
    for part in ("column-word_length", "<h3>language</h3>", "share.word_length"):
        assert part in page


def test_a_selection_of_nothing_is_refused_before_rows_are_packed(corpus: Corpus) -> None:
    rules = "selection.rules=[{type: threshold, column: characters, max: -1}]"
    (selected, packed) = (
        step
        for step in planned(corpus.folder, [*overrides(corpus.folder, "none"), *COLUMNS, rules]).steps
        if step.name in ("selected", "packed")
    )
    run_here(selected.stage, {name: Artifact(path) for name, path in selected.inputs.items()}, selected.folder)
    with pytest.raises(ConfigError, match=r"selected: none of \d+ documents is left.*change selection.rules"):
        packed.refuse_empty_inputs()
