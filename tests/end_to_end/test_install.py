"""The wheel in an empty environment, used from a folder that holds packages with the names of our folders."""

import zipfile
from pathlib import Path

import pytest

from tests.installed_wheel import REPOSITORY, build_sdist, build_wheel, install, run, write_users_modules

DATA = ("conf/config.yaml", "conf/experiment/smoke.yaml", "slurm/array.sbatch", "slurm/train.sbatch")
SMALL = (
    *("experiment=smoke", "tracking=file", "workers=1", "source.paths=documentation/fsspec.jsonl"),
    *("tokenizer.vocabulary_size=300", "model.layers=1", "model.width=32", "model.mlp_width=64"),
    *("training.steps=2", "training.validate_every=2", "training.save_every=2", "schedule.warmup_steps=1"),
    *("evaluation.benchmarks=null", "+evaluation.benchmarks.validation.type=validation"),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel."""
    return install(wheel, tmp_path_factory.mktemp("environment"), has_kernels=True)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A user's folder whose modules have the names of our folders."""
    write_users_modules(tmp_path)
    return tmp_path


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
def test_the_archive_of_the_sources_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    from_archive = build_wheel(tmp_path / "wheel", build_sdist(tmp_path))
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(from_archive) as built:
        assert set(built.namelist()) == set(ours.namelist())
        differing = {name for name in built.namelist() if built.read(name) != ours.read(name)}
    assert differing == set()


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
    run(theirs, environment / "python", "-m", "headrace.documentation", "fsspec")
    run(theirs, environment / "headrace", *SMALL)
    assert len(list(theirs.glob("runs/report/*/report.html"))) == 1
