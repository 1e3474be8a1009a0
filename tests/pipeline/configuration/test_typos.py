"""Typos over every setting: each is refused in one line, ``where: what is wrong, with the value; what to do``.

The line and the settings are composed and decoded in this process, as the command line does.
"""

import dataclasses
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.setting_names import OTHER_NAMES
from headrace.pipeline.core.environment import CONFIG_DIR
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.kinds import TAG
from headrace.pipeline.core.settings import decode
from tests.command_line import headrace_here
from tests.pipeline.test_bounds import all_classes, classes_of, hints_of, required


def is_clear(error: ConfigError, *parts: str) -> bool:
    """Whether an error is one line of three parts, without Python's or a library's terms, that names ``parts``."""
    text = str(error)
    where, _, rest = text.partition(": ")
    wrong, _, remedy = rest.rpartition("; ")
    foreign = [term for term in ("Traceback", "pydantic", "Input should", "NoneType", "<class") if term in text]
    return all((where, wrong, remedy)) and "\n" not in text and not foreign and all(part in text for part in parts)


def mistakes(cls: type, name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields values of ``cls`` with a typo in the field ``name``, each with what its message must name."""
    hint = hints_of(cls)[name]
    base = {key: () if key == "filters" else value for key, value in required(cls).items()}
    yield base | {f"{name}x": 1}, f"'{name}x'"
    yield base | {name: {"nonesuch": {"deep": [1]}}} if not classes_of(hint) else base | {name: 7}, name
    yield base | {name: [[[{"a": None}]]]}, name
    if typing.get_origin(hint) is Literal:
        yield base | {name: "nonesuch"}, "nonesuch"
    if hint in (int, float) or getattr(hint, "__origin__", None) in (int, float):
        for wrong in ("many", None, True, [1], "", "1_0x", 10**400):
            yield base | {name: wrong}, name
    if name in {field.name for field in dataclasses.fields(cls) if field.default is field.default_factory}:
        yield {key: value for key, value in base.items() if key != name}, name


SETTINGS = [
    (cls, name)
    for cls in all_classes(RunConfig)
    if cls is not RunConfig
    for name, hint in hints_of(cls).items()
    if name != TAG and Any not in typing.get_args(hint)
]


def test_a_typo_in_a_setting_is_one_clear_line() -> None:
    for cls, name in SETTINGS:
        for values, named in mistakes(cls, name):
            with pytest.raises(ConfigError) as raised:
                decode(cls, values)
            assert is_clear(raised.value, named), raised.value


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("zero=3", "zero: unknown option '3'; did you mean 'stage_3'?"),
        ("model=125m", "model: unknown option '125m'; did you mean 'opt_125m'?"),
        ("model=", "model: unknown option ''; known: albert, "),
        ("model=[demo]", "model: unknown option '[demo]'; did you mean 'demo'?"),
        ("model={layers: x}", "model.layers: must be a whole number (got 'x'); correct the value"),
        ("experiment=null", "experiment: unknown option 'null'; known: "),
        ("+experiment=demo", "experiment: '+experiment=demo' adds an option; write experiment=demo"),
        ("~model", "model: cannot be removed; leave it out, or choose another option: model=OPTION"),
        ("source=https://a.example/b", "source: unknown option 'https://a.example/b'; known: "),
        ("cleaning.filters.c4_lines=", "cleaning.filters.2: must be settings {type: name, …} (got ''); correct"),
        ("cleaning.filters.c4_lines=5", "cleaning.filters.2: must be settings {type: name, …} (got 5); correct"),
        ("cleaning.filters={a: 1}", "cleaning.filters: cannot be '{a: 1}'; headrace help cleaning.filters shows"),
        ("cleaning.filters.0=null", "cleaning.filters.0: must be settings {type: name, …} (got null); correct"),
        ("evaluation.benchmarks=3", "evaluation.benchmarks: must be a mapping {name: value} (got 3); correct"),
        ("mixture.sources=[1]", "mixture.sources.0: must be settings {name: value, …} (got 1); correct the value"),
        ("mixture.sources.0.weight=3", "mixture.sources.0.weight: cannot be '3'; headrace help mixture.sources"),
        ("model.layers=null", "model.layers: must be a whole number (got null); correct the value"),
        ("model.layers=${nope}", "model.layers: Interpolation key 'nope' not found; correct the override"),
        ("model.layers=${model.layers}", "model.layers: Recursive interpolation detected; correct the override"),
        ("workers=true", "workers: must be a number (got true); correct the value"),
        ("evaluation.shots=[true]", "evaluation.shots.0: must be a number (got true); correct the value"),
        ("model.bias=maybe", "model.bias: must be true or false (got 'maybe'); correct the value"),
        (
            "optimizer.learning_rate=1,2",
            "optimizer.learning_rate: '1,2' are several values; give one value, or a sweep: ",
        ),
        (
            "evaluation.shots=0,5",
            "evaluation.shots: '0,5' are several values; give one value, a list (evaluation.shots=[0,5])",
        ),
        ("name=2024,", "name: must match "),
        ("optimizer.learning_rate=1e999", "optimizer.learning_rate: must be a finite number (got inf); correct"),
        (f"training.steps={10**30}", "training.steps: must be at most "),
        ("=3", "command line: '=3' is not an override; write KEY=VALUE"),
        ("model.layers={", "command line: 'model.layers={' is not an override; write KEY=VALUE"),
        ('model.layers="x', "command line: 'model.layers=\"x' is not an override; write KEY=VALUE"),
        ("model..layers=3", "command line: 'model..layers=3' is not an override; write KEY=VALUE"),
        ("ü=3", "command line: 'ü=3' is not an override; write KEY=VALUE"),
        ("model=\u2028", "model: unknown option '\\u2028'; known: "),
        ("model@x=demo", "command line: Could not override 'model@x'; correct the override"),
        ("+x=1", "x: unknown key 'x'; known: "),
        ("~x", "command line: unknown key 'x'; known: "),
    ],
)
def test_a_typo_on_the_command_line_is_one_clear_line(typed: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        decoded(compose([typed]))
    assert str(raised.value).startswith(message)
    assert is_clear(raised.value)


def test_a_name_where_entries_have_numbers_is_one_clear_line() -> None:
    with pytest.raises(ConfigError) as raised:
        compose(["mixture=wikipedia_books", "mixture.sources.books.packed=a"])
    assert is_clear(raised.value, "mixture.sources.books.packed")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("optimizer.lr", "optimizer.learning_rate"),
        ("training.learning_rate", "optimizer.learning_rate"),
        ("batch_size", "training.batch_rows"),
        ("evaluation.batch_size", "evaluation.batch_tokens"),
        ("training.max-steps", "training.steps"),
        ("epochs", "training.steps"),
        ("seq_len", "model.context"),
        ("warmup", "schedule.warmup_steps"),
        ("bf16", "training.precision=bf16"),
        ("trainig.stpes", "training.steps"),
        ("modle.layers", "model.layers"),
        ("optimizer.betta1", "optimizer.beta1"),
        ("optimizer.rate_factors.heed", "optimizer.rate_factors.head"),
        ("optimizer.decay_factors.heed", "optimizer.decay_factors.head"),
    ],
)
def test_the_setting_that_was_meant_is_suggested(typed: str, meant: str) -> None:
    with pytest.raises(ConfigError) as raised:
        decoded(compose([f"{typed}=1"]))
    assert (raised.value.problem.startswith("unknown key "), raised.value.remedy) == (True, f"did you mean '{meant}'?")


@pytest.mark.parametrize(
    ("typed", "siblings"),
    [
        ("optimizer.foo", "beta1, "),
        ("cleaning.filters.c4_lines.x", "min_sentences, "),
        ("cleaning.filters.2.x", "min_sentences, "),
        ("optimizer.learning_rate.x", "beta1, "),
        ("evaluation.benchmarks.agreement.x", "type (a field at its default: "),
        ("+foo.bar", "classifier, "),
    ],
)
def test_siblings_are_listed_when_nothing_is_near(typed: str, siblings: str) -> None:
    """Neither what was typed, nor the group that it is in, is suggested."""
    with pytest.raises(ConfigError) as raised:
        decoded(compose([f"{typed}=1"]))
    assert raised.value.remedy.startswith(f"known: {siblings}"), raised.value


def test_the_names_of_other_tools_lead_to_settings_of_ours() -> None:
    values = compose([])
    known = {f"{group}.{name}" for group in values if isinstance(values[group], dict) for name in values[group]}
    for ours in OTHER_NAMES:
        key, _, _ = ours.partition("=")
        assert key in {*known, *values, "source.paths"}, ours
    names = [name.replace("_", "") for others in OTHER_NAMES.values() for name in others.split()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zero=3"], "zero: unknown option '3'; did you mean 'stage_3'?"),
        (["until=claen"], "until: no stage is named 'claen'; did you mean 'clean'?"),
        (
            ["source=warc,jsonl"],
            "command line: Ambiguous value for argument 'source=warc,jsonl'; a run reads one kind of source: "
            "clean each in a run of its own, then read their exports together (source=jsonl cleaning=none)",
        ),
        (["-m", "model="], "model: unknown option ''; known: albert, "),
        (["-m", "model=demo,3"], "model: unknown option '3'; known: albert, "),
        (["-m", "a="], "command line: unknown key 'a'; known: "),
        (
            ["-m", "optimizer.lr=1,2"],
            "combination 1: optimizer.lr=1: optimizer.lr: unknown key 'lr'; did you mean 'optimizer.learning_rate'?",
        ),
        (
            ["-m", "cleaning=c4,gopher", "cleaning.filters.c4_lines.min_sentences=3"],
            "cleaning.filters: cleaning=c4,gopher is a sweep, and each of its presets has its own list of filters "
            "(cleaning.filters.c4_lines.min_sentences=3); choose one preset, and sweep a setting of its filters",
        ),
        (
            ["source=jsonl", "source.paths=[https://localhost:1/a.jsonl]"],
            "source.paths: 'https://localhost:1/a.jsonl' cannot be reached (",
        ),
        (["--config-dir", "no/such", "zero=auto"], "--config-dir: there is no folder 'no/such'; give the folder"),
        (["demo"], "command line: unknown command 'demo'; did you mean 'experiment=demo'?"),
        (["optimizer"], "command line: unknown command 'optimizer'; headrace help optimizer explains the group"),
        (["training.steps"], "command line: unknown command 'training.steps'; write training.steps=VALUE"),
        (["status", "samll"], "RUN: 'samll' is not a run below 'runs'; "),
    ],
)
def test_typos_through_the_command_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CONFIG_DIR, "")
    done = headrace_here(*arguments)
    assert done.stderr.startswith(f"headrace: {message}"), done.stderr
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("filters: [\n", "line 2: expected the node content, but found '<stream end>'; correct the YAML"),
        ("filters:\n\t- type: x\n", "line 2: found character '\\t' that cannot start any token; correct the YAML"),
        ("- a\n- b\n", "holds no settings; write KEY: VALUE, one in a line"),
        ("filters: \xff\n", "cannot be read ("),
        ("defaults: [nope]\n", "cleaning: unknown option 'nope'; "),
        ("defaults: 3\n", "'cleaning/mine', defaults must be a list (got int); correct the file of the option"),
        ("filters: ${nope}\n", "cleaning.filters: Interpolation key 'nope' not found; correct the file of the option"),
        ("fliters: []\n", "cleaning.fliters: unknown key 'fliters'; did you mean 'cleaning.filters'?"),
        ("defaults: [mine, _self_]\n", "extends itself (defaults: mine); take it out, or rename the file"),
        ("5\n", "holds no settings; write KEY: VALUE, one in a line"),
        ("a: b: c\n", "line 1: mapping values are not allowed here; correct the YAML"),
    ],
)
def test_a_mistake_in_a_file_of_the_user(
    text: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "conf/cleaning/mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode("latin1"))
    with pytest.raises(ConfigError) as raised:
        decoded(compose(["cleaning=mine"]))
    assert is_clear(raised.value, wrong)
    assert str(file) in str(raised.value) or "cleaning" in str(raised.value), raised.value


SIZES = {
    "source.task_bytes=200KB": "200000",
    "source.task_bytes=1.5GiB": "1610612736",
    "source.section_bytes=3 M": "3000000",
    "source.task_bytes=7B": "7",
    "dedup.memory_gb=200MB": "0.2",
}


@pytest.mark.parametrize("override", SIZES)
def test_a_size_with_a_unit_is_given_without_it(override: str) -> None:
    with pytest.raises(ConfigError) as raised:
        decoded(compose(["source=jsonl", "cluster=slurm", override]))
    assert str(raised.value).endswith(f"write it without a unit: {SIZES[override]}")


@pytest.mark.parametrize("override", ["source.task_bytes=12XB", "model.layers=3M"])
def test_what_is_no_size_is_no_number_of_bytes(override: str) -> None:
    with pytest.raises(ConfigError, match="correct the value"):
        decoded(compose(["source=jsonl", override]))


@pytest.mark.parametrize("cluster", [[], ["cluster=slurm"]])
def test_a_setting_of_no_group_in_one_is_hinted_at(cluster: list[str]) -> None:
    with pytest.raises(ConfigError, match="did you mean 'workers'"):
        decoded(compose([*cluster, "cluster.workers=3"]))
