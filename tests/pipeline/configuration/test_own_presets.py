"""The user's own folder of presets, and filters by their names, in the composed settings and on the command line."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.command_line.request import newest
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration import options
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.options import completions
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.environment import CONFIG_DIR
from headrace.pipeline.core.errors import ConfigError
from tests.command_line import headrace_here

MINE = "filters:\n  - {type: page_length, max_characters: 30}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with conf/cleaning/mine.yaml in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CONFIG_DIR, "")  # so that what --config-dir sets is undone
    (tmp_path / "conf/cleaning").mkdir(parents=True)
    (tmp_path / "conf/cleaning/mine.yaml").write_text(MINE)
    return tmp_path


def filters(*overrides: str) -> list[dict[str, object]]:
    values = compose(overrides)
    decoded(values)
    return values["cleaning"]["filters"]


def types(*overrides: str) -> list[object]:
    return [one["type"] for one in filters(*overrides)]


def test_conf_in_the_current_folder_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert types("cleaning=mine") == ["page_length"]
    assert capsys.readouterr().err == f"cleaning=mine is {folder}/conf/cleaning/mine.yaml\n"
    assert types("cleaning=gopher") == ["gopher_quality", "gopher_repetition"]
    assert capsys.readouterr().err == "", "no option of the folder is used"
    assert "cleaning=mine" in completions("cleaning=m")


def test_a_file_that_is_changed_while_a_process_runs_is_read_again(folder: Path) -> None:
    assert filters("cleaning=mine")[0]["max_characters"] == 30
    (folder / "conf/cleaning/mine.yaml").write_text(MINE.replace("30", "4000"))
    assert filters("cleaning=mine")[0]["max_characters"] == 4000


def test_values_that_are_set_stay_in_their_own_composition() -> None:
    assert compose(["training.steps=7"])["training"]["steps"] == 7
    assert compose([])["training"]["steps"] != 7


def test_a_file_of_the_user_replaces_ours_and_is_announced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "conf/cleaning/c4.yaml").write_text(MINE)
    (folder / "conf/config.yaml").write_text("training: of another program\n")
    assert types() == ["page_length"]
    path = f"{folder}/conf/cleaning/c4.yaml"
    assert capsys.readouterr().err == f"cleaning=c4 is {path}, in place of the file of that name in Headrace\n"


def test_a_preset_that_extends_ours(folder: Path) -> None:
    (folder / "conf/cleaning/more.yaml").write_text("defaults: [fineweb, _self_]\nbuckets: 3\n")
    (folder / "conf/experiment").mkdir()
    (folder / "conf/experiment/own.yaml").write_text("# @package _global_\ndefaults: [override /cleaning: more]\n")
    assert compose(["experiment=own"])["cleaning"]["buckets"] == 3
    assert types("experiment=own") == types("cleaning=fineweb")


def test_a_mapping_in_place_of_a_list_is_refused_with_the_override_that_does_the_same(folder: Path) -> None:
    five = folder / "conf/cleaning/five.yaml"
    five.write_text("defaults: [c4, _self_]\nbuckets: 3\nfilters: {c4_lines: {min_sentences: 5}}\n")
    with pytest.raises(ConfigError) as error:
        compose(["cleaning=five"])
    override = "cleaning.filters.c4_lines.min_sentences=5"
    assert str(error.value) == (
        f"{five}: line 3: filters is a list, and a mapping cannot change an entry of it; "
        f"write the whole list (headrace config cleaning=c4 prints it), or give the command {override}"
    )
    assert filters("cleaning=c4", override)[2]["min_sentences"] == 5


def test_a_list_that_replaces_another_one_is_announced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = folder / "conf/cleaning/short.yaml"
    short.write_text("defaults: [c4, _self_]\nfilters:\n  - {type: c4_lines, min_sentences: 5}\n")
    assert types("cleaning=short") == ["c4_lines"]
    note = f"cleaning=short is {short}; its filters (1) replace those of c4 (6)\n"
    assert capsys.readouterr().err == note


def test_a_conf_folder_of_another_program_is_left_alone(folder: Path) -> None:
    (folder / "conf/cleaning").rename(folder / "conf/database")
    assert options.own_folder() is None
    with pytest.raises(ConfigError, match="cleaning: unknown option 'mine'"):
        compose(["cleaning=mine"])


def test_config_dir(folder: Path) -> None:
    """Run with one's own preset from elsewhere, then asked about from there."""
    (folder / "conf").rename(folder / "presets")
    (folder / "pages.jsonl").write_text("".join(json.dumps({"text": "page " * n}) + "\n" for n in (3, 30)))
    settings = ["source=jsonl", "source.paths=pages.jsonl", "cleaning=mine", "until=clean"]
    for given in (["--config-dir", "presets"], ["--config-dir=presets"]):
        result = headrace_here(*settings, *given)
        assert result.returncode == 0, result.stderr
        typed = next(line for line in result.stdout.splitlines() if line.endswith(" --config-dir presets"))
        assert "headrace source=jsonl source.paths=pages.jsonl cleaning=mine" in typed
    (clean,) = (step for step in newest("runs").stages if step.name == "clean")
    assert Artifact(clean.folder).counts["dropped:page_length"] == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--config-dir", "nowhere"], "--config-dir: there is no folder 'nowhere'; give the folder that holds"),
        (
            ["--config-dir", "conf/cleaning"],
            "--config-dir: 'conf/cleaning' holds no preset; give the folder that holds",
        ),
        (["--config-dir"], "command line: --config-dir needs a folder; write --config-dir DIR"),
    ],
)
def test_mistakes_of_config_dir(folder: Path, given: list[str], message: str) -> None:
    result = headrace_here("status", *given)
    assert result.returncode == 2
    assert result.stderr.startswith(f"headrace: {message}"), result.stderr


def test_filters_and_rules_by_name() -> None:
    by_name = ["cleaning.filters.c4_lines.min_sentences=5", "cleaning.filters.c4_lines.rules.few_words.min_words=3"]
    by_number = ["cleaning.filters.2.min_sentences=5", "cleaning.filters.2.rules.4.min_words=3"]
    assert filters(*by_name) == filters(*by_number)
    assert filters(*by_name)[2]["min_sentences"] == 5
    assert decoded(compose(by_name)) == decoded(compose(by_number))


@pytest.mark.parametrize("preset", ["c4", "mc4", "fineweb", "dolma", "multilingual"])
def test_the_identification_of_languages_has_one_name_in_each_preset(preset: str) -> None:
    changed = filters(f"cleaning={preset}", "cleaning.filters.language.languages=[de]")
    assert [entry["languages"] for entry in changed if entry["type"].startswith("language")] == [["de"]]


def test_a_field_of_a_filter_that_the_preset_does_not_list(folder: Path) -> None:
    (folder / "conf/cleaning/mine.yaml").write_text("filters: [{type: c4_lines}]\n")
    assert filters("cleaning=mine", "cleaning.filters.c4_lines.min_sentences=4")[0]["min_sentences"] == 4


def test_a_type_that_a_file_changes_without_its_option_is_refused_with_the_override(folder: Path) -> None:
    (folder / "conf/experiment").mkdir()
    experiment = folder / "conf/experiment/own.yaml"
    source = "source: {type: warc, paths: [a.warc]}\n"
    experiment.write_text(f"# @package _global_\n{source}")
    message = (
        "headrace: source.text_field: unknown key 'text_field'; "
        "choose the option: source=warc, or in a file `defaults: - override /source: warc`"
    )
    assert headrace_here("config", "experiment=own").stderr.splitlines()[-1] == message
    experiment.write_text(f"# @package _global_\ndefaults:\n  - override /source: warc\n{source}")
    assert headrace_here("config", "experiment=own").returncode == 0
    done = headrace_here("config", "source=jsonl", "source.packages=[numpy]")
    assert done.stderr.startswith("headrace: source.packages: unknown key 'packages'; known: alt_texts, date_field, ")


def test_a_filter_is_removed() -> None:
    assert types("~cleaning.filters.bad_words", "~cleaning.filters.0", "cleaning.filters.language.min_score=0.5") == [
        "one_page_per_url", "c4_lines", "unique_lines", "language",
    ]  # fmt: skip


LINES, REPETITION = "cleaning.filters.c4_lines", "cleaning.filters.gopher_repetition.rules"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["cleaning.filters.c4_line.rules=[]"], "cleaning.filters: has no entry 'c4_line'; did you mean 'c4_lines'?"),
        (
            ["+cleaning.filters.pii={type: pii}"],
            "cleaning.filters: has no entry 'pii'; list all filters in a preset of your own, conf/cleaning/NAME.yaml",
        ),
        (["~cleaning.filters.77"], "cleaning.filters: has no entry '77'; known: bad_words, c4_lines, "),
        ([f"{LINES}.rules.end_mak.marks=x"], f"{LINES}.rules: has no entry 'end_mak'; did you mean 'end_mark'?"),
        (
            ["cleaning=fineweb", f"{REPETITION}.duplicate_ngrams.words=3"],
            f"{REPETITION}: has 6 entries 'duplicate_ngrams' (5, 6, 7, 8, 9, 10); give the number of one of them: ",
        ),
        ([f"{LINES}.min_sentence=5"], "cleaning.filters.2.min_sentence: unknown key 'min_sentence'; did you mean"),
        ([f"{LINES}=5"], "cleaning.filters.2: "),
        (["cleaning=c5", f"{LINES}.min_sentences=5"], "cleaning: unknown option 'c5'; known: c4, "),
    ],
)
def test_mistakes_of_names(overrides: list[str], message: str) -> None:
    result = headrace_here("run", *overrides)
    assert result.returncode == 2
    assert result.stderr.startswith(f"headrace: {message}"), result.stderr


def test_what_an_experiment_sets_for_another_source_is_named(folder: Path) -> None:
    (folder / "conf/experiment").mkdir()
    defaults = "defaults:\n  - override /source: jsonl\n"
    values = "source: {paths: [pages.jsonl], text_field: content}\n"
    (folder / "conf/experiment/own.yaml").write_text(f"# @package _global_\n{defaults}{values}")
    line = ["config", "experiment=own", "source=warc"]
    said = headrace_here(*line).stderr
    assert "(source=warc has none; what an experiment sets, '~source.text_field' leaves out)" in said
    assert headrace_here(*line, "~source.text_field").returncode == 0


def test_an_override_of_hydras_launcher_in_an_experiment_is_refused(folder: Path) -> None:
    (folder / "conf/experiment").mkdir()
    defaults = "defaults:\n  - override /hydra/launcher: submitit_slurm\n"
    (folder / "conf/experiment/own.yaml").write_text(f"# @package _global_\n{defaults}")
    assert (
        "hydra: settings of Hydra itself are in a file of options" in headrace_here("config", "experiment=own").stderr
    )
