"""The project's wheel in an environment of its own, and a folder of a user whose modules have the names of ours."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src", "pipeline", "data_prep", "train", "conf", "slurm")
THEIRS = ("pipeline", "data_prep", "conf", "slurm")


def copy_sources(folder: Path) -> Path:
    """Copies what a build reads to ``folder``/sources, because a build writes into its folder."""
    for name in SOURCES:
        source = REPOSITORY / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, folder / "sources" / name, symlinks=True, ignore=ignored)
        else:
            (folder / "sources").mkdir(exist_ok=True)
            shutil.copy(source, folder / "sources")
    return folder / "sources"


def build_wheel(folder: Path, sources: Path | None = None) -> Path:
    """Builds the wheel in ``folder``, from the folder or archive ``sources``; without them, from a copy of ours."""
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", folder, sources or copy_sources(folder)], check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def build_sdist(folder: Path) -> Path:
    """Builds the archive of the sources below ``folder``."""
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=copy_sources(folder), check=True, capture_output=True)
    (found,) = folder.glob("*.tar.gz")
    return found


def install(wheel: Path, folder: Path, has_kernels: bool = False) -> Path:
    """Installs ``wheel`` into a new environment in ``folder``; returns the folder of its programs.

    What the wheel depends on is shared with this environment, which has all extras, so a training runs without another
    installation of torch. So are, with ``has_kernels``, the kernels that numba has compiled: a first run would compile
    them for a minute.
    """
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    shared = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "shared.pth").write_text("".join(f"{path}\n" for path in shared))
    command = [sys.executable, "-m", "pip", f"--python={folder}", "install", "--no-deps", "--no-index"]
    subprocess.run([*command, "--ignore-installed", wheel], check=True, capture_output=True)
    if has_kernels:
        copy_kernels(packages / "headrace")
    return folder / "bin"


def copy_kernels(package: Path) -> None:
    """Copies numba's caches to ``package``. They are valid for sources that have the time of the compiled ones."""
    for source in (REPOSITORY / "data_prep").rglob("*.py"):
        shutil.copystat(source, package / source.relative_to(REPOSITORY))
    for kernel in (REPOSITORY / "data_prep").rglob("*.nb[ic]"):
        copy = package / kernel.relative_to(REPOSITORY)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(kernel, copy)


def write_users_modules(folder: Path) -> None:
    """Writes train.py and packages with the names of our folders to ``folder``."""
    (folder / "train.py").write_text("OWNER = 'user'\n")
    for name in THEIRS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("OWNER = 'user'\n")


def environment_variables() -> dict[str, str]:
    """Returns the variables of this process without those that lead Python to our sources."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(folder: Path, *command: str | Path, timeout: int = 500) -> str:
    """Runs ``command`` in ``folder`` and returns what it printed."""
    variables = environment_variables()
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout
