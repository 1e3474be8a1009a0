"""Stages that keep no document: a warning where the run ends there, an error before a stage that needs some."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.run import worker
from headrace.pipeline.run.planner import load
from headrace.pipeline.run.saved_run import newest_file
from tests.command_line import headrace_here
from tests.small_runs import page

LANGUAGE = ["cleaning.filters.language.languages=[de]"]


def rows(number: int = 20) -> list[dict[str, str]]:
    return [{"text": page(seed).replace(". ", ".\n"), "url": f"https://a.org/{seed}"} for seed in range(number)]


def settings(folder: Path, lines: list[dict[str, str]], *more: str) -> list[str]:
    (folder / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    source = ["run", "source=jsonl", f"source.paths=[{folder}/pages.jsonl]", "dedup.buckets=2", "workers=1"]
    return [*source, f"root={folder}/runs", *more]


KEPT_BY_NONE = "clean: none of 20 documents is left, dropped by language 20; for example pages.jsonl:0 (language: 'en "


def test_the_last_stage_of_a_run_may_be_empty(tmp_path: Path) -> None:
    typed = settings(tmp_path, rows(), *LANGUAGE, "until=clean")
    for _ in range(2):  # a second run finds everything done
        done = headrace_here(*typed)
        assert done.returncode == 0, done.stderr
        assert f"\nwarning: {KEPT_BY_NONE}" in done.stdout
    status = headrace_here("status", f"root={tmp_path}/runs").stdout
    assert f"\nwarning: {KEPT_BY_NONE}" in status
    assert "20 documents in, 0 kept" in status
    (report,) = (tmp_path / "runs/report").glob("*/report.html")
    assert "clean: none of 20 documents is left" in report.read_text()


def test_a_stage_that_needs_documents_does_not_start(tmp_path: Path) -> None:
    typed = settings(tmp_path, rows(), *LANGUAGE, "until=unique")
    remedy = (
        f"; change the settings, or see what was dropped: headrace inspect clean --rule language root={tmp_path}/runs"
    )
    for _ in range(2):
        done = headrace_here(*typed)
        assert done.returncode == 2
        error = done.stderr.splitlines()[-1]
        assert error.startswith(f"headrace: {KEPT_BY_NONE}")
        assert error.endswith(remedy)
    status = headrace_here("status", f"root={tmp_path}/runs").stdout
    assert f"signatures failed: {KEPT_BY_NONE}" in status


def test_the_warning_is_printed_when_the_stage_ends(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A job of a cluster prints it to its log, and the job of the next stage ends with the error."""
    headrace_here(*settings(tmp_path, rows(), *LANGUAGE, "until=unique"))
    run_json = newest_file(str(tmp_path / "runs"))
    assert run_json is not None
    steps = {step.name: step for step in load(run_json)[1]}
    (steps["clean"].folder / "manifest.json").unlink()
    work_log.clear_error(steps["signatures"].folder)
    capfd.readouterr()
    assert worker.main([str(run_json), "signatures", "signatures", "0"]) == 2
    assert f"warning: {KEPT_BY_NONE}" in capfd.readouterr().err
    found = work_log.error_of(steps["signatures"].folder)
    assert isinstance(found, ConfigError)
    assert str(found).startswith(KEPT_BY_NONE)


@pytest.mark.parametrize(
    ("lines", "more", "message"),
    [
        ([], [], "texts: there are no records; give files with records: source.paths"),
        (
            [*rows(20), *({"url": f"https://b.org/{n}"} for n in range(3))],
            ["cleaning.filters.page_length.max_characters=5"],
            "clean: none of 20 documents is left, dropped by page_length 20; for example pages.jsonl:0 (page_length: '",
        ),
        (
            [{"text": "\x00"}, *({"text": " "} for _ in range(3))],
            [],
            "texts: none of 4 records is left, dropped by no_text 4; for example pages.jsonl:0 (no_text: ",
        ),
    ],
)
def test_other_stages_and_rules(tmp_path: Path, lines, more, message) -> None:
    done = headrace_here(*settings(tmp_path, lines, *more, "until=signatures"))
    assert done.returncode == 2, done.stdout
    assert done.stderr.splitlines()[-1].startswith(f"headrace: {message}")


def test_all_documents_of_an_older_crawl(tmp_path: Path) -> None:
    """``against`` an older run with the same documents, no document remains."""
    first = settings(tmp_path, rows(), "cleaning=none", "until=unique")
    assert headrace_here(*first).returncode == 0
    (older,) = (tmp_path / "runs/unique").iterdir()
    done = headrace_here(*first[:-1], f"dedup.against=[{older}]", "until=tokenizer")
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("headrace: unique: none of 20 documents is left, dropped by ")
