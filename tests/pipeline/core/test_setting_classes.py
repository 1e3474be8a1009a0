"""Defaults of plain settings, compared with those of the decoded ones."""

import dataclasses
import json

import pytest

from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.options import groups
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.setting_classes import with_defaults

NEEDED = {
    "distillation": ["distillation.teacher=models/bert"],
    "mixture": [f"mixture.sources.{number}.packed=p" for number in range(1, 5)],
    "finetune": ["finetune.train=[a.tsv]", "finetune.validation=[b.tsv]"],
}
OTHERS = (
    [
        "+evaluation.benchmarks.own={type: multiple_choice, paths: [a.jsonl]}",
        "+evaluation.benchmarks.more.type=agreement",
    ],
    ["mixture.sources=[{name: own, weight: 1}, {name: web, weight: 2.5, packed: runs/packed/1}]"],
    ["cleaning.filters=[{type: python, path: 'a:B'}, {type: python, path: 'a:C', settings: {x: [1]}}]"],
    ["evaluation=standard", "evaluation.shots=5"],
    ["experiment=t5_demo"],
)


def as_decoded(values: dict) -> dict:
    return json.loads(json.dumps(dataclasses.asdict(decoded(values)), default=str))


@pytest.mark.parametrize("group", [*sorted(groups().keys() - {"cluster", "objective"}), "others"])
def test_they_are_those_of_decoded_settings(group: str) -> None:
    """Of a few options of each group: to compose all takes a minute. Objectives come with models of experiments, and
    decoding changes values of a cluster."""
    some = groups().get(group, [])[:: 1 + len(groups().get(group, [])) // 4]
    options = [[f"{group}={option}", *NEEDED.get(group, [])] for option in some]
    compared = 0
    for overrides in options or OTHERS:
        try:
            values = compose(overrides)
            expected = as_decoded(values)
        except ConfigError:  # an option that needs others
            continue
        assert with_defaults(RunConfig, values) == expected, overrides
        compared += 1
    assert compared


def test_settings_of_an_earlier_version_are_completed() -> None:
    values = compose(["experiment=demo"])
    expected = with_defaults(RunConfig, values)
    for group in ("columns", "objective"):
        del values[group]
    del values["training"]["steps"], values["training"]["seed"]
    values["training"]["former"] = {"one": [1, {"two": 2}]}
    found = with_defaults(RunConfig, values)
    assert found["training"].pop("former") == {"one": [1, {"two": 2}]}, "what is not known stays"
    del expected["training"]["steps"], expected["training"]["seed"]
    found["training"].pop("seed", None)
    assert found == expected


def test_an_unknown_type_stays_as_it_is() -> None:
    values = {"source": {"type": "carrier_pigeon", "paths": ["a"]}, "cleaning": {"filters": [{"type": "gone", "x": 1}]}}
    found = with_defaults(RunConfig, values)
    assert found["source"] == values["source"]
    assert found["cleaning"]["filters"] == [{"type": "gone", "x": 1}]
