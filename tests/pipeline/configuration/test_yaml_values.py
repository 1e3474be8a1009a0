"""YAML is read alike by all doors, and a key that a mapping has twice is refused with both lines."""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from headrace.pipeline.command_line.config_sources import sources_of
from headrace.pipeline.command_line.setting_help import explanation
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.configuration.options import CONF
from headrace.pipeline.configuration.yaml_values import yaml_text, yaml_values
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.experiments.study_file import decoded_study

SCALARS = [
    *("no", "On", "y", "yes", "NO", "off", "true", "1e-3", "1E5", "1.5e3", "-1e3", "1.", ".5", "1_000", "0x1F", "017"),
    *("0o17", "0b11", "12:30", "1:2:3.5", "2024-06-01", "2024-06-01T10:00:00", "12", "-0", "+1", ".inf", "-.INF", "*"),
    *(".NaN", "~", "null", "'no'", '"1e-3"', "'12:30'", "!!str 12", "1e", "1e+", "e3", "1.2.3", "08", "_1", "-", "???"),
]
TWICE = [
    ("a: 1\nb: 2\na: 3\n", "a", 1, 3),
    ("'a': 1\n\"a\": 2\n", "a", 1, 2),
    ("x:\n  - {k: 1,\n     b: 0, k: 2}\n", "k", 2, 3),
    ("x:\n  y:\n    z: {}\n    z: {}\n", "z", 3, 4),
    ("1: a\n1: b\n", "1", 1, 2),
    ("1: a\n01: b\n", "01", 1, 2),
    ("no: {a: 1}\nde: {a: 1}\nno: {a: 2}\n", "no", 1, 3),
    ("no: a\nfalse: b\n", "false", 1, 2),
    ("~: a\nnull: b\n", "null", 1, 2),
    ("- {a: &A {b: 1, b: 2}}\n- *A\n", "b", 1, 1),
]
ONCE = [
    "a: {b: 1}\nb: {b: 2}\n",
    "base: &A {a: 1, b: 2}\nx: {<<: *A, a: 3}\ny: {<<: [*A, *A]}\n",
    "- a: 1\n- a: 2\n",
    "a: &A [1]\nb: *A\n",
    "1: a\n'1': b\n",
    "",
    "# nothing\n",
]


@pytest.mark.parametrize("text", SCALARS)
def test_a_value_is_what_hydra_reads(text):
    try:
        theirs = OmegaConf.to_container(OmegaConf.create(f"a: {text}"))
    except yaml.YAMLError:
        with pytest.raises(yaml.YAMLError):
            yaml_values(f"a: {text}")
        return
    assert repr(yaml_values(f"a: {text}")) == repr(theirs)


@pytest.mark.parametrize(("text", "key", "first", "again"), TWICE)
def test_a_key_that_is_there_twice_has_both_lines(text, key, first, again):
    with pytest.raises(yaml.YAMLError) as refused:
        yaml_values(text)
    assert refused.value.problem == f"the key {key!r} is also in line {first}"
    assert refused.value.problem_mark.line + 1 == again


@pytest.mark.parametrize("text", ONCE)
def test_keys_of_several_mappings_and_merges_are_read(text):
    assert yaml_values(text) == yaml.safe_load(text)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Writes an option into the conf folder of the user."""
    monkeypatch.setenv("HEADRACE_CONFIG_DIR", str(tmp_path))

    def write(group, text):
        (tmp_path / group).mkdir(exist_ok=True)
        (tmp_path / group / "mine.yaml").write_text(text)
        return tmp_path / group / "mine.yaml"

    return write


DOORS = {
    "a run": lambda: compose(["cleaning=mine"]),
    "headrace config": lambda: sources_of(["cleaning=mine"]),
    "headrace help": lambda: explanation("cleaning=mine"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("key", ["buckets", "1", "no"])
def test_each_door_names_the_file_and_both_lines(own, door, key):
    file = own("cleaning", f"defaults: [none, _self_]\n{key}: 3\nfilters: []\n{key}: 4\n")
    with pytest.raises(ConfigError) as refused:
        DOORS[door]()
    assert str(refused.value) == f"{file}: line 4: the key {key!r} is also in line 2; correct the YAML"


def test_a_text_that_yaml_reads_as_another_value_says_so(own):
    own("cleaning", "defaults: [none, _self_]\nfilters:\n  - {type: allowed_domains, path: no}\n")
    with pytest.raises(ConfigError, match="put it in quotes: in YAML, no and off are false"):
        decoded(compose(["cleaning=mine"]))


def test_a_study_and_an_experiment_are_read_by_the_same_reader(own):
    study = own("study", (CONF / "study" / "cleaning.yaml").read_text() + "\nsizes: {}\n")
    with pytest.raises(ConfigError, match=re.escape(f"{study}: line ") + ".* the key 'sizes' is also in line "):
        decoded_study(study)
    experiment = own("experiment", "# @package _global_\ntraining:\n  steps: 3\ntraining:\n  seed: 4\n")
    with pytest.raises(ConfigError) as refused:
        compose(["experiment=mine"])
    assert str(refused.value) == f"{experiment}: line 4: the key 'training' is also in line 2; correct the YAML"


def test_a_number_with_an_exponent_is_a_number_at_each_door(own):
    own("optimizer", "defaults: [adamw, _self_]\nlearning_rate: 1e-3\n")
    assert compose(["optimizer=mine"])["optimizer"]["learning_rate"] == 1e-3
    assert option_values("optimizer", "mine")["learning_rate"] == 1e-3
    assert "value 0.001" in explanation("optimizer=mine")


@pytest.mark.parametrize("file", sorted(CONF.rglob("*.yaml")), ids=lambda file: str(file.relative_to(CONF)))
def test_our_own_files_have_each_key_once(file):
    assert isinstance(yaml_values(file.read_text()), dict | None)


@given(st.text("01e-.:+_noy 2", max_size=8) | st.sampled_from(SCALARS))
def test_what_is_written_is_read_again(text):
    value = {"a": text, text: [text, 1e-3, False, None, 12]}
    for options in ({}, {"default_flow_style": True}):
        assert yaml_values(yaml_text(value, **options)) == value
