"""Raw files that change between the plan of a run and its tasks, or while a task reads: refused, and by name."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import tokenizers

from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.source import Record, Section
from headrace.data_prep.texts import Texts
from headrace.data_prep.tokenization.given_tokenizer import GivenFile
from headrace.data_prep.tokenization.made_tokenizers import byte_level
from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT
from headrace.data_prep.tokenizer import Tokenizer
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.settings import canonical
from headrace.pipeline.core.stage import RawFile, refuse_changes
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import load, plan, save
from headrace.pipeline.run.run_execution import execute

REMEDY = "since the run was planned; run again: new content has an address of its own"


def lines(word: str, rows: int = 20) -> str:
    return "".join(
        json.dumps({"text": f"The old {word} stands beside the river, {row:03}."}) + "\n" for row in range(rows)
    )


def planned(tmp_path: Path, *overrides: str) -> Path:
    """The run.json of a run over the folder ``raw``, three files in a task each; up to texts."""
    raw = tmp_path / "raw"
    raw.mkdir(exist_ok=True)
    for name in "abc":
        (raw / f"{name}.jsonl").write_text(lines(f"mill {name}"))
    return planned_again(tmp_path, *overrides)


def planned_again(tmp_path: Path, *overrides: str) -> Path:
    settings = ["source=jsonl", f"source.paths=[{tmp_path}/raw]", "source.task_bytes=1", "cleaning=none"]
    values = compose([*settings, f"root={tmp_path}/root", "until=texts", "workers=2", *overrides])
    config = decoded(values)
    return save(config, values, plan(config))


def carried_out(run_json: Path) -> Artifact:
    """Returns the last result before the report, of workers in another process on the run."""
    config, steps = load(run_json)
    return [execute(step, config) for step in steps[:-1]][-1]


def refuses(run_json: Path, file: Path, wrong: str) -> PlannedStage:
    with pytest.raises(RetryableError) as error:
        carried_out(run_json)
    assert re.fullmatch(f"{re.escape(str(file))}: {wrong} {REMEDY}", str(error.value)), str(error.value)
    return load(run_json)[1][-2]


def rewrite(file: Path, text: str, keep_time: bool = False) -> None:
    before = file.stat()
    file.write_text(text)
    if keep_time:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


CUT = "source.section_bytes=300"


@pytest.mark.parametrize("cut", [(), (CUT,)])
def test_a_rewritten_file_is_never_read_under_the_address_of_its_old_content(tmp_path: Path, cut: tuple[str]) -> None:
    run_json = planned(tmp_path, *cut)
    rewrite(tmp_path / "raw/b.jsonl", lines("barn"))
    wrong = r"has changed \(SHA-256 [0-9a-f]{12}, it was [0-9a-f]{12}\)"
    step = refuses(run_json, tmp_path / "raw/b.jsonl", wrong)
    kept = "records" if cut else "texts"
    assert 1 in step.missing(step.phases[0]) or cut, "no part record of the task that read it"
    assert step.missing(next(phase for phase in step.phases if phase.name == kept))
    again = planned_again(tmp_path, *cut)
    assert carried_out(again).counts["records_in"] == 60, "running again works, at another address"
    assert load(again)[1][0].address != step.address


def test_the_same_size_and_modification_time_do_not_hide_a_change(tmp_path: Path) -> None:
    run_json = planned(tmp_path)
    rewrite(tmp_path / "raw/c.jsonl", lines("mile c"), keep_time=True)
    refuses(run_json, tmp_path / "raw/c.jsonl", r"has changed \(SHA-256 .{12}, it was .{12}\)")


def test_a_removed_file_is_named(tmp_path: Path) -> None:
    run_json = planned(tmp_path)
    (tmp_path / "raw/a.jsonl").unlink()
    refuses(run_json, tmp_path / "raw/a.jsonl", "was removed")


@pytest.mark.parametrize("cut", [(), (CUT,)])
def test_a_new_file_in_the_folder_is_no_part_of_the_planned_run(tmp_path: Path, cut: tuple[str]) -> None:
    """A new list would give files to other tasks: one file was read twice, another never."""
    run_json = planned(tmp_path, *cut)
    (tmp_path / "raw/aa.jsonl").write_text(lines("newcomer"))
    artifact = carried_out(run_json)
    assert artifact.counts["records_in"] == 60
    assert [file["name"] for file in artifact.manifest["raw_files"]] == ["a.jsonl", "b.jsonl", "c.jsonl"]


@pytest.mark.parametrize("section", [Section("", 0), Section("", 0, 0, 3)])
def test_a_change_while_a_task_reads_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: Section
) -> None:
    """The file is as planned before the task, and again after it, but for its change time."""
    run_json = planned(tmp_path, *([CUT] if section.of > 1 else []))
    step = load(run_json)[1][0]
    file = tmp_path / "raw/a.jsonl"
    content = file.read_text()
    read = Jsonl.read_section

    def disturbed(source: Jsonl, part: Section, first: int) -> Iterator[Record]:
        rewrite(file, lines("barn a"), keep_time=True)
        yield from read(source, part, first)
        rewrite(file, content, keep_time=True)

    for phase in step.phases[:-1]:
        for task in range(phase.tasks):
            step.executor(phase).run_task(task)
    monkeypatch.setattr(Jsonl, "read_section", disturbed)
    with pytest.raises(RetryableError, match=f"{file}: has changed {REMEDY}"):
        step.executor(step.phases[-1]).run_task(0)
    assert 0 in step.missing(step.phases[-1])


def test_a_change_between_counting_and_reading_sections_is_found(tmp_path: Path) -> None:
    run_json = planned(tmp_path, CUT)
    step = load(run_json)[1][0]
    for phase in step.phases[:-1]:
        for task in range(phase.tasks):
            step.executor(phase).run_task(task)
    rewrite(tmp_path / "raw/b.jsonl", lines("mile b"), keep_time=True)
    with pytest.raises(RetryableError) as error:
        carried_out(run_json)
    wrong = "was written or replaced since its records were counted"
    remedy = "run again: its records are then counted again"
    assert str(error.value) == f"{tmp_path}/raw/b.jsonl: {wrong}; {remedy}"
    with pytest.raises(RetryableError, match=rf"{tmp_path}/raw/b.jsonl: has changed \(SHA-256"):
        carried_out(run_json)


def test_copies_of_files_whose_records_were_counted_are_read(tmp_path: Path) -> None:
    """They have the same contents, and other times. One more run counts the records of both again, of no other."""
    run_json = planned(tmp_path, CUT)
    step = load(run_json)[1][0]
    for phase in step.phases[:-1]:
        for task in range(phase.tasks):
            step.executor(phase).run_task(task)
    for name in "ab":
        rewrite(tmp_path / f"raw/{name}.jsonl", lines(f"mill {name}"))
    records, numbering, texts = step.phases
    by_file = step.stage.shards_by_file
    for name in "ab":
        replaced = rf"{name}.jsonl: was written or replaced since its records were counted; run again"
        with pytest.raises(RetryableError, match=replaced):
            step.executor(texts).run_task(by_file[f"{name}.jsonl"][1])
    assert step.missing(records) == [*by_file["a.jsonl"], *by_file["b.jsonl"]]
    assert step.missing(numbering) == [0]
    assert carried_out(run_json).counts["records_in"] == 60


def test_a_file_of_a_filter_that_changes_is_refused(tmp_path: Path) -> None:
    sites = tmp_path / "sites.txt"
    sites.write_text("bad.example\n")
    blocked = f"cleaning.filters=[{{type: allowed_domains, path: {sites}}}]"
    run_json = planned(tmp_path, blocked, "until=clean")
    sites.write_text("good.example\n")
    refuses(run_json, Path("sites.txt"), r"has changed \(SHA-256 .{12}, it was .{12}\)")


def test_a_given_tokenizer_that_changes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(byte_level(tokenizers.models.BPE({END_OF_TEXT: 0}, [])).to_str())
    stage = Tokenizer(settings=GivenFile(path=str(file)))
    stage = stage.planned_as(stage.description({"unique": ""}))
    stage.check_raw_files()
    file.write_text(byte_level(tokenizers.models.BPE({END_OF_TEXT: 0, "a": 1}, [])).to_str())
    with pytest.raises(
        RetryableError, match=rf"^tokenizer\.json: has changed \(SHA-256 .{{12}}, it was .{{12}}\) {REMEDY}$"
    ):
        stage.check_raw_files()


def test_what_was_planned_is_in_no_address() -> None:
    stage = Texts(source=Jsonl(paths=("nowhere",)))
    planned = stage.planned_as({"raw_files": [{"name": "a", "bytes": 1, "sha256": "b"}]})
    assert planned.planned == (RawFile("a", 1, "b"),)
    assert canonical(planned) == canonical(stage)


def test_files_that_come_and_go_are_named() -> None:
    one, two = RawFile("one", 1, "a"), RawFile("two", 2, "b")
    with pytest.raises(RetryableError, match=f"^two: was removed {REMEDY}$"):
        refuse_changes([one, two], [one])
    with pytest.raises(RetryableError, match=f"^two: was added {REMEDY}$"):
        refuse_changes([one], [one, two])
