"""Plans in Python: what a run would do and cost."""

import json
from pathlib import Path

import pytest

import headrace
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.overrides import as_overrides
from headrace.pipeline.core.errors import ConfigError
from tests.command_line import headrace_here

SMALL = {"experiment": "gpt3_125m", "training.steps": 10}


def test_the_costs_are_those_of_the_command() -> None:
    plan = headrace.plan(SMALL, gpus=8, gpu="A100")
    printed = headrace_here("plan", "--gpus", "8", "--gpu", "A100", *plan.overrides).stdout
    assert printed.startswith(str(plan).partition("\n\n")[0])
    assert f"{plan.cost['parameters']:,}" in printed
    assert plan.cost["steps"] == 10
    (chosen,) = [row for row in plan.memory if row["is_chosen"]]
    assert f"{chosen['peak_gb']:,.3f}" in printed
    assert plan.id == decoded(compose(plan.overrides)).id


def test_the_stages_that_would_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = headrace.plan({"source": "jsonl", "source.paths": "pages.jsonl", "until": "clean"})
    with pytest.raises(headrace.ConfigError, match=r"pages\.jsonl"):
        _ = plan.stages
    Path("pages.jsonl").write_text(json.dumps({"text": "One page."}) + "\n")
    assert [(row["stage"], row["state"]) for row in plan.stages] == [
        ("texts", "to do"),
        ("clean", "to do"),
        ("report", "to do"),
    ]
    assert not Path("runs").exists(), "nothing is written"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modle.layers": 3}, "unknown key 'modle.layers'; did you mean 'model.layers'"),
        ({"model": "dem"}, "model: unknown option 'dem'; did you mean 'demo'"),
        ({"model.layers": "many"}, "model.layers: must be a whole number"),
        ({"model.layers": object()}, "model.layers: is a object, which no setting is; give a number, "),
    ],
)
def test_a_wrong_setting(settings: dict, message: str) -> None:
    with pytest.raises(headrace.ConfigError, match=message):
        headrace.plan(settings)


def test_a_wrong_argument() -> None:
    with pytest.raises(headrace.ConfigError, match=r"^gpu: unknown GPU 'H10'; did you mean"):
        headrace.plan(SMALL, gpu="H10")
    with pytest.raises(headrace.ConfigError, match=r"^gpu_memory_gb: must be"):
        headrace.plan(SMALL, gpu_memory_gb=-1)


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        "a b",
        "it's",
        "C:\\x\\",
        "a,b=c",
        "[x]",
        "true",
        "12",
        "${root}",
        "x\\'y",
        "é {1}",
        "\\${x}",
        ["a b", "c'd"],
    ],
)
def test_a_text_arrives_as_it_is(value: object) -> None:
    """Whatever it means in an override."""
    composed = compose(as_overrides({"source": "jsonl", "source.paths": value}))
    assert composed["source"]["paths"] == value


def test_other_values_and_forms() -> None:
    settings = {"workers": 2, "name": None, "optimizer.learning_rate": 3e-5, "root": Path("a b")}
    values = compose(as_overrides({**settings, "cleaning.filters": [{"type": "page_length", "max_characters": 9}]}))
    assert (values["workers"], values["name"], values["optimizer"]["learning_rate"]) == (2, None, 3e-5)
    assert (values["root"], values["cleaning"]["filters"][0]["max_characters"]) == ("a b", 9)
    line = "experiment=demo 'source.paths=[a.jsonl, b.jsonl]'"
    assert as_overrides(line) == ["experiment=demo", "source.paths=[a.jsonl, b.jsonl]"]
    assert as_overrides(as_overrides(line)) == as_overrides(line)


def test_a_quote_that_is_not_closed_is_named() -> None:
    with pytest.raises(ConfigError) as error:
        headrace.launch("""name='x""")
    assert str(error.value) == (
        'settings: "name=\'x" cannot be split into overrides (No closing quotation); '
        "close the quote, or give a list or a dict of settings"
    )
