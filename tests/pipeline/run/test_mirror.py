"""Artifacts in a mirror, a folder or a bucket: put whole, taken verified, whatever is killed, damaged or forbidden."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from headrace.pipeline.core.artifact import Artifact, is_whole
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.pipeline.run.mirror import Mirror, label_of
from headrace.train.checkpoint import store
from tests.s3_server import s3_server
from tests.small_runs import Corpus, build, trained, training_of

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return build(tmp_path_factory.mktemp("home"), "none")


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture(params=["folder", "memory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A mirror of its own."""
    if request.param == "s3":
        return f"{request.getfixturevalue('bucket')}/{tmp_path.name}"
    places = {"folder": f"{tmp_path}/mirror", "memory": f"memory://{tmp_path}"}
    return places[request.param]


def contents(url: str) -> dict[str, bytes]:
    """The files of the mirror by their names, read without our code."""
    system, root = fsspec.core.url_to_fs(url)
    system.invalidate_cache()
    return {path[len(root) + 1 :]: system.cat_file(path) for path in system.find(root)}


def results(folder: Path) -> dict[str, bytes]:
    """The manifest and the files that it lists."""
    names = ["manifest.json", *read_json(folder / "manifest.json")["files"]]
    return {f"{label_of(folder)}/{name}": (folder / name).read_bytes() for name in names}


def in_process(url: str, folder: Path, action: str, before: str = "") -> "subprocess.Popen[str]":
    """Publishes or takes an artifact in a process of its own; ``before`` runs first."""
    script = f"""
import os, signal, sys
from pathlib import Path
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.run.mirror import Mirror
{before}
sys.stdin.read()
mirror, folder = Mirror({url!r}), Path({str(folder)!r})
mirror.publish(Artifact(folder)) if {action!r} == "publish" else mirror.take(folder)
"""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths},
        text=True,
    )


def test_what_is_taken_equals_what_was_published(corpus: Corpus, url: str, tmp_path: Path) -> None:
    mirror = Mirror(url)
    for step in corpus.steps:
        assert mirror.publish(Artifact(step.folder)) == len(results(step.folder))
        assert mirror.publish(Artifact(step.folder)) == 0
    assert contents(url) == {name: content for step in corpus.steps for name, content in results(step.folder).items()}
    for step in corpus.steps:
        folder = tmp_path / "away" / label_of(step.folder)
        assert mirror.take(folder)
        assert results(folder) == results(step.folder)
        assert not [path for path in folder.rglob("*") if path.name.startswith("tmp-") or path.suffix == ".claim"]


def test_an_artifact_without_its_manifest_is_not_there(corpus: Corpus, tmp_path: Path) -> None:
    step, url = corpus.steps[0], f"{tmp_path}/mirror"
    Mirror(url).publish(Artifact(step.folder))
    system, root = fsspec.core.url_to_fs(url)
    system.rm_file(f"{root}/{label_of(step.folder)}/manifest.json")
    folder = tmp_path / "away" / label_of(step.folder)
    assert not Mirror(url).take(folder)
    assert not folder.exists()


def test_the_next_push_puts_only_files_that_are_missing_or_differ(corpus: Corpus, tmp_path: Path) -> None:
    step, url = corpus.steps[0], f"{tmp_path}/mirror"
    label, wanted = label_of(step.folder), results(step.folder)
    Mirror(url).publish(Artifact(step.folder))
    system, root = fsspec.core.url_to_fs(url)
    longer, lost = sorted(name for name in wanted if name != f"{label}/manifest.json")[:2]
    system.pipe_file(f"{root}/{longer}", wanted[longer] + b"!")
    assert Mirror(url).publish(Artifact(step.folder)) == 1
    system.rm_file(f"{root}/{label}/manifest.json")
    system.rm_file(f"{root}/{lost}")
    assert Mirror(url).publish(Artifact(step.folder)) == 2  # it and the manifest
    assert contents(url) == wanted


@pytest.mark.parametrize("change", ["flip", "cut", "remove"])
def test_wrong_bytes_are_refused_with_the_name_of_the_file(corpus: Corpus, tmp_path: Path, change: str) -> None:
    step, url = corpus.steps[0], f"{tmp_path}/mirror"
    Mirror(url).publish(Artifact(step.folder))
    system, root = fsspec.core.url_to_fs(url)
    name = max(results(step.folder), key=lambda name: len(results(step.folder)[name]) * ("manifest" not in name))
    content = results(step.folder)[name]
    if change == "remove":
        system.rm_file(f"{root}/{name}")
    else:
        system.pipe_file(f"{root}/{name}", content[:-1] + (b"" if change == "cut" else bytes([content[-1] ^ 1])))
    folder = tmp_path / "away" / label_of(step.folder)
    state = "is missing" if change == "remove" else "has other bytes than the manifest lists"
    with pytest.raises(ArtifactError, match=state) as refused:
        Mirror(url).take(folder)
    assert refused.value.where == f"{url}/{name}"
    assert not is_whole(folder)
    assert not (folder / name.removeprefix(f"{label_of(step.folder)}/")).exists()


def test_a_manifest_of_another_artifact_or_with_a_wrong_seal_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    first, second = corpus.steps[:2]
    url = f"{tmp_path}/mirror"
    Mirror(url).publish(Artifact(first.folder))
    manifest = Path(url, label_of(first.folder), "manifest.json")
    folder = tmp_path / "away" / label_of(first.folder)
    shutil.copyfile(second.folder / "manifest.json", manifest)
    with pytest.raises(ArtifactError, match=f"is the manifest of {label_of(second.folder)}"):
        Mirror(url).take(folder)
    write_json(manifest, read_json(first.folder / "manifest.json") | {"shards": 99})
    with pytest.raises(ArtifactError, match="its seal does not match"):
        Mirror(url).take(folder)


def test_other_results_at_one_address_are_not_replaced(corpus: Corpus, tmp_path: Path) -> None:
    step = corpus.steps[0]
    url = f"{tmp_path}/mirror"
    Mirror(url).publish(Artifact(step.folder))
    artifact = Artifact(step.folder)
    artifact.manifest["counts"] = {"records_in": 1}
    with pytest.raises(ArtifactError, match=r"has other results than .* and is not replaced"):
        Mirror(url).publish(artifact)
    assert contents(url) == results(step.folder)


def test_a_damaged_artifact_is_not_published(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / label_of(corpus.steps[0].folder)
    shutil.copytree(corpus.steps[0].folder, folder)
    name = next(iter(Artifact(folder).manifest["files"]))
    (folder / name).write_bytes((folder / name).read_bytes()[:-1] + b"\0")
    with pytest.raises(ArtifactError, match="is damaged or missing"):
        Mirror(f"{tmp_path}/mirror").publish(Artifact(folder))
    assert not any(name.endswith("manifest.json") for name in contents(f"{tmp_path}/mirror"))


HALF_PUT = """
from fsspec.implementations.local import LocalFileSystem
calls = []
def half(self, source, target, **more):
    calls.append(target)
    content = Path(source).read_bytes()
    Path(target).write_bytes(content[: len(content) // (2 if len(calls) == LAST else 1)])
    if len(calls) == LAST:
        os.kill(os.getpid(), signal.SIGKILL)
LocalFileSystem.put_file = LocalFileSystem.get_file = half
"""
"""Ends the process by SIGKILL in the middle of a file."""


@pytest.mark.parametrize("last", [3])
def test_a_kill_while_a_file_is_put_leaves_nothing_that_looks_whole(corpus: Corpus, tmp_path: Path, last: int) -> None:
    step, url = corpus.steps[0], f"{tmp_path}/mirror"
    wanted = results(step.folder)
    killed = in_process(url, step.folder, "publish", HALF_PUT.replace("LAST", str(last)))
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert len(contents(url)) == last
    assert not Mirror(url).take(tmp_path / "away" / label_of(step.folder))
    Mirror(url).publish(Artifact(step.folder))
    assert {name: content for name, content in contents(url).items() if "tmp-" not in name} == wanted


def test_a_kill_while_a_file_is_taken_is_repaired_by_the_next_pull(corpus: Corpus, tmp_path: Path) -> None:
    step, url = corpus.steps[0], f"{tmp_path}/mirror"
    Mirror(url).publish(Artifact(step.folder))
    folder = tmp_path / "away" / label_of(step.folder)
    killed = in_process(url, folder, "take", HALF_PUT.replace("LAST", "2"))
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not is_whole(folder)
    assert [path for path in folder.rglob("tmp-*") if path.is_file()]
    assert Mirror(url).take(folder)
    assert results(folder) == results(step.folder)
    assert not list(folder.rglob("tmp-*"))


def test_two_publishers_at_once_leave_one_whole_artifact(corpus: Corpus, tmp_path: Path) -> None:
    step, url = corpus.steps[0], f"{tmp_path}/mirror"
    publishers = [in_process(url, step.folder, "publish") for _ in range(2)]
    for publisher in publishers:
        assert publisher.stdin
        publisher.stdin.close()
        publisher.stdin = None
    for publisher in publishers:
        _, errors = publisher.communicate()
        assert publisher.returncode == 0, errors
    assert contents(url) == results(step.folder)
    assert Mirror(url).take(tmp_path / "away" / label_of(step.folder))


def test_weights_are_published_with_their_last_checkpoint(tmp_path: Path) -> None:
    run = trained(training_of(build(tmp_path / "home", "none"), "training.steps=4", "name=mill"))
    weights = next(step.folder for step in run.stages if step.name == "weights")
    mirror, folder = Mirror(f"{tmp_path}/mirror"), tmp_path / "away" / label_of(weights)
    mirror.publish(Artifact(weights))
    assert mirror.take(folder)
    assert results(folder) == results(weights)
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["step_00000004"]
    newest = store.newest(folder / "checkpoints")
    assert newest is not None
    assert newest.state.step == 4
    shutil.rmtree(weights / "checkpoints/step_00000004/state")  # the checkpoint was removed: weights alone
    alone = Mirror(f"{tmp_path}/alone")
    alone.publish(Artifact(weights))
    assert alone.take(tmp_path / "other" / label_of(weights))
