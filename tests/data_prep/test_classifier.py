"""The stage ``classifier``: its model against that of the same texts without a run, and a filter and column by it."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.data_prep.classifier import Classifier, ClassifierTraining
from headrace.data_prep.classifiers.linear_classifier import MODEL_FILE, load
from headrace.data_prep.classifiers.linear_training import CountedSample, LabelledText, LinearTraining, divided, trained
from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.column import Column
from headrace.data_prep.columns.scorer import read_values
from headrace.data_prep.columns.scorers import FilterValue
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.text_classifiers import LinearClassifierFilter
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.texts import Texts
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from tests.data_prep.small_classifier import MILL, OTHER
from tests.stage_run import run_here

TRAINING = {"ngrams": {"bucket_bits": 12}, "held_out": 0.3}
ROWS = {name: [f"{text} {n}" for n in range(8) for text in texts] for name, texts in (("mill", MILL), ("other", OTHER))}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with ``mill.jsonl``, of which a record has no text, and ``other.txt``."""
    rows = [{"text": text} for text in ROWS["mill"]]
    (tmp_path / "mill.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"text": 5}]))
    (tmp_path / "other.txt").write_text("\n".join(ROWS["other"]) + "\n")
    return tmp_path


def stage(*examples: dict[str, Any]) -> Classifier:
    return Classifier(settings=decode(ClassifierTraining, {"examples": examples, "training": TRAINING}))


def of_files(folder: Path) -> Classifier:
    own = {"type": "files", "path": str(folder / "mill.jsonl"), "label": "mill"}
    return stage(own, {"type": "files", "path": str(folder / "other.txt"), "label": "other"})


def directly(examples: list[LabelledText]) -> bytes:
    """Returns the model of the texts, without a stage."""
    training = decode(LinearTraining, TRAINING)
    return trained(divided(CountedSample.of(examples, training.ngrams, 2), training)[0], training).to_bytes()


def of_rows(file_mill: str = "mill.jsonl", file_other: str = "other.txt") -> list[LabelledText]:
    files = {"mill": file_mill, "other": file_other}
    return [LabelledText(f"{files[name]}:{n}", text, name) for name in ROWS for n, text in enumerate(ROWS[name])]


def model(artifact: Artifact) -> bytes:
    return artifact.path(MODEL_FILE).read_bytes()


def test_the_model_is_that_of_the_texts_whatever_the_order_of_tasks(files: Path) -> None:
    made = run_here(of_files(files), {}, files / "classifier" / "a")
    again = run_here(of_files(files), {}, files / "classifier" / "b", backwards=True, twice=True)
    assert model(made) == directly(of_rows())
    assert (again.folder / "manifest.json").read_bytes() == (made.folder / "manifest.json").read_bytes()
    counts = made.counts
    assert (counts["texts"], counts["label:mill"], counts["left_out:no_text"]) == (48, 24, 1)
    judgement = json.loads(made.path("judgement.json").read_text())
    assert judgement["held_out"]["texts"] == counts["held_out"] > 0
    assert "mill" in [entry["ngram"] for entry in judgement["distinctive"]["mill"]]


def test_an_address_follows_the_contents_and_not_their_place(files: Path, tmp_path: Path) -> None:
    before = of_files(files).address({})
    (moved := tmp_path / "moved").mkdir()
    for name in ("mill.jsonl", "other.txt"):
        (files / name).rename(moved / name)
    assert of_files(moved).address({}) == before
    with (moved / "mill.jsonl").open("a") as file:
        file.write('{"text": "more"}\n')
    assert of_files(moved).address({}) != before


def test_texts_of_an_earlier_run_and_of_the_run_itself(files: Path) -> None:
    kept = {name: Texts(source=Jsonl(paths=(str(files / f"{name}.jsonl"),))) for name in ROWS}
    (files / "other.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in ROWS["other"]))
    texts = {name: run_here(kept[name], {}, files / "texts" / name) for name in ROWS}
    own = stage(
        {"type": "run", "artifact": str(texts["mill"].folder), "label": "mill"}, {"type": "texts", "label": "other"}
    )
    made = run_here(own, {"texts": texts["other"]}, files / "classifier" / "c")
    assert model(made) == directly(of_rows(file_other="other.jsonl"))
    half = stage(
        {"type": "source", "source": {"type": "jsonl", "paths": str(files / "mill.jsonl")}, "label": "mill"},
        {"type": "texts", "label": "other", "share": 0.5},
    )
    counts = run_here(half, {"texts": texts["other"]}, files / "classifier" / "d").counts
    assert 0 < counts["label:other"] < 24
    assert counts["label:other"] + counts["left_out:not_drawn"] == 24
    own_texts = {"type": "run", "artifact": str(files / "texts"), "label": "mill"}
    with pytest.raises(ConfigError, match=r"^classifier\.examples\.artifact: .* is no finished artifact of texts,"):
        stage(own_texts, {"type": "texts", "label": "other"}).raw_files()


def test_a_filter_and_a_column_use_the_classifier_of_the_run(files: Path) -> None:
    made = run_here(of_files(files), {}, files / "classifier" / "a")
    texts = run_here(Texts(source=Jsonl(paths=(str(files / "mill.jsonl"),))), {}, files / "texts" / "t")
    drops = LinearClassifierFilter(label="other", min_score=0.5)
    clean = Clean(cleaning=Cleaning(filters=(drops,)))
    assert clean.inputs == ("texts", "classifier")
    cleaned = run_here(clean, {"texts": texts, "classifier": made}, files / "clean" / "c")
    scores = {text: load(str(made.path(MODEL_FILE))).scores(text)["other"] for text in ROWS["mill"]}
    dropped = [document.text for shard in cleaned.shards("dropped") for document in read_documents(shard)]
    assert dropped == [text for text in ROWS["mill"] if scores[text] < 0.5]
    column = Column(column="x", scorer=FilterValue(filter=drops))
    assert column.inputs == ("unique", "classifier")
    values = run_here(column, {"unique": texts, "classifier": made}, files / "column" / "x")
    assert read_values(values, 0).tolist() == list(scores.values())
    with pytest.raises(ConfigError, match=r"^linear_classifier\.path: is null, and no run trains"):
        drops.scores("text")


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([{"type": "texts", "label": "a"}], "classifier.examples: all texts have the label 'a'; give a set with anoth"),
        ([{"type": "texts", "label": "a", "share": 0}], "examples.0.share: must be above 0 (got 0)"),
    ],
)
def test_wrong_examples_are_refused(examples: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode(ClassifierTraining, {"examples": examples}, "classifier")
    assert message in str(caught.value)


def test_the_model_of_an_extractor_is_a_file_of_the_set_and_no_record(files: Path) -> None:
    (files / "page.html").write_text("<p>The wheel of the mill stands still.</p>")
    own = stage(
        {"type": "files", "path": str(files / "page.html"), "label": "mill"}, {"type": "texts", "label": "other"}
    )
    own.check_start()
    assert [file.name for file in own.raw_files()] == ["0/page.html", "0/the extractor's model"]
    assert [phase.tasks for phase in own.phases({"texts": 2})] == [3, 1]


def test_a_set_without_labels_is_refused_before_the_run(files: Path) -> None:
    unnamed = {"type": "files", "path": str(files / "other.txt")}
    with pytest.raises(ConfigError, match=r"^classifier\.examples: other\.txt:0 has no label; give label"):
        stage(unnamed, {"type": "texts", "label": "a"}).check_start()


def test_a_label_that_no_example_has_is_refused() -> None:
    training = decode(ClassifierTraining, {"examples": [{"type": "texts", "label": name} for name in ("hq", "cc")]})
    training.check_label("hq")
    with pytest.raises(ConfigError, match=r"^linear_classifier\.label: classifier\.examples has no label 'hp'"):
        training.check_label("hp")
    with pytest.raises(ConfigError, match=r"^linear_classifier\.path: is null, and classifier\.examples is empty"):
        ClassifierTraining().check_label("hq")
