"""The environment of a release: Python, and the packages that Headrace needs, each with a hash of its files.

headrace ── requirements of installed packages, and theirs ──> torch 2.13.0, SHA-256 of its RECORD, …

RECORD of a package lists the SHA-256 of each of its files (the specification of binary distributions, PyPA). An
editable installation of Headrace has none of its modules there, so the hash of Headrace is that of its source files.
"""

import hashlib
import importlib.metadata
import platform
import re
from typing import Any

from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.environment import PACKAGES

OWN = "headrace"
NOT_RUN = re.compile(r"extra\s*==\s*['\"](?:dev|docs|peers|extractors)['\"]")
"""The requirements of Headrace that no run uses."""


def environment() -> dict[str, Any]:
    """Returns Python's version, the platform, and ``packages``: name → version and SHA-256 in hex."""
    packages = dict[str, dict[str, str]]()
    _add(OWN, packages)
    packages[OWN] = {"version": packages.get(OWN, {}).get("version", ""), "sha256": _source_hash()}
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": packages}


def _add(name: str, packages: dict[str, dict[str, str]]) -> None:
    """Adds the installed package ``name`` and what it requires to ``packages``."""
    normal = re.sub(r"[-_.]+", "-", name).lower()
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return
    if normal in packages:
        return
    record = distribution.read_text("RECORD") or ""
    packages[normal] = {"version": distribution.version, "sha256": hashlib.sha256(record.encode()).hexdigest()}
    for requirement in distribution.requires or ():
        wanted = re.match(r"[A-Za-z0-9._-]+", requirement)
        is_extra = NOT_RUN.search(requirement) if normal == OWN else "extra ==" in requirement
        if wanted and not is_extra:
            _add(wanted[0], packages)


def _source_hash() -> str:
    """Returns the SHA-256 of the names and checksums of our files, sorted by name."""
    rooms = [path for path in (PACKAGES / OWN).iterdir() if path.is_dir()]  # links to folders
    files = [path for room in rooms for path in room.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    lines = sorted(f"{path.relative_to(PACKAGES)} {FileRecord.of(path).sha256}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def package_versions(record: dict[str, Any]) -> dict[str, str]:
    """Returns name → version of the packages of an ``environment``."""
    return {name: package["version"] for name, package in record["packages"].items()}


def is_same_code(record: dict[str, Any]) -> bool:
    """Whether the environment ``record`` had the source files that run now."""
    return bool(record["packages"][OWN]["sha256"] == _source_hash())
