"""The command line for its user: arguments and exit status."""

import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import headrace_here


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x"], "headrace: command line: unknown command 'x'; known: "),
        (["statsu"], "headrace: command line: unknown command 'statsu'; did you mean 'status'?"),
        (
            ["status", "evaluation=standard", "~evaluation.benchmarks.piqa", "evaluation.benchmarks.blip=1"],
            "headrace: command line: unknown key 'evaluation.benchmarks.blip'; did you mean "
            "'evaluation.benchmarks.blimp'? (one of your own: +evaluation.benchmarks.blip=…)",
        ),
        (["plan", "model.layers"], "headrace: command line: 'model.layers' is not an override; write KEY=VALUE"),
        (
            ["plan", "cleaning=c4,gopher"],
            "headrace: command line: Ambiguous value for argument 'cleaning=c4,gopher'; give one option of a group, or",
        ),
        (["status", "++model.layers=[1"], "headrace: command line: '++model.layers=[1' is not an override; "),
        (["status", "source=jsonl", "source.paths=[no/such/*.jsonl]"], "headrace: source.paths: "),
        (
            ["status", "root=no/such"],
            "headrace: root: no run of yours was started below 'no/such'; give its root, or overrides",
        ),
    ],
)
def test_a_mistake_gets_one_clear_line(arguments: list[str], message: str) -> None:
    result = headrace_here(*arguments)
    assert result.stderr.startswith(message), result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.returncode == 2


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_without_arguments_nothing_is_started(arguments: tuple[str, ...], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = headrace_here(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("headrace COMMAND [ARGUMENT ...] [GROUP=OPTION | KEY=VALUE ...]\n")
    assert not list(tmp_path.iterdir())


def test_the_version() -> None:
    result = headrace_here("--version")
    assert (result.returncode, result.stdout) == (0, f"headrace {importlib.metadata.version('headrace')}\n")


def test_help_explains_itself() -> None:
    result = headrace_here("--help")
    for word in ("headrace experiment=demo", "status", "workers", "c4_paper", "gpt2_small", "jsonl"):
        assert word in result.stdout, word


def test_without_settings_the_newest_run_is_looked_at(tmp_path: Path) -> None:
    pages = tmp_path / "pages.jsonl"
    pages.write_text('{"text": "One page."}\n')
    common = (f"root={tmp_path}", "source=jsonl", f"source.paths=[{pages}]", "cleaning=none")
    several = (
        (["until=texts"], ["texts", "report"]),
        (["until=clean", "ranks=2"], ["texts", "clean", "report"]),
    )
    for overrides, names in several:
        assert headrace_here(*common, *overrides).returncode == 0
        rows = headrace_here("status", f"root={tmp_path}").stdout.splitlines()
        assert [row.split()[:2] for row in rows[1:-1]] == [[stage, "done"] for stage in names]
        assert rows[-1].startswith("spent: ")
        planned = headrace_here("status", *common, *overrides).stdout.splitlines()
        assert planned == rows, "the same from the manifests alone as from the plan"


def test_an_unfinished_stage_is_planned(tmp_path: Path) -> None:
    pages = tmp_path / "pages.jsonl"
    pages.write_text('{"text": "One page."}\n')
    settings = (f"root={tmp_path}", "source=jsonl", f"source.paths=[{pages}]", "cleaning=none", "until=clean")
    assert headrace_here(*settings).returncode == 0
    (manifest,) = tmp_path.glob("clean/*/manifest.json")
    manifest.unlink()
    _, texts, clean, _, _ = headrace_here("status", f"root={tmp_path}").stdout.splitlines()
    assert texts.split()[:3] == ["texts", "done", "1/1"]
    assert clean.split()[:3] == ["clean", "stopped", "1/1"]


def test_a_reader_that_goes_away_is_no_error() -> None:
    """As in ``headrace --help | head``, with a reader that reads no byte."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "headrace", "--help"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=300)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_without_an_output_it_prints_nothing_and_fails_at_nothing() -> None:
    command = ["bash", "-c", f"{shlex.quote(sys.executable)} -m headrace --help >&-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_run_that_ends_early_has_a_report_and_commands_that_work_as_printed(tmp_path: Path) -> None:
    pages = tmp_path / "pages.jsonl"
    pages.write_text('{"text": "One page."}\n{"text": "One page { with a bracket."}\n')
    settings = (f"root={tmp_path}/runs", "source=jsonl", f"source.paths=[{pages}]", "cleaning=c4", "name=small")
    done = headrace_here(*settings, "until=clean")
    assert done.returncode == 0, done.stderr
    run, report, *commands = [line[8:] for line in done.stdout.partition("\n\n")[2].splitlines()]
    assert re.fullmatch(r"[0-9a-f]{12} \(small\)", run)
    assert "<title>small</title>" in Path(report).read_text()
    *questions, rest = map(shlex.split, commands)
    assert [question[1] for question in questions] == ["inspect", "why"][: len(questions)]
    assert rest == ["headrace", *settings]
    for question in questions:
        answer = headrace_here(*question[1:])
        assert (answer.returncode, answer.stderr) == (0, ""), question


@pytest.mark.parametrize("at", range(4))
def test_options_stand_anywhere(at: int, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "One page."}\n')
    words = ["run", "source=jsonl", f"source.paths={tmp_path}/a.jsonl", f"root={tmp_path}/runs", "until=texts"]
    for line in (words, words[1:]):
        done = headrace_here(*line[:at], "--dry-run", *line[at:])
        assert done.returncode == 0, done.stderr
        assert "to do" in done.stdout
    assert not (tmp_path / "runs").exists()
    assert headrace_here("--json", "runs", f"root={tmp_path}/runs").returncode == 0


def test_only_a_rule_that_dropped_something_is_to_be_inspected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text('{"text": "One page."}\n')
    done = headrace_here("source=jsonl", "source.paths=a.jsonl", "cleaning=none", "until=clean", "workers=1")
    assert "next:   headrace why a.jsonl:0" in done.stdout
    assert "inspect" not in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "RUN", "--to", "s3://bucket/x"],
        ["export", "documents", "gs://bucket/x.jsonl"],
    ],
)
def test_a_url_is_no_folder(arguments: list[str]) -> None:
    assert "://bucket/x" in (said := headrace_here(*arguments).stderr)
    assert "is a URL; name a folder or file of this machine" in said
