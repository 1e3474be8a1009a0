"""The language model of the project serves as a classifier: its labels are languages."""

import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.fasttext_classifier import FasttextClassifier
from headrace.data_prep.filters.fasttext_model import language_model, load
from headrace.pipeline.core.errors import ArtifactError, ConfigError

TEXT = "The river runs down the valley\nand turns the wheel of the old mill."


def test_the_score_of_the_label_decides() -> None:
    scores = dict(load(language_model())(TEXT, -1))
    assert scores["en"] > scores["nl"] > 0
    for label in ("en", "nl"):
        document = Document(TEXT, "a:0")
        assert FasttextClassifier(path=language_model(), label=label, min_score=scores[label]).judge(document) is None
        assert document.metadata == {"fasttext": {label: scores[label]}}
        drop = FasttextClassifier(path=language_model(), label=label, min_score=scores[label] + 1e-6).judge(document)
        assert drop == Drop(f"fasttext_classifier.{label}", f"{scores[label]:.6f}")


def test_a_label_that_the_model_does_not_know() -> None:
    rule = FasttextClassifier(path=language_model(), label="hq", min_score=0.01)
    with pytest.raises(ConfigError) as caught:
        rule.judge(Document(TEXT, "a:0"))
    assert str(caught.value).startswith("fasttext_classifier.label: the model has no label 'hq'; known: af, ")


def test_the_model_decides_the_address(tmp_path) -> None:
    [file] = FasttextClassifier(path=language_model(), label="en", min_score=0).raw_files()
    assert file.name == "lid.176.ftz"
    with pytest.raises(ConfigError) as caught:
        FasttextClassifier(path=str(tmp_path / "none"), label="en", min_score=0).raw_files()
    assert str(caught.value) == (
        f"fasttext_classifier.path: there is no file {tmp_path / 'none'}; name a fastText model"
    )


def test_the_label_is_checked_before_a_run_starts(tmp_path) -> None:
    FasttextClassifier(path=language_model(), label="en", min_score=0.5).check()
    with pytest.raises(ConfigError) as caught:
        FasttextClassifier(path=language_model(), label="__label__en", min_score=0.5).check()
    wrong = "fasttext_classifier.label: the model has no label '__label__en'"
    assert str(caught.value) == f"{wrong}; did you mean 'en'?"
    (tmp_path / "text").write_text("no model")
    with pytest.raises(ArtifactError):
        FasttextClassifier(path=str(tmp_path / "text"), label="en", min_score=0.5).check()
