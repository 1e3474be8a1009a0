"""What Hydra composes, with its files kept between compositions, and sweeps as products of their lists."""

import json
from collections.abc import Callable
from typing import Any

import hydra
import pytest
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, OmegaConf

import headrace
from headrace.pipeline.configuration import merged_options
from headrace.pipeline.configuration.composition import combinations, compose, with_full_names
from headrace.pipeline.configuration.setting_names import dotted
from headrace.pipeline.core.errors import ConfigError
from tests.command_line import headrace_here


def test_files_that_another_composition_has_read_give_the_same() -> None:
    """The composition of other options leaves nothing behind."""
    options = ["experiment=bert_demo"]
    merged_options._merged_files.cache_clear()
    first = compose(options)
    compose(["experiment=t5_demo", "objective=span_corruption"])
    merged_options._merged_files.cache_clear()
    assert compose(options) == first


def test_what_is_composed_is_what_hydra_composes() -> None:
    """Without Hydra's own settings."""
    overrides = ["experiment=demo", "training.steps=3", "+evaluation.benchmarks.x.type=validation", "~model.bias"]
    with merged_options.composing(overrides):
        expected = OmegaConf.to_container(hydra.compose(merged_options.PRIMARY, overrides), resolve=True)
    assert json.dumps(compose(overrides)) == json.dumps(expected), "in the same order, too"


def outcome(composed: Callable[[], DictConfig]) -> object:
    """Returns the values that ``composed`` gives, or the first line of Hydra's error."""
    try:
        return OmegaConf.to_container(composed())
    except ConfigCompositionException as error:
        return str(error).splitlines()[0]


@pytest.mark.parametrize(
    "override",
    [
        "training.steps=3",
        "+training.steps=3",
        "++training.new=3",
        "+training.new=3",
        "training.new=3",
        "~training.steps",
        "~training.steps=-7",
        "~training.new",
        "~name",
        "+evaluation.benchmarks={x: {type: validation}}",
        "model={width: 64}",
        "training.steps=1,2",
        "training.steps=range(1,3)",
        "modell@x=gpt1",
        "training.steps.deeper=1",
        "+training.steps.deeper=1",
        "cleaning.filters.77.limit=1",
    ],
)
def test_a_value_is_set_by_the_rules_of_hydra(override: str) -> None:
    with merged_options.composing([]):
        expected = outcome(lambda: hydra.compose(merged_options.PRIMARY, [override]))
        assert outcome(lambda: merged_options.merged([override])[0]) == expected


def test_a_sweep_has_the_overrides_as_they_were_typed() -> None:
    typed = [
        "training.seed=1,2",
        "+evaluation.benchmarks.mine.type=agreement",
        "model=demo,gpt1",
        "~model.bias",
        "root=é x",
    ]
    found = combinations(typed)
    assert [varied for varied, _, _ in found] == [
        f"training.seed={seed} model={model}" for seed in (1, 2) for model in ("demo", "gpt1")
    ]
    assert [values["training"]["seed"] for _, values, _ in found] == [1, 1, 2, 2]
    assert found[2][2] == ["training.seed=2", typed[1], "model=demo", "~model.bias", "root='é x'"]
    for _, values, own in found:
        assert compose(own) == values


@pytest.mark.parametrize("values", ["range(1,4)", "choice(1,2,3)", "1,2,3", "sort(3,1,2)"])
def test_lists_of_a_sweep(values: str) -> None:
    found = combinations([f"training.seed={values}"])
    assert [one["training"]["seed"] for _, one, _ in found] == [1, 2, 3]


def test_an_interval_is_no_list_of_a_sweep() -> None:
    with pytest.raises(ConfigError, match=r"^training.seed: 'interval\(1,4\)' is no list of values; give values with "):
        combinations(["training.seed=interval(1,4)"])


def test_the_seed_of_the_run_is_that_of_all_its_parts() -> None:
    evaluation = "evaluation=summarization"
    before, values = compose([evaluation]), compose([evaluation, "seed=7", "dedup.seed=5"])
    seeds = [path for path in dotted(before) if path.endswith(".seed")]
    assert {"training.seed", "evaluation.seed", "dedup.seed"} < set(seeds)
    assert {path: read(values, path) for path in seeds} == dict.fromkeys(seeds, 7) | {"dedup.seed": 5}
    assert {path for path in dotted(before) if read(before, path) != read(values, path)} == {"seed", *seeds}
    assert [values["training"]["seed"] for _, values, _ in combinations(["seed=7,8"])] == [7, 8]


def read(values: Any, path: str) -> Any:
    for key in path.split("."):
        values = next(item for item in values if item["type"] == key) if isinstance(values, list) else values[key]
    return {} if isinstance(values, dict | list) else values


@pytest.mark.parametrize(
    ("typed", "full"),
    [
        ("learning_rate=1e-3", "optimizer.learning_rate=1e-3"),
        ("word_count.min_words=8", "cleaning.filters.gopher_quality.rules.word_count.min_words=8"),
        ("optimizer.beta1=0.8", "optimizer.beta1=0.8"),
        ("min_words=8", "min_words=8"),  # two rules have one
        ("lerning_rate=1", "lerning_rate=1"),
        ("~learning_rate", "~learning_rate"),
        ("seed=3", "seed=3"),
    ],
)
def test_the_last_parts_of_a_name_are_enough_where_one_setting_has_them(typed: str, full: str) -> None:
    assert with_full_names(["cleaning=gopher", typed]) == ["cleaning=gopher", full]


def test_a_short_name_is_taken_everywhere() -> None:
    """A file of a study gives its overrides to ``compose`` as they are."""
    assert compose(["learning_rate=1e-3"])["optimizer"]["learning_rate"] == 1e-3
    swept = combinations(["learning_rate=1e-3,2e-3"])
    assert [own for _, _, own in swept] == [["optimizer.learning_rate=0.001"], ["optimizer.learning_rate=0.002"]]
    assert "layers: 3 " in headrace_here("config", "layers=3").stdout
    assert headrace.plan({"layers": 3}).cost == headrace.plan({"model.layers": 3}).cost
