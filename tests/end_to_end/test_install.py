"""The wheel in an empty environment, used from a folder that holds packages with the names of our folders."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src", "pipeline", "data_prep", "train", "conf", "slurm")
DATA = ("conf/config.yaml", "conf/experiment/smoke.yaml", "slurm/array.sbatch", "slurm/train.sbatch")
THEIRS = ("pipeline", "data_prep", "conf", "slurm")
SMALL = (
    *("experiment=smoke", "tracking=file", "workers=1", "source.packages=[standard-library]"),
    *("tokenizer.vocabulary_size=300", "model.layers=1", "model.width=32", "model.mlp_width=64"),
    *("training.steps=2", "training.validate_every=2", "training.save_every=2", "schedule.warmup_steps=1"),
    *("evaluation.benchmarks=null", "+evaluation.benchmarks.validation.type=validation"),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources because a build writes into its folder."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        source = REPOSITORY / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, folder / "sources" / name, symlinks=True, ignore=ignored)
        else:
            (folder / "sources").mkdir(exist_ok=True)
            shutil.copy(source, folder / "sources")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", folder, folder / "sources"], check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel; what it depends on is shared with this environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    shared = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "shared.pth").write_text("".join(f"{path}\n" for path in shared))
    install = [sys.executable, "-m", "pip", f"--python={folder}", "install", "--no-deps", "--no-index"]
    subprocess.run([*install, "--ignore-installed", wheel], check=True, capture_output=True)
    return folder / "bin"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A user's folder whose modules have the names of our folders."""
    (tmp_path / "train.py").write_text("OWNER = 'user'\n")
    for name in THEIRS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OWNER = 'user'\n")
    return tmp_path


def run(folder: Path, *command: str | Path) -> str:
    """Runs ``command`` in ``folder`` and returns what it printed."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_holds_one_package_with_its_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"headrace"}
    packed = set(names)
    assert {f"headrace/{name}" for name in DATA} <= packed
    for folder in ("pipeline", "data_prep", "train", "conf", "slurm"):
        files = [
            path for path in (REPOSITORY / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts
        ]
        missing = {f"headrace/{path.relative_to(REPOSITORY)}" for path in files} - packed
        assert missing == set(), "every file of the folder is in the wheel"


@pytest.mark.slow
def test_the_commands_start_beside_a_users_own_modules(environment: Path, theirs: Path) -> None:
    for command in ((environment / "headrace",), (environment / "python", "-m", "headrace")):
        assert "headrace" in run(theirs, *command, "--help")
    where = "import headrace, train, pipeline; print(headrace.__file__, train.OWNER, pipeline.OWNER)"
    file, *owners = run(theirs, environment / "python", "-c", where).split()
    assert Path(file).is_relative_to(environment.parent)
    assert owners == ["user", "user"]


@pytest.mark.slow
def test_a_run_beside_a_users_own_modules(environment: Path, theirs: Path) -> None:
    run(theirs, environment / "headrace", *SMALL)
    assert len(list(theirs.glob("runs/report/*/report.html"))) == 1
