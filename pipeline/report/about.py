"""The sections about the run: name, command, typed settings, date, user; time, cost and hardware of each stage; its
openness; all settings. about.html shows them.

<root>/runs/<id>/run.json            the overrides and --config-dir as typed; planned FLOP; its owner and date
<stage>/<address>/logs/hosts/        time and hardware; accounts.py counts from them what was spent
manifest.json of the stages          which of the seven parts that make a model open the run gives, and where they are

The parts are code, configuration, architecture, optimizer, mixture, order and data. A part that the run has not is not
claimed. The model card in an exported folder names what is given, too.
"""

import dataclasses
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.core.secrets import redacted
from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.core.work_log import Attempt, attempts, seconds_of
from headrace.pipeline.documents.audit_estimates import AuditResults, saved_results
from headrace.pipeline.report.accounts import NOTHING, Account, Spent, amount_text
from headrace.pipeline.report.formatting import count, duration, flat, percent, visible
from headrace.train.cost.accelerators import ACCELERATORS
from headrace.train.cost.flops import HOUR_SECONDS, PEAK_FLOPS, PLANNED_MFU

COMMAND_CHARACTERS = 4000
NAME_CHARACTERS = 200
SHOWN_FILES = 5


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
    plan: str = ""
    """The GPU-hours of the training that were planned, and those that it took."""

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
            plan=_plan(saved.get("planned_flops", 0.0), inputs, known, account) if "weights" in known else "",
        )


def start_command(overrides: Sequence[str], config_dir: str) -> str:
    """Returns the command that starts the run of ``overrides``, with presets of the folder ``config_dir`` if given."""
    presets = ["--config-dir", config_dir] if config_dir else []
    return shlex.join(["headrace", *(overrides or ["run"]), *presets])


def _plan(
    planned_flops: float, inputs: Inputs, stage_attempts: Mapping[str, Sequence[Attempt]], account: Account
) -> str:
    """Returns the planned and the real GPU-hours of the training; an empty text without a GPU that is known.

    A branch has planned the steps after its trunk.
    """
    models = [model for attempt in stage_attempts["weights"] for model in attempt.gpus]
    gpu = next((name for model in models for name in ACCELERATORS if name in model), None)
    counts, hours = inputs["weights"].counts, account.spent("weights").gpu_hours
    if gpu is None or not hours or not counts["steps"]:
        return ""
    flops = planned_flops * (1 - counts["trunk_steps"] / counts["steps"])
    planned = flops / (PEAK_FLOPS[gpu] * PLANNED_MFU) / HOUR_SECONDS
    if not planned:  # saved by an earlier version
        return ""
    plan = f"{amount_text(planned)} GPU-hours, {flops:.3g} FLOP on {gpu} at {PLANNED_MFU:.0%} MFU"
    return f"The training was planned with {plan}; it took {amount_text(hours)}, {percent(hours / planned)} of that."


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


@dataclasses.dataclass(frozen=True)
class GivenPart:
    """One of the seven parts."""

    name: str
    is_given: bool
    text: str
    """Its content and its place, or why it is not given."""

    @property
    def given(self) -> str:
        return "yes" if self.is_given else "no"


def openness(inputs: Inputs) -> list[GivenPart]:
    """Returns the seven parts of a run with the artifacts ``inputs``."""
    versions = ", ".join(f"{name} {artifact.manifest.get('version')}" for name, artifact in inputs.items())
    where = "all settings of each stage in its manifest.json, and of the run in run.json"
    return [
        GivenPart("code", True, f"Headrace, versions of the stages: {versions}"),
        GivenPart("configuration", True, f"{where}; an address is a hash of settings and inputs"),
        *_parts_of_training(inputs.get("weights")),
        _data(inputs),
    ]


def _parts_of_training(weights: Artifact | None) -> list[GivenPart]:
    names = ("architecture", "optimizer", "mixture", "order")
    if weights is None:
        return [GivenPart(name, False, "the run has no training") for name in names]
    settings, parameters = weights.settings, weights.counts.get("parameters")
    model = _named(settings, "model", "stack", "layers", "width", "heads", "positions", "norm", "activation")
    optimizer = _named(settings, "optimizer", "type", "learning_rate", "weight_decay")
    training = _named(settings, "training", "steps", "batch_rows", "precision")
    place = f"{_named(settings, 'training', 'seed')}, epoch and position"
    texts = (
        model if parameters is None else f"{model}; {parameters:,} parameters",
        f"optimizer of {optimizer}; schedule of {_named(settings, 'schedule', 'type')}; training of {training}",
        mixture_text(settings.get("mixture", {})),
        f"computed from {place}; `headrace why N --as step` names the documents of a step",
    )
    return [GivenPart(name, True, text) for name, text in zip(names, texts, strict=True)]


def _named(settings: Mapping[str, Any], group: str, *names: str) -> str:
    """Returns the values with these names of a group of settings, as far as the artifact has them."""
    values = settings.get(group, {})
    return ", ".join(f"{name} {values[name]}" for name in names if name in values)


def mixture_text(mixture: Mapping[str, Any]) -> str:
    """Returns the sources of a mixture with their addresses and first weights."""
    if not mixture.get("sources"):
        return "one source, the rows of this run"
    sizing = mixture.get("sizing")
    weights = sizing["weights"][0] if sizing else mixture["stretches"][0]["weights"]
    parts = (
        f"{source['name']} {weight}{'' if source['packed'] is None else ' (packed/' + source['packed'] + ')'}"
        for source, weight in zip(mixture["sources"], weights, strict=True)
    )
    changes = len(sizing["times"] if sizing else mixture["stretches"]) - 1
    rule = ""
    if sizing:
        limit = "" if sizing["limit_rows"] is None else f", of at most {sizing['limit_rows']:,}"
        rule = f", times the power {sizing['exponent']:g} of their rows{limit}"
    return ", ".join(parts) + rule + (f"; the weights change {changes:,} times" if changes else "")


def _data(inputs: Inputs) -> GivenPart:
    if "texts" not in inputs:
        return GivenPart("data", False, "the run has no stage texts")
    last = next(name for name in ("unique", "clean", "texts") if name in inputs)
    source, artifact = source_text(inputs["texts"]), inputs[last]
    kept = f"{artifact.counts.get('kept', 0):,} documents with their ids in {last}/{artifact.folder.name}"
    return GivenPart("data", True, f"{source}; {kept}")


def source_text(texts: Artifact) -> str:
    """Returns the kind of the source, the number of its files and the names of the first ones."""
    files = texts.manifest.get("raw_files", [])
    names = ", ".join(visible(file["name"], NAME_CHARACTERS) for file in files[:SHOWN_FILES])
    more = ", …" if len(files) > SHOWN_FILES else ""
    kind = texts.settings.get("source", {}).get("type", "source")
    return f"{kind}, {len(files):,} files with their SHA-256 in texts/{texts.folder.name} ({names}{more})"


def rule_counts(inputs: Inputs) -> Iterator[tuple[str, int]]:
    """Yields the rules of cleaning that dropped documents, and how many."""
    if "clean" in inputs:
        dropped = "dropped:"
        counts = inputs["clean"].counts
        yield from sorted((key.removeprefix(dropped), n) for key, n in counts.items() if key.startswith(dropped))


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
