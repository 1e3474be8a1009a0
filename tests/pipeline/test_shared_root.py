"""In a root that others write to, their files run no command and open no file outside the run's sources."""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.pipeline.clusters.slurm import SCRIPTS
from headrace.pipeline.command_line.request import newest
from headrace.pipeline.commands import inspect
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_sealed, write_json, write_sealed
from headrace.pipeline.documents.marking import pages
from headrace.pipeline.run.planner import load_stages, save
from headrace.train.checkpoint import store
from tests.small_runs import Corpus, build
from tests.stage_run import texts_and_clean
from tests.unique_documents import write_documents

STAND_INS = {
    "scontrol": 'case "$*" in *hostnames*) echo n1;; *job*) echo JobState=RUNNING;; *) echo NodeAddr=n1;; esac',
    "srun": "exit 3",
}
ATTEMPTS = (
    "restarts[$(touch {mark})]",
    "began[`touch {mark}`0]+1",
    "BASH_VERSINFO[$(touch${{IFS}}{mark})]",
    "08",
    "-5",
    "99999999999999999999",
)


@pytest.mark.parametrize("restarts", ATTEMPTS)
def test_no_command_in_the_record_of_attempts_runs(restarts: str, tmp_path: Path) -> None:
    tools, folder, mark = tmp_path / "bin", tmp_path / "artifact", tmp_path / "mark"
    for name, behaviour in STAND_INS.items():
        tools.mkdir(exist_ok=True)
        (tools / name).write_text(f"#!/bin/bash\n{behaviour}\n")
        (tools / name).chmod(0o755)
    (folder / "logs").mkdir(parents=True)
    (folder / "logs/attempts").write_text(f"7 none {restarts.format(mark=mark)}\n")
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    environment |= {"SLURM_JOB_NODELIST": "n1", "SLURM_NTASKS": "1"}
    command = ["bash", str(SCRIPTS / "train.sbatch"), "run.json", "weights", str(folder), "2", sys.executable]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 3, done.stderr
    assert not mark.exists()
    assert "headrace: weights, 1 ranks on n1, job 7, attempt 1," in done.stdout


def forged(folder: Path, private: Path) -> Artifact:
    """Rewrites the manifest and documents of the artifact in ``folder``: they then name ``private``."""
    manifest = read_sealed(folder / "manifest.json")
    for name in [name for name in manifest["files"] if name.startswith("documents/")]:
        documents = list(read_documents(folder / name))
        documents[0].id = f"{private}:0"
        documents[0].metadata["removed_lines"] = {"c4_lines.end_mark": 1}
        write_documents(folder / name, documents)
        record = FileRecord.of(folder / name)
        manifest["files"][name] = {"bytes": record.bytes, "sha256": record.sha256}
    manifest["raw_files"] = [{"name": str(private), "bytes": 1, "sha256": "0"}]
    write_sealed(folder / "manifest.json", manifest)
    return Artifact(folder)


@pytest.fixture(scope="module")
def c4(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("c4"), "c4")


@pytest.fixture
def private(tmp_path: Path) -> Path:
    path = tmp_path / "private.jsonl"
    path.write_text('{"text": "My diary: the secret of the mill."}\n')
    return path


def test_an_id_opens_no_file(tmp_path: Path, private: Path) -> None:
    public, cleaning = tmp_path / "public.jsonl", Cleaning(filters=())
    public.write_text('{"text": "A public page."}\n')
    texts, clean = texts_and_clean(Jsonl(paths=(str(public),)), cleaning, tmp_path)
    found = read_documents(forged(clean.folder, private).shards("documents")[0])
    (page,) = pages([(0, document) for document in found], texts, cleaning)
    assert page.document.id == f"{private}:0"
    assert "diary" not in str(page.lines)


def test_inspect_goes_by_the_settings_of_the_user(c4: Corpus, tmp_path: Path, private: Path) -> None:
    step = next(step for step in c4.steps if step.name == "clean")
    copy = dataclasses.replace(step, folder=tmp_path / "clean" / step.address)
    shutil.copytree(step.folder, copy.folder)
    forged(copy.folder, private)
    found = inspect.chosen([c4.steps[0], copy], "clean", "kept", "40")
    assert f"{private}:0" in {page.document.id for page in found.kept}
    assert "diary" not in str(found)


@pytest.mark.parametrize("name", ["../../private.txt", "/etc/hostname", "documents/../../x"])
def test_a_manifest_names_nothing_outside_its_folder(name: str, run_clean, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "A page."}\n')
    folder = run_clean(Jsonl(paths=(str(tmp_path / "a.jsonl"),)), Cleaning(filters=()), tmp_path).folder
    manifest = read_sealed(folder / "manifest.json")
    for changed in ({"files": {name: {"bytes": 1, "sha256": "0"}}}, {"inputs": {"clean": name}}):
        write_sealed(folder / "manifest.json", {**manifest, **changed})
        with pytest.raises(ArtifactError) as error:
            Artifact(folder)
        assert error.value.problem == f"names {name!r}, which leads out of its folder"


def test_nor_does_that_of_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "step_00000001"
    write_sealed(path / "manifest.json", {"format": store.FORMAT, "files": {"../../x": {"bytes": 1, "sha256": "0"}}})
    with pytest.raises(ArtifactError, match="which leads out of its folder"):
        store.verify(path)


def test_the_run_of_another_user_is_not_the_newest(c4: Corpus, tmp_path: Path, monkeypatch) -> None:
    """The settings of that run would choose files and Python classes to import."""
    values = {**c4.run.values, "root": str(tmp_path)}
    run_json = save(dataclasses.replace(c4.config, root=str(tmp_path)), values, c4.steps)
    assert run_json.stat().st_mode & 0o022 == 0
    assert newest(str(tmp_path)).values == values
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr("headrace.pipeline.run.saved_run.ROOT_USER", -1)
    with pytest.raises(ConfigError, match="no run of yours was started below"):
        newest(str(tmp_path))
    with pytest.raises(ConfigError, match="was written by another user"):
        load_stages(run_json)


def test_an_error_that_another_user_left_does_not_steer_the_terminal(tmp_path: Path) -> None:
    report = {
        "kind": "TaskError",
        "where": "weights\x1b]0;owned\x07",
        "wrong": "\x1b[2J \u202e",
        "remedy": "run\x9b2J again",
    }
    write_json(tmp_path / work_log.ERROR_JSON, report)
    found = str(work_log.error_of(tmp_path))
    assert not any(character in found for character in "\x1b\x07\x9b\u202e")
