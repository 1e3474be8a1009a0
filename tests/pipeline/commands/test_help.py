"""``headrace help``: every setting is explained, and no line is wider than the terminal."""

import dataclasses
import functools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.command_line import setting_help
from headrace.pipeline.command_line.group import COMMANDS
from headrace.pipeline.command_line.help_text import rows
from headrace.pipeline.command_line.setting_help import all_paths, explanation, settings_of
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.options import about, groups
from headrace.pipeline.core.environment import CONFIG_DIR
from headrace.pipeline.core.kinds import TAG
from headrace.pipeline.run.planner import stages_up_to
from tests.command_line import headrace_here
from tests.pipeline.test_bounds import all_classes

OPTIONS = [(group, option) for group, options in groups().items() for option in options]


def test_every_setting_has_a_sentence_and_a_type() -> None:
    for cls in all_classes(RunConfig):
        assert set(settings_of(cls)) == {field.name for field in dataclasses.fields(cls)} - {TAG}, cls
        for name, setting in settings_of(cls).items():
            assert re.fullmatch(r"(\S+ ){2,}.*\S\.", setting.text), f"{cls.__name__}.{name}: {setting.text!r}"
            assert setting.kind, name


PATHS = sorted(set(all_paths()))
VALUES, GROUPS = functools.cache(setting_help.shown_values), functools.cache(groups)


@pytest.fixture
def files_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of conf/ are the same in all tests: each is read once, not for each setting and option."""
    monkeypatch.setattr(setting_help, "all_paths", lambda: PATHS)
    monkeypatch.setattr(setting_help, "shown_values", VALUES)
    monkeypatch.setattr(setting_help, "groups", GROUPS)


@pytest.mark.usefixtures("files_read_once")
def test_every_setting_can_be_asked_for() -> None:
    for path in PATHS:
        text = explanation(path)
        assert text.startswith(f"{path}:"), text
        for column in ("type ", "default "):
            assert column in text or "Settings" in text or "It has no settings." in text, text


@pytest.mark.usefixtures("files_read_once")
def test_every_option_is_described() -> None:
    for group, option in OPTIONS:
        assert len(about(group, option).split()) > 2, (group, option)
        assert explanation(f"{group}={option}").startswith(f"{group}={option}: ")
        assert f"\n  {option} " in of_group(group)


@functools.cache
def of_group(group: str) -> str:
    return explanation(group)


@pytest.mark.parametrize(
    ("topic", "parts"),
    [
        ("source=warc", ("source=warc: A crawl", "conf/source/warc.yaml", "extractor ", "value blocks")),
        ("source", ("Settings with the type arrow, jsonl, parquet (source.KEY=VALUE):", "text_field", "default text")),
        (
            "cleaning=c4",
            ("headrace config cleaning=c4 prints all of its settings", "headrace help KEY, or a name in a list, one."),
        ),
        ("cleaning", ("Types of cleaning.filters", "c4_lines ", "Removes lines and drops pages")),
        ("cleaning.filters.c4_lines", ("Settings (cleaning.filters.c4_lines.KEY=VALUE):", "min_sentences ")),
        (
            "optimizer.learning_rate",
            ("The peak; the schedule scales it.", "type number from 0 to 10 ", "default ", "optimizer=adamw "),
        ),
        ("evaluation.benchmarks.language_modelling", ("documents ", "file, article or line")),
        (
            "finetune.task.classification",
            ("finetune.task.classification: ", "Settings (finetune.task.KEY=VALUE):", "metrics "),
        ),
        ("finetune.task.type", ("(finetune.task=TYPE in short): classification ", "text_to_text Writes the result")),
        ("optimizer.type", ("(optimizer=OPTION chooses an option): adafactor ",)),
        ("finetune=own", ("Example: headrace finetune=own finetune.task=classification ", "finetune.train=train.tsv")),
        ("experiment", ("experiment: Overrides of several groups", "gpt2_small ")),
        ("experiment=demo", ("Its overrides:", "learning_rate: ")),
        ("runs", ("Usage: headrace runs [--json]", "headrace runs --json", "best score")),
    ],
)
def test_a_topic(topic: str, parts: tuple[str, ...]) -> None:
    done = headrace_here("help", topic)
    assert (done.returncode, done.stderr) == (0, "")
    for part in parts:
        assert part in re.sub(r"\s+", " ", done.stdout), done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["optimzer"], "help: no command, group or setting is named 'optimzer'; did you mean 'optimizer'?"),
        (["optimizer.lr"], "help: no command, group or setting is named 'optimizer.lr'; did you mean 'optimizer.lear"),
        (["lr"], "help: no command, group or setting is named 'lr'; did you mean 'optimizer.learning_rate'?"),
        (["model=gpt9"], "model: unknown option 'gpt9'; "),
        (["model", "runs"], "help: explains one thing, not 2 (model, runs); ask for one"),
    ],
)
def test_an_unknown_topic(arguments: list[str], message: str) -> None:
    done = headrace_here("help", *arguments)
    assert done.stderr.startswith(f"headrace: {message}"), done.stderr
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """``mine(group, text)`` makes conf/GROUP/mine.yaml with ``text`` in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CONFIG_DIR, "")

    def write(group: str, text: str) -> Path:
        file = tmp_path / "conf" / group / "mine.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("latin1"))
        return file

    return write


def test_no_secret_of_an_own_preset_is_shown(mine: Callable[[str, str], Path]) -> None:
    paths = 'paths: ["https://ann:hunter2pw@host/a.jsonl", "s3://AKIAX:sEcReT@bucket/x"]\n'
    mine("source", f"# Pages of https://ann:hunter2pw@host/a\ntype: jsonl\n{paths}")
    mine("experiment", f"# @package _global_\nsource:\n  {paths}")
    for topic in ("source=mine", "source.paths", "source", "experiment=mine", "experiment"):
        done = headrace_here("help", topic)
        assert (done.returncode, done.stderr) == (0, "")
        assert not re.search("hunter2|sEcReT", done.stdout), done.stdout
        assert "***" in done.stdout or topic == "experiment"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("type: [\n", "line 2: expected the node content, but found '<stream end>'; correct the YAML"),
        ("type: \xff\n", "cannot be read ("),
        ("defaults: [nope, _self_]\n", "extends the unknown option 'nope'; known: "),
    ],
)
def test_a_broken_preset_of_ones_own(mine: Callable[[str, str], Path], text: str, wrong: str) -> None:
    """Its own help is the error. The help of its group lists it as broken, and the other options as always."""
    file = mine("source", text)
    done = headrace_here("help", "source=mine")
    assert done.stderr.startswith(f"headrace: {file}: {wrong}"), done.stderr
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    for topic in ("source", "source.paths"):
        shown = headrace_here("help", topic)
        assert (shown.returncode, shown.stderr) == (0, "")
    shown = re.sub(r"\s+", "", headrace_here("help", "source").stdout)
    assert f"mineBroken:{file}:{wrong}".replace(" ", "") in shown
    assert "warcAcrawl" in shown


def test_the_overview() -> None:
    assert headrace_here("help").stdout == headrace_here("--help").stdout


@functools.cache
def shown(columns: int, *topic: str) -> str:
    """Returns what the command prints on a terminal of this width."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        return headrace_here(*topic).stdout


def test_help_is_as_wide_as_the_terminal_and_nothing_is_cut() -> None:
    width = 60
    topics = [["--help"], *([name, "--help"] for name in COMMANDS), *(["help", group] for group in groups())]
    for topic in topics:
        narrow = shown(width, *topic)
        for line in narrow.splitlines():
            assert len(line) <= width or len(line.split()) <= 2, line
        whole, wrapped = (re.sub(r"[\s\\]+", "", text) for text in (shown(1000, *topic), narrow))
        assert sorted(whole) == sorted(wrapped), topic


def test_a_long_command_is_continued_as_a_shell_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = rows([("headrace source=warc source.paths='[crawl/*.warc.gz]'", "a crawl")], indent=0)
    assert text == "headrace source=warc \\\n    source.paths='[crawl/*.warc.gz]'\n    a crawl"


def test_the_stages_are_named_where_one_is_chosen() -> None:
    text = settings_of(RunConfig)["until"].text
    finetuned = ("finetune=sst2", "finetune.train=[a.tsv]", "finetune.validation=[b.tsv]")
    selected = ("+columns.scorers.name={type: length}", "selection.rules=[{type: threshold, column: name, min: 1}]")
    trained = "classifier.examples=[{type: files, path: a.txt, label: a}, {type: files, path: b.txt, label: b}]"
    config = decoded(compose([*finetuned, *selected, trained, "dedup.repeated_words=50"]))
    names = [stage.name for stage in stages_up_to(config)]
    assert f"{', '.join(names[:-1])} or {names[-1]}.".replace("column.name", "column.NAME") in text
