"""The names of checkpoints: ``checkpoints/step_00000050``. No other module writes or parses them."""

from pathlib import Path

CHECKPOINTS = "checkpoints"
"""The folder of the checkpoints, below that of the weights."""
MANIFEST = "manifest.json"
_PREFIX = "step_"


def checkpoint_name(step: int) -> str:
    """Returns the name of the checkpoint of ``step``."""
    return f"{_PREFIX}{step:08d}"


def step_of(path: Path) -> int:
    """Returns the step of the checkpoint at ``path``."""
    return int(path.name.removeprefix(_PREFIX))


def checkpoints(folder: Path) -> dict[int, Path]:
    """Returns the checkpoints in ``folder`` by step, the oldest first."""
    paths = [path for path in folder.glob(f"{_PREFIX}*") if path.name.removeprefix(_PREFIX).isdecimal()]
    return {step_of(path): path for path in sorted(paths, key=step_of)}


def manifests(folder: Path) -> list[Path]:
    """Returns the manifests of the checkpoints in ``folder``, the oldest first."""
    paths = [path / MANIFEST for path in checkpoints(folder).values()]
    return [path for path in paths if path.is_file()]


def saved_step(training: Path) -> int | None:
    """Returns the step of the newest checkpoint of the folder ``training``; None when nothing was saved.

    Of a fine-tuning it is that of the seed that is being trained. Files are not compared with their checksums.
    """
    folders = [training, *training.glob("seed_*")]
    paths = [path for folder in folders for path in manifests(folder / CHECKPOINTS)]
    return step_of(max(paths, key=lambda path: path.stat().st_mtime_ns).parent) if paths else None
