"""The figures of a study from planted readings."""

import json

import pytest

from headrace.pipeline.experiments import study_file as plans
from headrace.pipeline.experiments.arms import ArmResult
from headrace.pipeline.experiments.measures import Measured, Reading
from headrace.pipeline.experiments.study_file import Study, decoded_study
from headrace.pipeline.experiments.study_results import Findings

STUDY = """title: Sizes
question: Does size help?
expectation: It does.
overrides: [experiment=demo, training.steps=2]
arms: {small: [model.width=64], large: [model.width=128]}
sizes: {tiny: [], small: [], paper: []}
held_equal: [steps]
measures: {none: piqa_0shot.acc, four: piqa_4shot.acc, loss: validation_loss}
claims: [{claim: Size helps with examples., rising: [small.four - small.none, large.four - large.none]}]
"""


@pytest.fixture
def study(tmp_path) -> Study:
    (tmp_path / "sizes.yaml").write_text(STUDY)
    return decoded_study(tmp_path / "sizes.yaml").at("tiny")


def measured(none: float, four: float) -> Reading:
    shares = {"none": Measured(none, 0.5, True), "four": Measured(four, 0.5, True)}
    return Reading({**shares, "loss": Measured(4.0, 7.6, False)}, [], 1.0)


def test_numbers_of_examples_are_marks_of_one_figure(study):
    runs = [
        ArmResult(arm, "done", "run", measured(0.5, four + 0.01 * seed), seed)
        for seed in range(3)
        for arm, four in (("small", 0.5), ("large", 0.75))
    ]
    findings = Findings("sizes", study, "tiny", 3, plans.arm_plans("sizes", study, "tiny", []), runs)
    drawn = {figure.id: json.loads(figure.json) for figure, _ in findings.figures()}
    assert list(drawn) == ["measure-piqa-acc", "measure-validation_loss", "claims"]
    marks = {trace["name"]: trace["x"] for trace in drawn["measure-piqa-acc"]["data"]}
    assert marks == {"none": [0.5, 0.5], "four": pytest.approx([0.51, 0.76])}
    assert drawn["measure-piqa-acc"]["layout"]["yaxis"]["ticktext"] == ["small", "large"]
    (verdict,) = findings.decisions
    assert (verdict.verdict, verdict.steps[0].difference) == ("confirmed", pytest.approx(0.25))
    assert "(large.four - large.none) − (small.four - small.none)" in findings.verdicts_table()[1]
