"""``make release`` on a copy of the repository: what it refuses, and what it writes."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEW_SECTION = "# Changelog\n\n## 7.1.0 (2027-01-31)\n- All is new.\n\n## 7.2.0 (unreleased)\n- More.\n"
PERSON = {
    f"GIT_{role}_{key}": "tester@headrace.example" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")
}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    variables = os.environ | PERSON
    return subprocess.run(command, cwd=folder, env=variables, check=True, capture_output=True, text=True).stdout


def release(copy: Path, version: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, ".ci/release.py", version]
    return subprocess.run(command, cwd=copy, env=os.environ | PERSON, capture_output=True, text=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A clone that has today's files of a release, and a changelog of its own."""
    if not (ROOT / ".git").exists():
        pytest.skip("this folder is no git repository")
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "--quiet", str(ROOT), str(copy))
    for name in (".ci/release.py", "CITATION.cff", "pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, copy / name)
    (copy / "CHANGELOG.md").write_text(NEW_SECTION)
    git(copy, "add", "--all")
    git(copy, "commit", "--quiet", "--message", "changelog: a new version")
    return copy


def test_what_is_no_release_is_refused(copy: Path) -> None:
    git(copy, "tag", "v7.0.0")
    head = git(copy, "rev-parse", "HEAD")
    for version, error in (
        ("7.1", "VERSION: '7.1' is no version; write VERSION=1.2.0, or 1.2.0rc1"),
        ("v7.1.0", "VERSION: 'v7.1.0' is no version; write VERSION=1.2.0, or 1.2.0rc1"),
        ("7.0.0", "VERSION: the tag v7.0.0 exists; give the next version"),
        ("7.3.0", "CHANGELOG.md: has no section '## 7.3.0'; write what changed"),
        ("7.2.0", "CHANGELOG.md: section 7.2.0 is marked as unreleased; write its date: ## 7.2.0 (2027-01-31)"),
    ):
        done = release(copy, version)
        assert (done.returncode, done.stderr.strip()) == (1, error)
    (copy / "left_over.py").touch()
    done = release(copy, "7.1.0")
    assert done.stderr.strip() == "left_over.py: is not committed (1 such files); commit or remove it"
    assert git(copy, "rev-parse", "HEAD") == head
    assert git(copy, "tag").split() == ["v7.0.0"]


@pytest.mark.slow
def test_a_release(copy: Path) -> None:
    done = release(copy, "7.1.0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "headrace-7.1.0-py3-none-any.whl",
        "headrace-7.1.0.tar.gz",
        "push it with: git push origin HEAD v7.1.0",
    ]
    assert git(copy, "status", "--porcelain") == ""
    assert git(copy, "log", "-1", "--format=%s %D").startswith("release: 7.1.0 HEAD")
    assert git(copy, "describe", "--exact-match").strip() == "v7.1.0"
    assert 'version = "7.1.0"\n' in (copy / "pyproject.toml").read_text()
    assert "version: 7.1.0\n" in (copy / "CITATION.cff").read_text()
    with zipfile.ZipFile(copy / "dist/headrace-7.1.0-py3-none-any.whl") as wheel:
        assert "headrace/pipeline/__main__.py" in wheel.namelist()
        assert b"\nVersion: 7.1.0\n" in wheel.read("headrace-7.1.0.dist-info/METADATA")


def test_the_versions_agree() -> None:
    (version,) = [line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("version = ")]
    assert f"version: {version[len('version = ') :].strip(chr(34))}\n" in (ROOT / "CITATION.cff").read_text()
