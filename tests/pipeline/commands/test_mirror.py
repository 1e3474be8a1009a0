"""``headrace mirror`` and the setting ``mirror`` on runs of a small corpus."""

import json
import shutil
from pathlib import Path

import pytest

from headrace.pipeline.core.artifact import is_whole
from headrace.pipeline.run import worker
from headrace.pipeline.run.saved_run import SavedRun
from tests.command_line import headrace_here
from tests.s3_server import s3_server
from tests.small_runs import pages

SETTINGS = ("source=jsonl", "cleaning=none", "dedup.buckets=1", "until=clean", "workers=1", "tracking.wandb=off")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run ``mill`` over one file, in ``runs``, with its mirror in ``mirror``."""
    home = tmp_path_factory.mktemp("home")
    (home / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pages(0, "a")))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        succeeds("run", *SETTINGS, "source.paths=pages.jsonl", "name=mill", "mirror=mirror")
    return home


@pytest.fixture
def own(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of its own, which is the current folder."""
    shutil.copytree(home, tmp_path / "own")
    monkeypatch.chdir(tmp_path / "own")
    return tmp_path / "own"


def succeeds(*arguments: str) -> tuple[str, str]:
    done = headrace_here(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def run_again(root: str, *more: str) -> str:
    return succeeds("run", *SETTINGS, "source.paths=pages.jsonl", "name=mill", f"root={root}", *more)[1]


def artifacts(root: Path) -> dict[str, bytes]:
    """Each file of the finished data stages that a manifest lists, and the manifests, by their names."""
    files: dict[str, bytes] = {}
    for stage in ("texts", "clean"):
        (folder,) = (root / stage).iterdir()
        for name in ("manifest.json", *json.loads((folder / "manifest.json").read_text())["files"]):
            files[f"{stage}/{folder.name}/{name}"] = (folder / name).read_bytes()
    return files


def test_a_run_publishes_its_stages_and_another_root_takes_them(own: Path) -> None:
    assert artifacts(own / "mirror") == artifacts(own / "runs")
    assert len(list((own / "mirror").glob("report/*/manifest.json"))) == 1
    shown = run_again("away", "mirror=mirror")
    assert [line.split()[0] for line in shown.splitlines() if "from the mirror" in line][:2] == ["texts", "clean"]
    assert "phase" not in shown
    assert artifacts(own / "away") == artifacts(own / "runs")


def test_a_mirror_changes_no_address_and_no_id(own: Path) -> None:
    with_mirror = {path.name for path in own.glob("runs/*/*")}
    run_again("plain")
    assert {path.name for path in own.glob("plain/*/*")} == with_mirror


def test_a_job_publishes_what_it_finishes(own: Path) -> None:
    run_again("jobs", "mirror=other")
    shutil.rmtree(own / "other")
    (run_json,) = own.glob("jobs/runs/*/run.json")
    for folder in own.glob("jobs/clean/*"):
        (folder / "manifest.json").unlink()  # all its tasks are done
    assert worker.main([str(run_json), "texts..clean", "1"]) == 0
    assert artifacts(own / "other") == artifacts(own / "jobs") == artifacts(own / "runs")


def test_wrong_bytes_in_the_mirror_are_named_and_computed_instead(own: Path) -> None:
    listed = (path for path in own.glob("mirror/clean/*/*/*") if path.stat().st_size)
    damaged = min(listed)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\0")
    shown = run_again("away", "mirror=mirror")
    name = damaged.relative_to(own)
    assert f"warning: mirror: {own / name}: has other bytes than the manifest lists" in shown
    assert "so clean is computed here" in shown
    assert artifacts(own / "away") == artifacts(own / "runs")


def test_a_mirror_that_cannot_be_written_leaves_the_run_whole_and_names_the_command(own: Path) -> None:
    (own / "blocked").write_text("a file where the folder of the mirror should be")
    shown = run_again("away", "mirror=blocked")
    assert artifacts(own / "away") == artifacts(own / "runs")
    (command,) = [line.rpartition("later: ")[2] for line in shown.splitlines() if "later: " in line]
    (own / "blocked").unlink()
    succeeds(*command.split()[1:])
    assert artifacts(own / "blocked") == artifacts(own / "runs")


def test_a_server_that_refuses_the_keys_leaves_the_run_whole(own: Path) -> None:
    with s3_server(knows_keys=False) as url:
        shown = run_again("away", f"mirror={url}")
    assert artifacts(own / "away") == artifacts(own / "runs")
    assert "PermissionError" in shown
    assert "publish it later: headrace mirror push " in shown


def test_a_run_is_pushed_and_pulled_by_its_name(own: Path) -> None:
    with s3_server() as url:
        out, _ = succeeds("mirror", "push", "mill", url)
        assert out.count(" put") == 3
        assert succeeds("mirror", "push", "mill", url)[0].count("there before") == 3
        out, _ = succeeds("mirror", "pull", "mill", url, "root=away")
        assert out.count("pulled") == 3
    assert artifacts(own / "away") == artifacts(own / "runs")
    (run_json,) = own.glob("away/runs/*/run.json")
    assert all(stage.is_whole for stage in SavedRun.read(run_json).stages)
    assert succeeds("status", "mill", "root=away")[0]


def test_one_artifact_is_pushed_and_pulled_by_its_address(own: Path) -> None:
    (folder,) = own.glob("runs/clean/*")
    label = f"clean/{folder.name}"
    succeeds("mirror", "push", label, "other")
    assert [path.name for path in (own / "other").iterdir()] == ["clean"]
    assert "pulled" in succeeds("mirror", "pull", label, "other", "root=away")[0]
    assert is_whole(own / "away" / label)
    assert "there before" in succeeds("mirror", "pull", label, "other", "root=away")[0]
    succeeds("mirror", "push", str(folder), "third")
    assert is_whole(own / "third" / label)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("mirror", "pull", "clean/0123456789ab", "mirror"),
            "mirror: has no artifact clean/0123456789ab; push it there",
        ),
        (
            ("mirror", "pull", "valley", "mirror"),
            "RUN|STAGE: 'valley' is no artifact, and no run below 'runs' or in mirror; ",
        ),
        (("mirror", "push", "valley", "mirror"), "RUN: 'valley' is not a run below 'runs'; "),
        (("mirror", "push", "clean/0123456789ab", "mirror"), "runs/clean/0123456789ab: is not a finished artifact"),
        (("mirror", "push", "mill", "s3://mill:stone@valley"), "mirror: holds a password, key or signature"),
        (("mirror=s3://mill:stone@valley",), "mirror: holds a password, key or signature"),
        (("run", *SETTINGS, "source.paths=pages.jsonl", "mirror=nowhere://valley"), "mirror: cannot open 'nowhere://"),
    ],
)
def test_what_cannot_be_done_is_one_line(own: Path, arguments: tuple[str, ...], error: str) -> None:
    done = headrace_here(*arguments)
    assert done.returncode in (1, 2)
    assert done.stderr.strip().splitlines()[-1].startswith(f"headrace: {error}"), done.stderr
    assert "stone@" not in done.stderr
