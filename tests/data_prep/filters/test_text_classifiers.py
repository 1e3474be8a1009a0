"""The filters by a classifier keep the pages that it scores high enough; fastText's model of languages is one."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.fasttext_model import language_model, load
from headrace.data_prep.filters.text_classifiers import FasttextClassifier, LinearClassifierFilter
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from tests.data_prep.small_classifier import MILL, small_classifier, write_classifier

RIVER = "The river runs down the valley\nand turns the wheel of the old mill."


class Case(NamedTuple):
    """A kind of filter with a model, the scores of a text, and a wrong label with the right one."""

    kind: Any
    path: str
    text: str
    scores: Mapping[str, float]
    wrong: str
    meant: str


@pytest.fixture(params=["fasttext", "linear"])
def case(request, tmp_path) -> Case:
    if request.param == "linear":
        path = str(write_classifier(tmp_path / "mill.model"))
        scores = small_classifier().scores(MILL[0])
        return Case(LinearClassifierFilter, path, MILL[0], scores, "mil", "mill")
    every = dict(load(language_model())(RIVER, -1))
    assert every["en"] > every["nl"] > 0
    scores = {label: every[label] for label in ("en", "nl")}
    return Case(FasttextClassifier, language_model(), RIVER, scores, "__label__en", "en")


def test_the_score_of_the_label_decides(case) -> None:
    for label, score in case.scores.items():
        document = Document(case.text, "a:0")
        rule = case.kind(path=case.path, label=label, min_score=score)
        assert rule.judge(document) is None
        assert document.metadata == {rule.metadata_key: {label: score}}
        drop = case.kind(path=case.path, label=label, min_score=score + 1e-6).judge(document)
        assert drop == Drop(f"{rule.type}.{label}", f"{score:.6f}")


def test_a_label_that_the_model_does_not_know(case) -> None:
    """A run is refused before it starts."""
    rule = case.kind(path=case.path, label=case.wrong, min_score=0.5)
    message = f"{rule.type}.label: the model has no label {case.wrong!r}; did you mean {case.meant!r}?"
    for use in (rule.check, lambda: rule.judge(Document(case.text, "a:0"))):
        with pytest.raises(ConfigError) as caught:
            use()
        assert str(caught.value) == message
    case.kind(path=case.path, label=case.meant, min_score=0.5).check()


def test_the_content_of_the_model_decides_the_address(case, tmp_path) -> None:
    rule = case.kind(path=case.path, label=case.meant, min_score=0.5)
    [file] = rule.raw_files()
    assert file.name in ("mill.model", "lid.176.ftz")
    missing = case.kind(path=str(tmp_path / "none"), label=case.meant, min_score=0.5)
    with pytest.raises(ConfigError) as caught:
        missing.raw_files()
    assert str(caught.value) == f"{rule.type}.path: there is no file {tmp_path / 'none'}; name {rule.expected}"
    (tmp_path / "text").write_text("no model")
    with pytest.raises(ArtifactError, match=r"is (no linear classifier|not a fastText model)"):
        case.kind(path=str(tmp_path / "text"), label=case.meant, min_score=0.5).check()
