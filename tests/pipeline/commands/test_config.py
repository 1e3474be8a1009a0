"""``headrace config``: the composed values, each with its source."""

import dataclasses
import json
from pathlib import Path

import pytest
import yaml

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.environment import CONFIG_DIR
from tests.command_line import headrace_here

SETTINGS = (
    "experiment=demo",
    "optimizer.beta1=0.8",
    "cleaning.filters.c4_lines.min_sentences=5",
    "~cleaning.filters.page_length",
    "+evaluation.benchmarks.mine.type=agreement",
    "tracking=file",
)


def sources(text: str) -> dict[str, str]:
    """Returns line without its comment → comment."""
    pairs = (line.rpartition("  # ") for line in text.splitlines() if "  # " in line)
    return {line.strip(): source for line, _, source in pairs}


def test_the_values_are_those_that_would_run() -> None:
    done = headrace_here("config", *SETTINGS)
    assert (done.returncode, done.stderr) == (0, "")
    config = dataclasses.asdict(decoded(compose(SETTINGS)))
    assert yaml.safe_load(done.stdout) == json.loads(json.dumps(config))


def test_each_value_has_its_source() -> None:
    found = sources(headrace_here("config", *SETTINGS).stdout)
    assert found["root: runs"] == "default"
    assert [source for line, source in found.items() if line.startswith("learning_rate: ")] == ["experiment=demo"]
    assert found["beta1: 0.8"] == "command line"
    assert found["beta2: 0.95"] == "optimizer=adamw"
    assert found["min_sentences: 5"] == "command line"
    assert found["- type: c4_lines"] == "cleaning=c4"
    assert found["- type: one_page_per_url"] == "cleaning=c4", "its number has changed"
    assert [source for line, source in found.items() if line.startswith("row_tokens: ")] == [
        "packing=best_fit (${model.context})"
    ]
    assert found["type: agreement"] == "command line"
    assert "default" in {source for line, source in found.items() if line.startswith("per_document: ")}, "in no file"
    assert found["wandb: 'off'"] == "tracking=file", "in quotes: YAML reads off as false"


def test_the_seed_of_the_run_is_the_source_of_the_others() -> None:
    shown = json.loads(headrace_here("config", *SETTINGS, "seed=7", "training.seed=3", "--json").stdout)
    seeds = {group: shown["sources"][group]["seed"] for group in ("dedup", "training")}
    assert seeds == {"dedup": "seed", "training": "command line"}
    assert (shown["config"]["dedup"]["seed"], shown["sources"]["seed"]) == (7, "command line")


def test_a_preset_of_the_user_is_named_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CONFIG_DIR, "")
    for folder, given in (("conf", []), ("presets", ["--config-dir", "presets"])):
        file = tmp_path / folder / "dedup/mine.yaml"
        file.parent.mkdir(parents=True)
        file.write_text("defaults: [minhash, _self_]\nthreshold: 0.5\n")
        found = sources(headrace_here("config", "dedup=mine", *given).stdout)
        assert found["threshold: 0.5"] == f"dedup=mine ({file})"
        assert found["bands: 14"] == "dedup=minhash"
        file.unlink()


def test_a_run_that_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text('{"text": "One page."}\n')
    settings = ("name=small", "source=jsonl", "source.paths=a.jsonl", "cleaning=c4", "until=texts")
    changed = "cleaning.filters.c4_lines.min_sentences=7"
    assert headrace_here(*settings, changed, "~cleaning.filters.bad_words").returncode == 0
    Path("a.jsonl").unlink()
    done = headrace_here("config", "small")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("# headrace name=small source=jsonl source.paths=a.jsonl cleaning=c4 until=texts ")
    assert sources(done.stdout)["min_sentences: 7"] == "run.json"
    assert yaml.safe_load(done.stdout)["name"] == "small"
    file = next(Path("runs/runs").glob("*/run.json"))
    saved = json.loads(file.read_text())
    assert json.loads(headrace_here("config", "small", "--json").stdout)["config"] == saved["config"]
    refused = headrace_here("config", "small", "model=demo")
    assert refused.stderr == (
        "headrace: RUN: both 'small' and settings (model) are given; name the run, or give its settings\n"
    )


def test_a_group_given_as_a_mapping() -> None:
    found = sources(headrace_here("config", "optimizer={learning_rate: 0.01}").stdout)
    assert (found["learning_rate: 0.01"], found["beta2: 0.95"]) == ("command line", "optimizer=adamw")


def test_no_secret_is_shown() -> None:
    done = headrace_here("config", "source=jsonl", "source.paths=['s3://key:geheim@bucket/a.jsonl']")
    assert done.returncode == 2
    assert "geheim" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("until=claen", "until: no stage is named 'claen'; did you mean 'clean'?"),
        ("packing.row_tokens=100000", "packing.row_tokens: 100000 is longer than model.context = "),
    ],
)
def test_what_could_not_run_is_refused(given: str, message: str) -> None:
    done = headrace_here("config", given)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"headrace: {message}")
