"""The filter keeps the pages that the project's own classifier scores high enough."""

import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.linear_classifier_filter import LinearClassifierFilter
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from tests.data_prep.small_classifier import MILL, small_classifier, write_classifier


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(write_classifier(tmp_path_factory.mktemp("classifier") / "mill.model"))


def test_the_score_of_the_label_decides(model):
    scores = small_classifier().scores(MILL[0])
    for label, score in scores.items():
        document = Document(MILL[0], "a:0")
        assert LinearClassifierFilter(path=model, label=label, min_score=score).judge(document) is None
        assert document.metadata == {"classifier": {label: score}}
        drop = LinearClassifierFilter(path=model, label=label, min_score=score + 1e-9).judge(document)
        assert drop == Drop(f"linear_classifier.{label}", f"{score:.6f}")


def test_a_label_that_the_model_does_not_know(model):
    with pytest.raises(ConfigError) as caught:
        LinearClassifierFilter(path=model, label="mil", min_score=0.5).check()
    assert str(caught.value) == "linear_classifier.label: the model has no label 'mil'; did you mean 'mill'?"


def test_the_content_of_the_model_decides_the_address(model, tmp_path):
    [file] = LinearClassifierFilter(path=model, label="mill", min_score=0.5).raw_files()
    assert (file.name, file.bytes) == ("mill.model", len(small_classifier().to_bytes()))
    with pytest.raises(ConfigError, match=r"there is no file .*; name a file that headrace train-classifier wrote"):
        LinearClassifierFilter(path=str(tmp_path / "none"), label="mill", min_score=0.5).check()
    (tmp_path / "text").write_text("no model")
    with pytest.raises(ArtifactError, match="is no linear classifier"):
        LinearClassifierFilter(path=str(tmp_path / "text"), label="mill", min_score=0.5).check()
