"""The logs of a stage: of its jobs, its ranks and its workers."""

from pathlib import Path

from headrace.pipeline.core.secrets import redacted
from headrace.pipeline.report.formatting import visible
from headrace.pipeline.run.jobs import records
from headrace.pipeline.run.saved_runs import AnyStage

TAIL_BYTES = 1 << 18


def log_files(stage: AnyStage) -> list[Path]:
    """Returns the logs of ``stage`` that exist: of its jobs, its ranks and its workers, the newest first."""
    files = set((stage.folder / "logs").rglob("*.log"))
    for job in records(stage).values():
        files |= set(Path(job.log).parent.glob(f"{Path(job.log).name}*.log"))
    return sorted((path for path in files if path.stat().st_size), key=lambda path: -path.stat().st_mtime_ns)


def tail(path: Path, lines: int) -> list[str]:
    """Returns the last ``lines`` of ``path``, with control characters made visible, without secrets."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - TAIL_BYTES))
        text = stream.read().decode("utf-8", "replace")
    return redacted("\n".join(visible(text, len(text)).splitlines()[-lines:])).splitlines()
