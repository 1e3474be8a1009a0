"""``headrace release``: what a release holds, and that each kind of change is noticed."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import parquet
from safetensors.torch import load_file, save_file

from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.papers import release_checks, stored_files
from headrace.pipeline.papers.release_checks import rebuilt_shard
from headrace.pipeline.papers.release_folder import Release
from headrace.pipeline.papers.stored_files import OTHER, SAME, Finding
from headrace.pipeline.papers.whole_folder import CHECKSUMS, write_checksums
from headrace.pipeline.run.planner import save
from headrace.pipeline.run.workers import Workers
from tests.command_line import headrace_here
from tests.small_runs import Corpus, build, trained, training_of

STAGES = ("texts", "clean", "signatures", "duplicates", "unique", "overlaps", "tokenizer", "tokens", "packed")


def released(corpus: Corpus) -> Path:
    """Releases the run ``mill`` to the folder ``release`` beside its root; returns the folder of both."""
    result = headrace_here("release", "mill", "--to", f"{corpus.folder}/release", f"root={corpus.folder}/runs")
    assert result.returncode == 0, result.stderr
    return corpus.folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the data stages in two shards, and its release."""
    corpus = build(tmp_path_factory.mktemp("data"), "none")
    run = training_of(corpus, "until=packed", "name=mill")
    save(run.config, run.values, run.stages, run.overrides)
    return released(corpus)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with four steps, started beside its files by relative paths, and its release."""
    corpus = build(tmp_path_factory.mktemp("training"), "none")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(corpus.folder)
        run = training_of(corpus, "training.steps=4", "name=mill", "source.paths=[a.jsonl,second.jsonl]")
        folder = next(stage.folder for stage in run.stages if stage.name == "weights")
        patch.setenv("HEADRACE_CORES", "1")  # the check trains in as many threads, and not in all of this machine
        with work_log.attempted(folder):
            trained(run)
        return released(corpus)


def copied(folder: Path, to: Path) -> Path:
    """Copies the root and the release, not the raw files."""
    for name in ("runs", "release"):
        shutil.copytree(folder / name, to / name)
    return to


def verify(folder: Path) -> tuple[dict[str, str], int]:
    """The outcomes by subject, and the exit status."""
    result = headrace_here("release", "--check", f"{folder}/release", f"root={folder}/runs", "--seed", "1")
    lines = re.findall(r"^(.+?) +(verified|DIFFERS|not verified)  ", result.stdout, re.MULTILINE)
    return dict(lines), result.returncode


def differing(folder: Path, check: Callable[[Release], Finding] | None) -> set[str]:
    """What differs by the cheap checks and by ``check``."""
    findings = [stored_files.files(folder / "release")]
    release = Release.open(folder / "release", folder / "runs")
    findings += [stored_files.addresses(release), *stored_files.data(release)]
    findings += stored_files.documents(release)
    findings += [check(release)] if check else []
    return {finding.subject for finding in findings if finding.outcome == OTHER}


def texts_again(release: Release) -> Finding:
    """Computes the first shard of texts again."""
    with Workers(1) as workers:
        return rebuilt_shard(release, release.stage("texts"), 0, workers)


def test_a_release_without_its_data_says_what_could_not_be_verified(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "release", tmp_path / "release")
    outcomes, status = verify(tmp_path)
    assert status == 0
    verified = {subject for subject, outcome in outcomes.items() if outcome == "verified"}
    assert verified == {"files", "addresses", "data tokenizer", "REPRODUCE.md", "README.md", "shard of texts"}
    assert outcomes["shard of clean"] == outcomes["data clean"] == outcomes["samples"] == "not verified"


def test_samples_say_which_documents_are_held_out(data: Path) -> None:
    rows = parquet.read_table(data / "release/samples/data/kept/00000.parquet").to_pylist()
    assert {row["split"] for row in rows} == {"train", "validation"}
    for row in rows:
        assert (row["split"] == "validation") == (key_of("split", row["id"]) < 0.4 * 2**64)
    assert "In the column `split`, `validation` has the documents" in (data / "release/samples/README.md").read_text()


def test_data_can_be_added_to_a_release(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "release", tmp_path / "release")
    pushed = headrace_here("mirror", "push", "mill", f"{tmp_path}/release/artifacts", f"root={data}/runs")
    assert pushed.returncode == 0, pushed.stderr
    assert differing(tmp_path, None) == set()


@pytest.mark.slow
def test_a_release_is_what_the_run_made(training: Path) -> None:
    outcomes, status = verify(training)
    assert status == 0, outcomes
    subjects = {"files", "addresses", "model", "steps", "samples/README.md", "samples", "REPRODUCE.md", "README.md"}
    subjects |= {f"shard of {stage}" for stage in STAGES} | {f"data {stage}" for stage in (*STAGES, "weights")}
    assert outcomes == dict.fromkeys(subjects, "verified")
    assert stored_files.files(training / "release").outcome == SAME, "the check writes nothing there"


def test_what_is_no_release_is_refused(data: Path, tmp_path: Path) -> None:
    result = headrace_here("release", "--check", str(data / "runs"))
    assert result.returncode == 2
    problem = f"DIR: '{data}/runs' is no release; give a folder that headrace release wrote"
    assert result.stderr == f"headrace: {problem}\n"
    shutil.copytree(data / "release", tmp_path / "release")
    only(tmp_path, f"release/{CHECKSUMS}").unlink()
    flip(only(tmp_path, "release/artifacts/runs/*/run.json"))
    result = headrace_here("release", "--check", f"{tmp_path}/release", f"root={data}/runs")
    assert result.returncode == 1
    assert "SHA256SUMS: is missing or damaged" in result.stdout
    assert "is damaged (its seal does not match)" in result.stdout or "is not JSON" in result.stdout


def flip(path: Path) -> None:
    """Changes one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def edit_card(folder: Path) -> None:
    path = folder / "release/README.md"
    path.write_text(path.read_text() + "It is the best one.\n")


def swap(folder: Path) -> None:
    """Exchanges two shards of texts below the root."""
    first, second = sorted((folder / "runs/texts").glob("*/documents/*"))
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def seal(manifest: Path, folder: Path) -> None:
    """Gives the files in ``folder`` new checksums in ``manifest``."""
    values = read_sealed(manifest)
    changed = {name: vars(FileRecord.of(folder / name)) for name in values["files"]}
    write_sealed(manifest, {**values, "files": changed})


def swap_and_seal(folder: Path) -> None:
    """Exchanges two shards of texts, with new checksums below the root and in the release."""
    swap(folder)
    manifest = only(folder / "runs", "texts/*/manifest.json")
    seal(manifest, manifest.parent)
    shutil.copy(manifest, only(folder / "release", "artifacts/texts/*/manifest.json"))


def other_setting(folder: Path) -> None:
    path = only(folder / "release", "artifacts/runs/*/run.json")
    values = read_sealed(path)
    values["descriptions"]["packed"]["hashed"]["packing"]["row_tokens"] = 64
    write_sealed(path, values)


def other_weights(folder: Path) -> None:
    weights = only(folder / "release", "artifacts/weights/*")
    flip(weights / "hf/model.safetensors")
    seal(weights / "manifest.json", weights)


def flip_optimizer_state(folder: Path) -> Path:
    """Changes the last checkpoint; returns its folder."""
    checkpoint = max(folder.glob("release/artifacts/weights/*/checkpoints/*"))
    flip(checkpoint / "state/00000.safetensors")
    return checkpoint


def other_optimizer_state(folder: Path) -> None:
    """Changes the last checkpoint, with new checksums in its manifest and in that of the weights."""
    checkpoint = flip_optimizer_state(folder)
    seal(checkpoint / "manifest.json", checkpoint)
    seal(checkpoint.parents[1] / "manifest.json", checkpoint.parents[1])


def other_page(folder: Path) -> None:
    path = folder / "release/samples/data/kept/00000.parquet"
    table = parquet.read_table(path)
    parquet.write_table(table.slice(1), path)


def remove(folder: Path) -> None:
    only(folder / "release", "artifacts/tokenizer/*/tokenizer.json").unlink()


def add(folder: Path) -> None:
    (folder / "release/extra.txt").write_text("more")


def link(folder: Path) -> None:
    """Puts a link in the place of a file."""
    (folder / "release/README.md").rename(folder / "README.md")
    (folder / "release/README.md").symlink_to(folder / "README.md")


def rename_folder(folder: Path) -> None:
    only(folder / "release", "artifacts/tokenizer/*").rename(folder / "release/artifacts/tokenizer/0123456789ab")


def other_tokenizer_config(folder: Path) -> None:
    """Changes a file of the model, with a new checksum in the manifest."""
    weights = only(folder / "release", "artifacts/weights/*")
    (weights / "hf/tokenizer_config.json").write_text("{}")
    seal(weights / "manifest.json", weights)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_folder_user_umask_locale_and_clock_decide_nothing(training: Path, tmp_path: Path) -> None:
    folder = copied(training, tmp_path)
    for above in tmp_path.parents[:3]:
        above.chmod(0o755)
    for path in [tmp_path, *folder.rglob("*")]:
        os.chown(path, 1001, 1001)  # neither the reader's nor root's
        path.chmod(0o555 if path.is_dir() else 0o444)
    who = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    who += [f"--{kind}-caps=-all,+dac_read_search" for kind in ("inh", "ambient")]  # the Python of root may be private
    command = [*who, sys.executable, "-m", "headrace", "release", "--check", os.path.relpath(folder / "release", "/")]
    env = os.environ | {"LC_ALL": "C", "TZ": "Pacific/Kiritimati", "HOME": "/nonexistent", "PYTHONUTF8": "0"}
    result = subprocess.run(
        [*command, f"root={folder}/runs", "--seed", "1"],
        cwd="/", env=env, umask=0o077, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert ", 0 DIFFERS, 0 not verified;" in result.stdout, result.stdout


def flip_tokenizer(folder: Path) -> None:
    flip(only(folder / "release", "artifacts/tokenizer/*/tokenizer.json"))


@pytest.mark.parametrize(
    ("change", "hides", "check", "subjects"),
    [
        (flip_tokenizer, False, None, {"files", "data tokenizer"}),
        (flip_tokenizer, True, None, {"data tokenizer"}),
        (edit_card, False, None, {"files", "README.md"}),
        (edit_card, True, None, {"README.md"}),
        (remove, False, None, {"files", "data tokenizer"}),
        (add, False, None, {"files"}),
        (link, True, None, {"files"}),
        (rename_folder, True, None, {"addresses", "samples/README.md", "REPRODUCE.md"}),
        (swap, True, None, {"data texts"}),
        (swap_and_seal, True, texts_again, {"shard of texts"}),
        (other_setting, True, None, {"addresses", "samples/README.md", "REPRODUCE.md"}),
        (other_page, True, None, {"samples"}),
    ],
)
def test_a_change_is_noticed(
    data: Path,
    tmp_path: Path,
    change: Callable[[Path], object],
    hides: bool,
    check: Callable[[Release], Finding] | None,
    subjects: set[str],
) -> None:
    """``hides``: SHA256SUMS is written anew, as by somebody who hides the change."""
    folder = copied(data, tmp_path)
    change(folder)
    if hides:
        (folder / "release" / CHECKSUMS).unlink()
        write_checksums(folder / "release")
    assert differing(folder, check) == subjects


@pytest.mark.slow
def test_another_machine_is_held_to_a_bound(training: Path, tmp_path: Path) -> None:
    folder = copied(training, tmp_path)
    path = folder / "release/release.json"
    write_sealed(path, read_sealed(path) | {"machines": {"weights": ["1 × another one"]}})
    flipped = only(folder / "release", "artifacts/weights/*/hf/model.safetensors")
    weights = load_file(flipped)
    for factor, outcome in ((1 + 1e-6, SAME), (1.1, OTHER)):
        save_file({name: values * factor for name, values in weights.items()}, flipped)
        seal(flipped.parents[1] / "manifest.json", flipped.parents[1])
        finding = release_checks.replayed(Release.open(folder / "release", folder / "runs"))
        assert finding.outcome == outcome, finding.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "check", "subject"),
    [
        (flip_optimizer_state, None, "data weights"),
        (other_tokenizer_config, release_checks.exported, "model"),
        (other_weights, release_checks.exported, "model"),
        (other_weights, release_checks.replayed, "steps"),
        (other_optimizer_state, release_checks.replayed, "steps"),
    ],
)
def test_a_change_of_the_training_is_noticed(
    training: Path,
    tmp_path: Path,
    change: Callable[[Path], object],
    check: Callable[[Release], Finding] | None,
    subject: str,
) -> None:
    folder = copied(training, tmp_path)
    change(folder)
    (folder / "release" / CHECKSUMS).unlink()
    write_checksums(folder / "release")
    assert subject in differing(folder, check)
