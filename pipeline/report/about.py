"""The sections about the run: name, command, typed settings, date, user; time, cost and hardware of each stage; all
settings. about.html shows them.

<root>/runs/<id>/run.json            the overrides and --config-dir as typed; its owner and date
<stage>/<address>/logs/hosts/        time and hardware; accounts.py counts from them what was spent
"""

import dataclasses
import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.core.secrets import redacted
from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.core.work_log import Attempt, attempts, seconds_of
from headrace.pipeline.documents.audit_estimates import AuditResults, saved_results
from headrace.pipeline.report.accounts import NOTHING, Account, Spent
from headrace.pipeline.report.formatting import count, duration, flat, visible

COMMAND_CHARACTERS = 4000


@dataclasses.dataclass(frozen=True)
class StageTime:
    """The time of one stage, and the machines that worked on it, as text."""

    name: str
    time: str
    machines: str
    note: str
    """The day, and the number of attempts that were killed."""
    spent: Spent
    """The work of this run on it."""


@dataclasses.dataclass(frozen=True)
class About:
    """The facts about a run. Texts are empty where the run has no run.json."""

    id: str
    name: str | None
    started: str
    user: str
    command: str
    typed: list[tuple[str, str]]
    """The settings that the user typed, and their values."""
    times: list[StageTime]
    total: str
    """The time of all stages together."""
    left_out: str = ""
    """The numbers of files and folders that the source has left out, by reason."""
    audit: AuditResults | None = None
    """The results of an audit of its pages."""
    account: Account = NOTHING

    @property
    def cost_titles(self) -> list[str]:
        """The columns of what the run has spent anything of: core-hours, GPU-hours, written."""
        return [title for title, text in self.account.total.texts.items() if text]

    @property
    def title(self) -> str:
        return self.name or f"Run {self.id}".strip()

    @classmethod
    def of(cls, root: Path, run: str, name: str | None, inputs: Inputs) -> "About":
        """Returns the facts about the run with the id ``run`` below ``root``, which has the stages ``inputs``."""
        run_json = root / "runs" / run / "run.json"
        attempts_by_stage = {stage: attempts(artifact.folder) for stage, artifact in inputs.items()}
        known = {stage: stage_attempts for stage, stage_attempts in attempts_by_stage.items() if stage_attempts}
        saved = read_sealed(run_json) if run_json.is_file() else {}
        folders = {stage: artifact.folder for stage, artifact in inputs.items()}
        account = Account.of(run, folders)
        overrides = [redacted(str(override)) for override in saved.get("overrides", ())]
        command = start_command(overrides, saved.get("config_dir", ""))
        typed = [override.partition("=") for override in overrides]
        return cls(
            id=run,
            name=name or saved.get("config", {}).get("name"),  # a run keeps the name of an earlier start
            started=_date(run_json.stat().st_mtime) if saved else "",
            user=_owner(run_json) if saved else "",
            command=visible(command, COMMAND_CHARACTERS) if saved else "",
            typed=[(visible(key, COMMAND_CHARACTERS), visible(value, COMMAND_CHARACTERS)) for key, _, value in typed],
            times=[_stage_time(stage_attempts, account.spent(stage)) for stage, stage_attempts in known.items()],
            total=duration(sum(map(seconds_of, known.values()))) if known else "",
            left_out=visible(saved.get("left_out", ""), COMMAND_CHARACTERS),
            audit=saved_results(run_json.parent),
            account=account,
        )


def start_command(overrides: Sequence[str], config_dir: str) -> str:
    """Returns the command that starts the run of ``overrides``, with presets of the folder ``config_dir`` if given."""
    presets = ["--config-dir", config_dir] if config_dir else []
    return shlex.join(["headrace", *(overrides or ["run"]), *presets])


def _stage_time(stage_attempts: Sequence[Attempt], spent: Spent) -> StageTime:
    machines = list(dict.fromkeys(f"{attempt.host}: {attempt.machine}" for attempt in stage_attempts))
    more = f" and {len(machines) - 1:,} other machines" if len(machines) > 1 else ""
    killed = sum(attempt.end is None for attempt in stage_attempts)
    note = f", {killed:,} attempts did not end" if killed else ""
    time, day = duration(seconds_of(stage_attempts)), _date(stage_attempts[0].start)
    return StageTime(spent.stage, time, machines[0] + more, day + note, spent)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M %Z")


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:  # the user is in no list of this machine, as in some containers
        return f"user {path.stat().st_uid}"


def settings_of(stage: str, artifact: Artifact) -> dict[str, Any]:
    """Returns the settings and counts of ``stage``, with its address and size, as text."""
    files = artifact.manifest["files"].values()
    size = sum(file["bytes"] for file in files)
    return {
        "name": stage,
        "address": artifact.folder.name,
        "size": f"{size / 1e6:,.1f} MB in {count(len(files))} files",
        "settings": list(flat(artifact.settings)),
        "counts": [(key, count(number)) for key, number in sorted(artifact.counts.items()) if ":" not in key],
    }
