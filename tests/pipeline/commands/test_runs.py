"""Commands about saved runs: they need neither the raw data nor the folder, the settings or the user of the start."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline.clusters.base import Job
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration import composition
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core import claim, work_log
from headrace.pipeline.core.artifact import FORMAT, Artifact
from headrace.pipeline.core.errors import ArtifactError, TaskError
from headrace.pipeline.core.json_files import write_json, write_sealed
from headrace.pipeline.core.work_log import Attempt
from headrace.pipeline.run import jobs, saved_run, storage
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import plan, save
from tests.command_line import headrace_here
from tests.small_runs import plain_corpus

SETTINGS = (
    "source=jsonl", "source.paths=[raw/a.jsonl]", "cleaning=none", "tokenizer.vocabulary_size=300", "until=packed",
    "packing.row_tokens=128", "packing.validation_fraction=0.4", "dedup.buckets=1",
)  # fmt: skip
RUNS = "runs"


def started(run_stage, folder: Path, *overrides: str, stages: int = 99) -> list[PlannedStage]:
    """Starts a run in ``folder`` with relative paths and finishes its first ``stages``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        line = [*SETTINGS, *overrides]
        values = compose(line)
        config = decoded(values)
        steps = plan(config)
        save(config, values, steps, line)
        for step in steps[:stages]:
            if not step.is_whole:
                run_stage(step.stage, {name: Artifact(path) for name, path in step.inputs.items()}, step.folder)
        return steps


@pytest.fixture(scope="module")
def home(run_stage, tmp_path_factory) -> Path:
    """A folder where two runs were started: ``small``, and ``other`` with another tokenizer; its raw data is gone."""
    home = tmp_path_factory.mktemp("home")
    (home / "raw").mkdir()
    (home / "raw/a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in plain_corpus()[0]))
    started(run_stage, home, "name=small")
    started(run_stage, home, "name=other", "tokenizer.vocabulary_size=290", stages=7)
    (home / "raw").rename(home / "moved")
    return home


@pytest.fixture
def elsewhere(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another current folder. Returns the root of the runs."""
    monkeypatch.chdir(tmp_path)
    return home / RUNS


def lines(*arguments: str) -> list[str]:
    done = headrace_here(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def run_json(root: Path, name: str) -> Path:
    return saved_run.named_file(str(root), name)


QUESTIONS = (
    ["why", "a.jsonl:2"],
    ["why", "0:12", "--as", "token"],
    ["inspect", "clean", "--sample", "1"],
    ["why", "1", "--as", "step"],
    ["why", "page.txt", "--as", "page"],
)


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_a_question_needs_neither_raw_data_nor_folder_nor_settings(elsewhere: Path, question: list[str]) -> None:
    Path("page.txt").write_text(plain_corpus()[0][2]["text"])
    by_name = lines(*question, "--run", "small", f"root={elsewhere}")
    assert any("a.jsonl:2" in line or "a.jsonl" in line for line in by_name)
    assert lines(*question, f"--run={run_json(elsewhere, 'small').parent}") == by_name
    assert lines(*question, *SETTINGS, f"root={elsewhere}") == by_name, "its settings, from another folder"


def test_status_by_name_id_beginning_and_path(elsewhere: Path) -> None:
    file = run_json(elsewhere, "small")
    rows = lines("status", "small", f"root={elsewhere}")
    assert [row.split()[0] for row in rows[1:]][-2:] == ["packed", "report"]
    assert all("…" not in row for row in rows)
    assert str(elsewhere / "texts") in rows[1], "a path is never cut"
    for name in (file.parent.name, file.parent.name[:7], "sma", str(file.parent), str(file)):
        assert lines("status", name, f"root={elsewhere}") == rows
    assert lines("status", "name=small", f"root={elsewhere}") == rows
    assert lines("status", f"root={elsewhere}", *SETTINGS) == rows
    states = dict(row.split()[:2] for row in lines("status", "other", f"root={elsewhere}")[1:])
    assert (states["tokenizer"], states["tokens"], states["packed"]) == ("done", "to", "to")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smal"], ""),
        (["smell"], "RUN: 'smell' is not a run below 'ROOT'; did you mean 'small'? (headrace runs lists all)"),
        (["small", "ranks=2"], "RUN: both 'small' and settings (ranks) are given; name the run, or give its settings"),
    ],
)
def test_a_run_that_is_named_wrongly(elsewhere: Path, arguments: list[str], message: str) -> None:
    done = headrace_here("status", *arguments, f"root={elsewhere}")
    expected = f"headrace: {message.replace('ROOT', str(elsewhere))}\n" if message else ""
    assert done.stderr == expected


def test_a_beginning_of_several_runs_is_refused(tmp_path: Path) -> None:
    for number, name in enumerate(("lr-1", "lr-2", "lr-2")):
        values = {"format": FORMAT, "config": {"name": name}, "descriptions": {}, "steps": []}
        write_sealed(tmp_path / f"runs/{number:012x}/run.json", values)
        os.utime(tmp_path / f"runs/{number:012x}/run.json", (number, number))
    done = headrace_here("status", "lr", f"root={tmp_path}")
    assert done.stderr.startswith("headrace: RUN: 'lr' is the beginning of several: lr-2 000000000002, ")
    assert saved_run.named_file(str(tmp_path), "lr-2").parent.name == "000000000002", "the last one of that name"


def test_a_plain_root_needs_no_settings(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Composing them would take longer than the list of some hundred runs. Other values have Hydra's grammar."""
    composed: list[str] = []
    monkeypatch.setattr(
        composition, "compose", lambda overrides: composed.extend(overrides) or {"root": str(elsewhere)}
    )
    rows = lines("runs", f"root={elsewhere}")
    assert not composed
    assert lines("runs", f"root='{elsewhere}'") == rows
    assert composed == [f"root='{elsewhere}'"]


def test_runs_lists_those_of_all_users(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [json.loads(line) for line in lines("runs", "--json", f"root={elsewhere}")]
    found = {row["name"]: row for row in rows}
    small = found["small"]
    assert (small["done"], small["stages"], small["where"], small["own"], small["running"]) == (
        small["stages"],
        len(saved_run.SavedRun.read(run_json(elsewhere, "small")).steps),
        "local",
        True,
        False,
    )
    assert found["other"]["done"] == 7
    listed = [Artifact(path.parent).manifest["files"].values() for path in elsewhere.glob("*/*/manifest.json")]
    assert 10_000 < small["bytes"] <= sum(file["bytes"] for files in listed for file in files)
    table = lines("runs", f"root={elsewhere}")
    row = next(line for line in table if line.startswith("small "))
    assert all(str(small[key]) in row for key in ("id", "started"))
    assert f"{small['user']} *" in row
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    foreign = lines("runs", f"root={elsewhere}")
    assert len(foreign) == len(table)
    assert not any("*" in line for line in foreign)
    done = headrace_here("status", f"root={elsewhere}")
    assert "no run of yours was started below" in done.stderr, "the newest run is one's own"
    assert len(lines("status", "small", f"root={elsewhere}")) == small["stages"] + 1


def test_a_run_pays_for_its_own_work_alone(elsewhere: Path) -> None:
    """``other`` uses the texts of ``small``."""
    small, other = (saved_run.SavedRun.read(run_json(elsewhere, name)) for name in ("small", "other"))
    texts = small.steps[0].folder
    assert texts == other.steps[0].folder
    attempt = Attempt("n1", "CPU", 8, 16, (), 0.0, 1800.0, None, small.id, "", 8)
    path = texts / "logs/hosts/1.json"
    write_json(path, dataclasses.asdict(attempt))
    try:
        spent = {name: lines("status", name, f"root={elsewhere}") for name in ("small", "other")}
        rows = {row["name"]: row for row in map(json.loads, lines("runs", "--json", f"root={elsewhere}"))}
        table = lines("runs", f"root={elsewhere}")
    finally:
        path.unlink()
    assert " 4 core-h, " in spent["small"][1]
    assert " reused " in spent["other"][1]
    assert spent["small"][-1].startswith("spent: 4 core-h, ")
    assert spent["small"][-1].endswith(" in 1 attempts")
    assert not any(line.startswith("spent: ") for line in spent["other"])
    assert [rows[name]["core_hours"] for name in ("small", "other")] == [4, 0]
    assert [small.id in line for line in table if " 4 core-h " in line] == [True]


def test_notes_of_runs_are_a_column_where_a_run_has_some(tmp_path: Path) -> None:
    notes = "the whole\n\tcrawl\x1b, " + 60 * "x"
    for number, tracking in enumerate(({}, {"notes": notes}, {"notes": None})):
        values = {"format": FORMAT, "config": {"tracking": tracking}, "descriptions": {}, "steps": []}
        write_sealed(tmp_path / f"runs/{number:012x}/run.json", values)
        head, *rows = lines("runs", f"root={tmp_path}")
        assert ("notes" in head) == (number > 0)
    assert [row.rstrip()[-10:] for row in rows if "crawl" in row] == [9 * "x" + "…"]
    assert sum("the whole crawl\ufffd, xxx" in row for row in rows) == 1
    found = [json.loads(line)["notes"] for line in lines("runs", "--json", f"root={tmp_path}")]
    assert sorted(found) == ["", "", notes]


def test_a_name_that_another_run_has(run_stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest one has it; a restart without a name keeps it."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.jsonl").write_text('{"text": "One page."}\n')
    monkeypatch.chdir(tmp_path)
    line = [*SETTINGS, "until=clean"]
    started(run_stage, tmp_path, "until=clean", "name=mine")
    first = run_json(Path(RUNS), "mine")
    second = headrace_here(*line, "name=mine", "dedup.threshold=0.7")
    assert second.returncode == 0
    assert run_json(Path(RUNS), "mine") != first
    assert headrace_here(*line, "dedup.threshold=0.7").returncode == 0
    assert run_json(Path(RUNS), "mine") != first, "it keeps its name"


def test_du_marks_what_runs_share(elsewhere: Path) -> None:
    artifacts = [json.loads(line) for line in lines("du", "--json", "small", f"root={elsewhere}")]
    runs = {row["stage"]: len(row["runs"]) for row in artifacts}
    assert runs["clean"] >= 2
    assert runs["tokenizer"] >= 1
    table = lines("du", "small", f"root={elsewhere}")
    assert any(line.startswith("clean ") and "other" in line for line in table)
    assert not any(line.startswith("tokens ") and "other" in line for line in table)
    both = lines("du", f"root={elsewhere}")
    assert any(line.startswith("small ") for line in both)
    assert sum(line.startswith("no run") for line in both) == 1


def test_logs_names_the_failed_task_and_prints_the_end_of_its_log(run_stage, home: Path, elsewhere: Path) -> None:
    step = next(one for one in saved_run.SavedRun.read(run_json(elsewhere, "other")).steps if one.name == "tokens")
    run_logs = run_json(elsewhere, "other").parent / "logs"
    log = run_logs / "tokens.tokens-7_0.log"
    log.parent.mkdir()
    jobs.record(step, step.phases[0], Job("7", str(run_logs / "tokens.tokens-7"), 2))
    (step.folder / "logs/tokens.log").write_text("older")
    os.utime(step.folder / "logs/tokens.log", (1, 1))
    log.write_text("".join(f"line {n}\n" for n in range(50)) + "OSError: \x1b[2Jbroken\n")
    work_log.write_error(step.folder, TaskError("tokens task 0", "OSError: broken", "repair it"))
    try:
        found = lines("status", "other", "--logs", f"root={elsewhere}", "--lines", "3")
        with claim.claimed(step.folder / "parts/tokens-00000.claim"):
            at_work = lines("status", "other", "--logs", f"root={elsewhere}", "--lines", "3")
    finally:
        subprocess.run(["rm", "-r", str(step.folder)], check=True)
    assert found[0].split(maxsplit=1) == ["stage", "tokens, 0 of 1 tasks done"]
    assert found[1].startswith("job ")
    assert found[2].split(maxsplit=1) == ["error", "tokens task 0: OSError: broken; repair it"]
    assert found[3].split(maxsplit=1) == ["failed", f"tokens tokens task 0: {log}"]
    assert at_work[3].split(maxsplit=1) == ["running", f"tokens tokens task 0: {log}"]
    assert [row.split(maxsplit=1)[1] for row in found[4:6]] == [str(log), str(step.folder / "logs/tokens.log")]
    assert found[-6:-3] == ["line 48", "line 49", "OSError: \ufffd[2Jbroken"]
    assert lines("status", "small", "--logs", "--stage", "clean", f"root={elsewhere}")[0].split() == [
        "stage",
        "clean,",
        "done",
    ]
    done = headrace_here("status", "small", "--logs", "--stage", "claen", f"root={elsewhere}")
    assert "the run has no stage 'claen'; did you mean 'clean'?" in done.stderr


class Waste:
    """A root with one run and three artifacts that no run uses: ``first`` <- ``second``, ``busy``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.used, self.input = self.artifact("clean", "a" * 12), self.artifact("packed", "b" * 12)
        self.first = self.artifact("clean", "c" * 12)
        self.second = self.artifact("unique", "d" * 12, {"clean": "c" * 12})
        self.mixed = self.artifact("tokens", "e" * 12, {"packed": "b" * 12})
        self.own_scores = self.artifact("folder_scores", "f" * 12)
        steps = [{"name": "clean", "address": "a" * 12, "phases": []}]
        config = {"mixture": {"sources": [{"packed": f"{root}/tokens/{'e' * 12}"}]}}
        values = {"format": FORMAT, "config": config, "descriptions": {}, "steps": steps}
        write_sealed(root / "runs/000000000000/run.json", values)

    def artifact(self, stage: str, address: str, inputs: dict[str, str] | None = None) -> Path:
        folder = self.root / stage / address
        write_sealed(folder / "manifest.json", {"inputs": inputs or {}})
        return folder

    @property
    def left(self) -> set[Path]:
        return {one.folder for one in storage.artifacts(self.root)}


@pytest.fixture
def waste(tmp_path: Path) -> Waste:
    return Waste(tmp_path / RUNS)


def test_gc_lists_before_it_removes(waste: Waste) -> None:
    before = waste.left
    assert "\n2 artifacts (" in "\n" + headrace_here("runs", f"root={waste.root}").stderr
    listed = lines("du", "--unused", f"root={waste.root}")
    assert [row.split()[0] for row in listed[1:3]] == [f"clean/{'c' * 12}", f"unique/{'d' * 12}"]
    assert listed[1].split()[-2:] == [f"unique/{'d' * 12}", "remove"], "what was made from it"
    assert listed[-1].startswith("to remove: 2 artifacts, ")
    assert listed[-1].endswith("; nothing was removed: give --delete")
    assert waste.left == before
    assert lines("du", "--unused", "--delete", f"root={waste.root}")[-1].startswith("removed 2 artifacts")
    assert waste.left == before - {waste.first, waste.second}, "not what a mixture names, nor what that was made from"
    assert lines("du", "--unused", f"root={waste.root}") == [f"every artifact below {waste.root} is used by a run"]
    assert not headrace_here("runs", f"root={waste.root}").stderr


def test_gc_lists_a_training_that_no_run_uses(waste: Waste) -> None:
    """Its description has settings of a training, where that of a checkpoint's scores has the address of one."""
    write_sealed(
        waste.root / f"weights/{'9' * 12}/manifest.json", {"inputs": {}, "settings": {"training": {"steps": 2}}}
    )
    assert f"weights/{'9' * 12}" in [row.split()[0] for row in lines("du", "--unused", f"root={waste.root}")[1:-1]]
    assert "3 artifacts (" in headrace_here("runs", f"root={waste.root}").stderr


def test_gc_keeps_what_is_in_use_and_what_others_own(waste: Waste, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = waste.second / "parts/unique-00000.claim"
    claim.parent.mkdir()
    claim.symlink_to(f"{saved_run.Owner.current()}~~0")
    assert "kept: in use" in lines("du", "--unused", "--delete", f"root={waste.root}")[1]
    assert {waste.first, waste.second} <= waste.left, "nor are the inputs of what is in use"
    claim.unlink()
    own = storage.is_own
    monkeypatch.setattr(storage, "is_own", lambda path: path != waste.second and own(path))
    assert "kept: belongs to" in lines("du", "--unused", "--delete", f"root={waste.root}")[1]
    assert {waste.first, waste.second} <= waste.left


@pytest.mark.parametrize("hours", [-1, 1])
def test_gc_keeps_what_another_machine_works_on_whatever_its_clock_says(waste: Waste, hours: int) -> None:
    claim = waste.second / "parts/unique-00000.claim"
    claim.parent.mkdir()
    claim.symlink_to("node7~4026531836~4711~88231~~0")
    beat = time.time() + 3600 * hours
    os.utime(claim, (beat, beat), follow_symlinks=False)
    assert "kept: in use" in lines("du", "--unused", "--delete", f"root={waste.root}")[1]
    assert {waste.first, waste.second} <= waste.left


def test_the_mark_of_a_command_on_another_machine_is_kept_whatever_its_clock_says(waste: Waste) -> None:
    """The copy of run.json that gc reads lies beside it."""
    file = waste.root / "runs/000000000000/run.json"
    mark = file.with_name("running-node7~4026531836~4711~88231.claim")
    mark.symlink_to("node7~4026531836~4711~88231~~0")
    mark.with_suffix(".json").write_bytes(file.read_bytes())
    behind = time.time() - 3600
    os.utime(mark, (behind, behind), follow_symlinks=False)
    with saved_run.in_progress(file):
        assert mark.is_symlink()
        assert mark.with_suffix(".json").is_file()


VANISHING = ("runs/000000000000", f"clean/{'c' * 12}", f"clean/{'c' * 12}/manifest.json", f"packed/{'b' * 12}")


@pytest.mark.parametrize("command", [["du", "--json"], ["runs"], ["du", "--unused"]], ids=" ".join)
@pytest.mark.parametrize("gone", VANISHING)
def test_what_vanishes_during_a_listing_ends_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], gone: str
) -> None:
    """A run that is at work, or a user, removes it just before one of the first looks at a file."""
    look, left = os.stat, [0]

    def stat(*arguments: object, **named: object) -> os.stat_result:
        left[0] -= 1
        if not left[0]:
            (target / "run.json" if "runs/" in gone else target).rename(tmp_path / "gone")
        return look(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", stat)
    for number in range(1, 60, 2):
        waste = Waste(tmp_path / str(number))
        target, left[0] = waste.root / gone, number
        done = headrace_here(*command, f"root={waste.root}")
        if left[0] > 0:
            break  # the command looks less often
        assert done.returncode == 0, done.stderr
        subprocess.run(["rm", "-r", str(tmp_path / "gone")], check=True)
    assert number > 20


def test_a_killed_removal_leaves_no_half_artifact(waste: Waste, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "remove_leftover", lambda folder: os._exit(9))
    child = os.fork()
    if not child:
        storage.remove(storage.Stored(waste.second), waste.root, [])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    monkeypatch.undo()
    assert waste.second not in waste.left
    assert "1 artifacts and 1 remains of earlier removals" in lines("du", "--unused", f"root={waste.root}")[-1]
    lines("du", "--unused", "--delete", f"root={waste.root}")
    assert not list(waste.root.glob("*/tmp-*"))


def test_gc_gives_back_what_a_run_begins_to_use(waste: Waste, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "used_addresses", lambda root: {waste.second.name})
    assert not storage.remove(storage.Stored(waste.second), waste.root, [])
    assert waste.second in waste.left


def test_gc_keeps_the_inputs_of_what_a_run_begins_to_use(waste: Waste, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is started after the list was made. The files of the other runs are not read again."""
    others = [one.stored for one in storage.unused(waste.root)]
    read, addresses = list[Path](), f"{waste.root}/unique/{waste.second.name}"
    monkeypatch.setattr(
        storage.SavedRun,
        "read",
        lambda file: read.append(file) or saved_run.SavedRun(file, saved_run.read_saved(file)),
    )
    values = {"format": FORMAT, "config": {"mixture": addresses}, "descriptions": {}, "steps": []}
    write_sealed(waste.root / "runs/111111111111/run.json", values)
    for _ in range(2):
        assert not storage.remove(storage.Stored(waste.first), waste.root, others)
    assert waste.first in waste.left
    assert read == [waste.root / "runs/111111111111/run.json"]


def test_gc_removes_nothing_when_a_run_cannot_be_read(waste: Waste) -> None:
    (waste.root / "runs/000000000000/run.json").write_text("{}")
    before = waste.left
    done = headrace_here("du", "--unused", "--delete", f"root={waste.root}")
    assert (done.returncode, waste.left) == (1, before)
    assert "artifacts" not in headrace_here("runs", f"root={waste.root}").stderr, "it is not known what is unused"


def test_gc_removes_nothing_when_the_folder_of_a_run_cannot_be_read(
    waste: Waste, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of another user with mode 700. The tests may run as root, who can read it."""
    scandir, closed, before = os.scandir, waste.root / "runs/000000000000", waste.left

    def refusing(path: str | Path) -> Iterator[os.DirEntry[str]]:
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    done = headrace_here("du", "--unused", "--delete", f"root={waste.root}")
    assert (done.returncode, waste.left) == (1, before)
    assert done.stderr.startswith(f"headrace: {closed}: cannot be read, so what it uses is unknown; ")


def test_gc_removes_nothing_when_the_folder_of_a_stage_cannot_be_read(
    waste: Waste, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its artifacts may be made from any other. The tests may run as root, who can read it."""
    access, before = os.access, waste.left
    closed = waste.root / "tokens"
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed and access(path, mode))
    done = headrace_here("du", "--unused", "--delete", f"root={waste.root}")
    assert (done.returncode, waste.left) == (1, before)
    assert done.stderr.startswith(f"headrace: {closed}: cannot be read, so what it uses is unknown; ")
    assert headrace_here("du", f"root={waste.root}").stderr == f"left out: {closed} (not readable)\n"


def test_claims_of_readers_that_were_killed_are_removed(waste: Waste) -> None:
    """By gc, and by the next reader. Those that may be in use stay: a live one, and one of another machine."""
    here = str(saved_run.Owner.current())
    ended = here.replace(f"~{os.getpid()}~", "~99999999~")
    for folder in (waste.used, waste.first):
        (folder / "logs").mkdir()
        for owner in (here, ended, f"elsewhere{ended}"):
            (folder / "logs" / storage.READING.format(owner)).symlink_to(f"{owner}~~0")
    with storage.reading([waste.used]):
        left = sorted(path.name for path in (waste.used / "logs").iterdir())
        assert left == sorted(storage.READING.format(owner) for owner in (here, f"elsewhere{ended}"))
    lines("du", "--unused", "--delete", f"root={waste.root}")
    assert sorted(path.name for path in (waste.first / "logs").iterdir()) == left


def test_gc_removes_nothing_but_artifacts(waste: Waste) -> None:
    """Folders of other programs with twelve digits, folders without an artifact's content, and links stay."""
    crawl, empty = waste.root / "crawl/202411221405", waste.root / "clean/202411221405"
    linked, target = waste.root / "unique" / ("9" * 12), waste.root.parent / "elsewhere"
    remains = (
        waste.root / "clean" / f"tmp-{saved_run.Owner.current()}-{'8' * 12}".replace(f"~{os.getpid()}~", "~99999999~")
    )
    for folder in (crawl, empty, target):
        write_sealed(folder / "pages/manifest.json", {})
    for folder in (crawl, target):
        write_sealed(folder / "manifest.json", {"inputs": {"clean": "c" * 12}})
    for link in (linked, remains):
        link.symlink_to(target, target_is_directory=True)
    listed = lines("du", "--unused", "--delete", f"root={waste.root}")
    assert any(row.startswith(f"unique/{linked.name} ") and "kept: a symbolic link" in row for row in listed)
    assert listed[-1].startswith("removed 1 artifacts, ")
    assert all((folder / "manifest.json").is_file() for folder in (crawl, target, linked, remains))
    assert (empty / "pages").is_dir()
    assert waste.first in waste.left, "an input of what the link leads to"


def test_gc_gives_back_what_a_process_begins_to_use(waste: Waste, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the check that follows the rename fails."""
    with monkeypatch.context() as patch, storage.reading([waste.second]):
        assert not storage.remove(storage.Stored(waste.second), waste.root, [])
        patch.setattr(storage.Stored, "is_in_use", property(lambda one: one.address.startswith(storage.UNFINISHED)))
        assert not storage.remove(storage.Stored(waste.second), waste.root, []), "the claim came before the rename"
    assert waste.second in waste.left
    (waste.root / "runs/000000000000/run.json").write_text("{}")
    with pytest.raises(ArtifactError):
        storage.remove(storage.Stored(waste.second), waste.root, [])
    assert waste.second in waste.left


def test_a_shorter_start_gives_nothing_up(run_stage, tmp_path: Path) -> None:
    """A start with an earlier ``until`` still uses what came after."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.jsonl").write_text('{"text": "One page."}\n')
    root = tmp_path / RUNS
    steps = started(run_stage, tmp_path, "until=signatures")
    shorter = started(run_stage, tmp_path, "until=clean")
    assert storage.unused(root) == []
    (tmp_path / "raw/a.jsonl").write_text('{"text": "Another page."}\n')
    started(run_stage, tmp_path, "until=clean")
    assert {one.stored.address for one in storage.unused(root)} == {step.address for step in [*steps, *shorter]}


SLEEPER = """
import sys, time
from pathlib import Path
from headrace.pipeline.core.signals import Stop, stoppable
from headrace.pipeline.run.saved_run import in_progress
try:
    with stoppable(), in_progress(Path(sys.argv[1])):
        print("ready", flush=True)
        time.sleep(600)
except Stop:
    sys.exit(7)
"""


def test_a_local_run_is_asked_to_stop(elsewhere: Path) -> None:
    file = run_json(elsewhere, "other")
    process = subprocess.Popen([sys.executable, "-c", SLEEPER, str(file)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    found = {json.loads(line)["name"]: json.loads(line) for line in lines("runs", "--json", f"root={elsewhere}")}
    assert (found["other"]["running"], found["small"]["running"]) == (True, False)
    assert storage.used_addresses(elsewhere)
    shown = lines("cancel", "other", f"root={elsewhere}")
    assert shown[1].startswith(f"asked to stop     PID {process.pid} ")
    assert process.wait(300) == 7
    assert sorted(path.name for path in file.parent.glob("running-*")) == []
    assert lines("cancel", "other", f"root={elsewhere}")[1].startswith("nothing")


def test_a_killed_command_is_not_in_progress(elsewhere: Path) -> None:
    file = run_json(elsewhere, "other")
    process = subprocess.Popen([sys.executable, "-c", SLEEPER, str(file)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait(300)
    assert saved_run.SavedRun.read(file).processes() == []
    with saved_run.in_progress(file):
        assert len(list(file.parent.glob("running-*.claim"))) == 1, "what it left is removed"
