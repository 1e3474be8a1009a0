"""Releases a version: ``make release VERSION=1.2.0``. Nothing is pushed or uploaded.

checks ── version in pyproject.toml, CITATION.cff ── commit ── dist/*.whl, dist/*.tar.gz ── tag v1.2.0

The archives are built from the commit, so they hold no file that git does not know. The tag is set last: after an error
the command can be repeated.
"""

import datetime
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?"
"""The form of a version: 1.2.0, or 1.2.0rc1 before it."""
BUILD = "import sys; from setuptools import build_meta as build; {}(sys.argv[1])"


def git(*arguments: str) -> str:
    """Returns what git printed."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def refusal(version: str) -> str:
    """Returns why ``version`` cannot be released now, with what to do; empty when it can."""
    if not re.fullmatch(VERSION, version):
        return f"VERSION: {version!r} is no version; write VERSION=1.2.0, or 1.2.0rc1"
    if changed := git("status", "--porcelain").splitlines():
        return f"{changed[0][3:]}: is not committed ({len(changed)} such files); commit or remove it"
    if git("tag", "--list", f"v{version}"):
        return f"VERSION: the tag v{version} exists; give the next version"
    heading = re.search(rf"^## {re.escape(version)}(?: (.*))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    if heading is None:
        return f"CHANGELOG.md: has no section '## {version}'; write what changed"
    if "unreleased" in (heading[1] or ""):
        return f"CHANGELOG.md: section {version} is marked as unreleased; write its date: ## {version} (2027-01-31)"
    return ""


def set_version(version: str, date: str) -> None:
    """Writes ``version`` to pyproject.toml, and with its ``date`` to CITATION.cff."""
    for name, key, value in (
        ("pyproject.toml", "version = ", f'"{version}"'),
        ("CITATION.cff", "version: ", version),
        ("CITATION.cff", "date-released: ", date),
    ):
        text, count = re.subn(rf"^{key}.*$", f"{key}{value}", (ROOT / name).read_text(), flags=re.MULTILINE)
        assert count == 1, f"{name}: {count} lines begin with {key!r}"
        (ROOT / name).write_text(text)


def build(version: str, folder: Path) -> list[str]:
    """Builds the wheel and the archive of sources of the last commit in ``folder``; returns their names."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as sources:
        subprocess.run(["git", "archive", "--output", f"{sources}/all.tar", "HEAD"], cwd=ROOT, check=True)
        subprocess.run(["tar", "--extract", "--file", "all.tar", "--one-top-level"], cwd=sources, check=True)
        for function in ("build_sdist", "build_wheel"):
            command = [sys.executable, "-c", BUILD.format(f"build.{function}"), str(folder)]
            subprocess.run(command, cwd=f"{sources}/all", check=True, stdout=subprocess.DEVNULL)
    return sorted(path.name for path in folder.glob(f"headrace-{version}[-.]*"))


def main(version: str) -> None:
    if reason := refusal(version):
        sys.exit(reason)
    set_version(version, datetime.date.today().isoformat())
    git("commit", "--all", "--allow-empty", "--quiet", "--message", f"release: {version}")
    print(*build(version, ROOT / "dist"), sep="\n")
    git("tag", "--annotate", f"v{version}", "--message", f"Headrace {version}")
    print(f"push it with: git push origin HEAD v{version}")


if __name__ == "__main__":
    main(*sys.argv[1:])
