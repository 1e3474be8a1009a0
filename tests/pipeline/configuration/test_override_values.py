"""Texts as a shell hands them over: every kind of character, in every way to give it."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import combinations, compose
from headrace.pipeline.configuration.override_values import OverrideReader, form_to_type
from headrace.pipeline.configuration.overrides import as_overrides
from headrace.pipeline.core.environment import CONFIG_DIR
from headrace.pipeline.core.errors import ConfigError
from tests.command_line import headrace_here

TEXTS = (
    *("données/x.jsonl", "日本", "e\u0301", "😀.jsonl", "Ω", "a\u00a0b"),
    *("data#1/x", "shard_[01].jsonl", "[01].jsonl", "a[b", "x]", "x}", "{a,b}.jsonl", "(a)", "a(b", "report(1).jsonl"),
    *("a,b.jsonl", "a, b", ",", "a:b", "day=2020-01-01/*.jsonl", "a=b=c", "=a", "https://host/x?page=1"),
    *(
        "a b",
        "a  b",
        "it's/x",
        'say "x"',
        "a&b",
        "a;b",
        "a|b",
        "a!b",
        "a^b",
        "`a`",
        "<a>",
        "a%20b",
        "a*b?",
        "**/*.jsonl",
    ),
    *("$x", "a$", "${", "a${x", "-x", "--x", "+x", "@x", "a@b", "~x", "a~", "a\\b", "a\\,b", "a\\", "\\\\host\\x"),
    *("100", "007", "1e3", "1_000", "-1", ".5", "0x10", "2020-01-01", "12:30", "true", "FALSE", "nan", "inf", "off"),
    *("range(1,3)", "choice(a,b)", "glob(*)", "str(1)", ".", "..", "a..b", "a\tb", "a\nb", "\ufeffa"),
)
"""What can only be meant as a text, where the setting takes texts."""
UNCLEAR = ("[x", "{x", "'x", '"x', "['x]", "{a}", "'a'b", "[a,[b]", "${HOME}/x", "${oc.nope:x}", "x${HOME}")
"""What may be a mistake: refused, with the form to type."""
IN_LISTS = [text for text in TEXTS if not {",", "[", "]", "{", "}", "(", ")"} & {*text} and text.strip() == text]
NO_SWEEPS = {"a\\", "a(b", "a[b"}


def paths_of(*overrides: str) -> Any:
    return compose(["source=jsonl", *overrides])["source"]["paths"]


def swept(values: str) -> list[Any]:
    return [one["source"]["paths"] for _, one, _ in combinations(["source=jsonl", f"source.paths={values}"])]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_taken_as_it_is_typed(text: str) -> None:
    assert paths_of(f"source.paths={text}") == text
    assert paths_of(*as_overrides({"source.paths": text})) == text
    assert paths_of(*as_overrides({"source.paths": [text, Path("b")]})) == [text, "b"]
    assert paths_of(*as_overrides(shlex.join([f"source.paths={text}"]))) == text
    assert decoded(compose(["source=jsonl", f"source.paths={text}"])).source.paths == (text,)


@pytest.mark.parametrize("text", IN_LISTS)
def test_an_entry_of_a_list_is_taken_as_it_is_typed(text: str) -> None:
    assert paths_of(f"source.paths=[a,{text}, b c]") == ["a", text, "b c"]
    given = f"+evaluation.benchmarks.quiz={{type: multiple_choice, paths: [{text}], limit: 3}}"
    quiz = compose([given])["evaluation"]["benchmarks"]["quiz"]
    assert quiz == {"type": "multiple_choice", "paths": [text], "limit": 3}


@pytest.mark.parametrize("text", [text for text in TEXTS if "," not in text and text not in NO_SWEEPS][::3])
def test_a_comma_separates_values_of_a_sweep_alone(text: str) -> None:
    if "(" not in text:  # a function of Hydra
        assert swept(f"{text},b") == [text, "b"]
    assert swept("[é,b],c") == [["é", "b"], "c"]
    assert swept("'a,b',c") == ["a,b", "c"]


@pytest.mark.parametrize("text", UNCLEAR)
def test_what_may_be_a_mistake_is_refused_with_the_form_to_type(text: str) -> None:
    for override in (f"source.paths={text}", f"root={text}"):
        with pytest.raises(ConfigError) as refused:
            compose(["source=jsonl", override])
        key = override.partition("=")[0]
        form = form_to_type(key, text)
        assert str(refused.value).endswith(f"characters {'it ' * ('$' not in text)}is {form}")
        (typed,) = shlex.split(form)
        found = compose(["source=jsonl", typed])
        assert (found["source"]["paths"] if key == "source.paths" else found["root"]) == text


@settings(max_examples=40)
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8))
def test_any_text_has_a_form_to_type(text: str) -> None:
    (typed,) = shlex.split(form_to_type("source.paths", text))
    assert paths_of(typed) == text
    assert paths_of(*as_overrides({"source.paths": text})) == text
    if text[0] not in "[{'\"" and "${" not in text:
        assert paths_of(f"source.paths={text}") == text


@pytest.mark.parametrize(
    ("override", "form"),
    [
        ("training.steps=400", "training.steps=400"),
        ("training.steps=4é", "training.steps='4é'"),
        ("name=null", "name=null"),
        ("root=null", "root='null'"),
        ("name=small", "name=small"),
        ("name='a b'", "name='a b'"),
        ("root=/tmp/x", "root=/tmp/x"),
        ("source.paths=['a', b]", "source.paths=['a',b]"),
        ("source.paths=[2024,x]", "source.paths=['2024',x]"),
        ("+evaluation.benchmarks.x={paths: [1], limit: 1}", "+evaluation.benchmarks.x={paths:['1'],limit:1}"),
        ("packing.row_tokens=${model.context}", "packing.row_tokens=${model.context}"),
        ("cleaning.filters.c4_lines.end_marks=[.,'!']", "cleaning.filters.c4_lines.end_marks=[.,'!']"),
        ("cleaning.filters.3.settings.x=1", "cleaning.filters.3.settings.x=1"),
        ("~training.steps", "~training.steps"),
        ("cleaning=[c4", None),
    ],
)
def test_forms_of_hydra(override: str, form: str | None) -> None:
    if form is None:
        with pytest.raises(ConfigError):
            OverrideReader().readable(override)
    else:
        assert OverrideReader().readable(override).replace(" ", "") == form.replace(" ", "")


@pytest.mark.parametrize("text", ["données/x", "data#1", "a,b", "a=b", "日本", "it's", "[x", "~user", "2020-01-01"])
def test_a_text_in_a_file(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONFIG_DIR, str(tmp_path))
    (tmp_path / "source").mkdir()
    quoted = text.replace("'", "''")
    (tmp_path / "source/mine.yaml").write_text(f"defaults: [jsonl, _self_]\npaths: ['{quoted}']\n", encoding="utf-8")
    assert compose(["source=mine"])["source"]["paths"] == [text]


def test_a_number_in_a_file_is_refused_with_the_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONFIG_DIR, str(tmp_path))
    (tmp_path / "source").mkdir()
    (tmp_path / "source/mine.yaml").write_text("defaults: [jsonl, _self_]\npaths: 2024\n")
    with pytest.raises(ConfigError) as refused:
        decoded(compose(["source=mine"]))
    assert (
        str(refused.value)
        == "source.paths: must be a text, or a list of texts (got 2024); put it in quotes: \"'2024'\""
    )


@pytest.mark.parametrize(
    "key", ["hydra.run.dir=", "hydra.run.dir=x", "hydra/launcher=basic", "+hydra.a=1", "~hydra.job"]
)
def test_settings_of_hydra_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=r"^hydra.*: is a setting of Hydra itself, which is not used; "):
        compose([key])
    assert headrace_here("config", key).returncode == 2
    assert headrace_here("-m", "model.layers=1,2", key).stderr.startswith("headrace: hydra")


def test_settings_of_hydra_in_a_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONFIG_DIR, str(tmp_path))
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/mine.yaml").write_text("# @package _global_\nhydra: {run: {dir: x}}\n")
    with pytest.raises(ConfigError, match=r"hydra: settings of Hydra itself are in a file of options.*experiment=mine"):
        compose(["experiment=mine"])


@pytest.mark.parametrize("command", ["config", "status", "runs", "plan"])
def test_a_root_is_a_folder(command: str) -> None:
    done = headrace_here(command, "root=s3://bucket/runs")
    assert done.returncode == 2
    assert done.stderr.startswith("headrace: root: must be a folder of a mounted file system, not a URL (got 's3://bu")


def test_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert compose(["root=~/runs"])["root"] == "/home/ann/runs"
    assert compose(["root=./~"])["root"] == "./~"
    assert decoded(compose(["tokenizer=file", "tokenizer.path=~/t.json"])).tokenizer.path == "/home/ann/t.json"


@pytest.mark.parametrize(
    ("override", "form"),
    [
        ("finetune.task=regression", "finetune.task.type=regression"),
        ("finetune.task.format=fields", "finetune.task.format.type=fields"),
        ("finetune.optimizer=adafactor", "finetune.optimizer.type=adafactor"),
        ("finetune.task=regresion", "finetune.task=regresion"),
        ("optimizer=adafactor", "optimizer=adafactor"),
        ("cleaning.filters=c4_lines", "cleaning.filters=c4_lines"),
        ("finetune.folder=null", "finetune.folder=null"),
    ],
)
def test_a_type_alone_stands_for_settings_of_this_type(override: str, form: str) -> None:
    assert OverrideReader().readable(override) == form


def test_a_type_alone_and_keys_below_it_go_together() -> None:
    files = ["finetune=own", "finetune.train=a.tsv", "finetune.validation=b.tsv"]
    short = ["finetune.task=classification", "finetune.task.format=fields", "finetune.task.format.label=topic"]
    whole = ["finetune.task={type: classification, format: {type: fields, label: topic}}"]
    assert decoded(compose([*files, *short])) == decoded(compose([*files, *whole]))


def test_a_type_alone_that_is_unknown_has_a_suggestion() -> None:
    files = ["finetune=own", "finetune.train=a.tsv", "finetune.validation=b.tsv"]
    with pytest.raises(
        ConfigError, match=r"^finetune\.task: unknown type 'clasification'; did you mean 'classificatio"
    ):
        decoded(compose([*files, "finetune.task=clasification"]))
