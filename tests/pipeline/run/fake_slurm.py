"""SLURM's clients as programs that record their arguments, and a small run. tests/cluster has the real ones."""

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from headrace.pipeline.clusters.slurm import Slurm
from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.stage import Inputs, Phase, Stage
from headrace.pipeline.run import jobs
from headrace.pipeline.run.planned_stage import PlannedStage

NAME = "feedfeed:letters.sort"
ARRAYS = Slurm(one_job="never")


def nothing(task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
    return Counter()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Letters(Stage):
    name: ClassVar[str] = "letters"

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return Phase("sort", 10, nothing), Phase("join", 1, nothing)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learned(Stage):
    name: ClassVar[str] = "learned"
    inputs: ClassVar[tuple[str, ...]] = ("letters",)
    distributed: ClassVar[bool] = True

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("learned", 1, nothing),)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores(Stage):
    name: ClassVar[str] = "scores"
    inputs: ClassVar[tuple[str, ...]] = ("learned",)
    distributed: ClassVar[bool] = True

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("scores", 1, nothing),)


def make_steps(root: Path) -> list[PlannedStage]:
    folders: dict[str, Path] = {}
    shards: dict[str, int] = {}
    steps = []
    for stage in (Letters(), Learned(), Scores()):
        folders[stage.name] = root / stage.name / "0123456789ab"
        inputs = {name: folders[name] for name in stage.inputs}
        step = PlannedStage(stage, "0123456789ab", folders[stage.name], inputs, shards, {"stage": stage.name})
        shards = {**shards, stage.name: step.phases[-1].tasks}
        steps.append(step)
    return steps


def do(step: PlannedStage, phase: str, tasks: Sequence[int]) -> None:
    for task in tasks:
        TaskOutput(step.folder, phase, task).done({})


def unanswered(*steps: PlannedStage) -> list[str]:
    """Returns the phases whose submission got no answer."""
    return [phase for step in steps for phase, job in jobs.records(step).items() if not job.job]


def live_ids(steps: Sequence[PlannedStage]) -> dict[str, list[str]]:
    return {cluster: [job.job for job in live] for cluster, live in jobs.live(steps).items()}


class FakeSlurm:
    """SLURM's clients on PATH: one JSON line per submission, and answers that a test sets."""

    SBATCH = """#!{python} -IS
import json, os, sys
folder = {folder!r}
calls = os.path.join(folder, "calls.jsonl")
number = 101 + (len(open(calls).readlines()) if os.path.exists(calls) else 0)
refusal = os.path.join(folder, f"refuse-{{number}}")
if os.path.exists(refusal):
    sys.exit(open(refusal).read())
slurm = {{k: v for k, v in os.environ.items() if k.startswith("SLURM_")}}
wandb = {{k: v for k, v in os.environ.items() if k in ("WANDB_API_KEY", "WANDB_RUN_GROUP")}}
(comment,) = [a.partition("=")[2] for a in sys.argv[-20:] if a.startswith("--comment=headrace:")]
argv = [a for a in sys.argv[1:] if a != "--comment=" + comment]
call = {{"argv": argv, "comment": comment, "number": number, "slurm": slurm, "wandb": wandb}}
open(calls, "a").write(json.dumps(call) + "\\n")
odd = os.path.join(folder, f"odd-{{number}}")
if os.path.exists(odd):
    exec(open(odd).read())
print(f"{{number}};cluster")
"""
    SQUEUE = """#!{python} -IS
import json, os, sys
folder = {folder!r}
if "--format=%F|%k" in sys.argv:
    calls = os.path.join(folder, "calls.jsonl")
    for line in open(calls) if os.path.exists(calls) else ():
        print(json.loads(line)["number"], json.loads(line)["comment"], sep="|")
    sys.exit()
path = os.path.join(folder, "queue")
numbers = [a for a in sys.argv if a.startswith("--jobs=")][0][7:].split(",")
found = [line for line in (open(path).read().splitlines() if os.path.exists(path) else ())]
found = [line for line in found if line.split("|")[0] in numbers]
if len(numbers) == 1 and not found:
    sys.exit("slurm_load_jobs error: Invalid job id specified")
for line in found:
    job, indices, rest = line.split("|", 2)
    for span in indices.split("%")[0].split(",") if "--array" in sys.argv and indices[0].isdigit() else [indices]:
        first, _, last = span.partition("-")
        for index in range(int(first), int(last or first) + 1) if first.isdigit() else [span]:
            print(job, index, rest, sep="|")
"""
    SCONTROL = """#!{python} -IS
import os, sys
assert sys.argv[1:] == ["show", "config"]
path = os.path.join({folder!r}, "config")
print(open(path).read() if os.path.exists(path) else "ClusterName = cluster")
"""
    SCANCEL = """#!{python} -IS
import os, sys
open(os.path.join({folder!r}, "cancelled"), "a").write(" ".join(sys.argv[1:]) + "\\n")
path = os.path.join({folder!r}, "queue")
rows = open(path).read().splitlines() if os.path.exists(path) else []
rows = [row for row in rows if row.split("|")[0] not in sys.argv[1:]]
open(path, "w").write("".join(row + "\\n" for row in rows))
"""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        tools = {"sbatch": self.SBATCH, "squeue": self.SQUEUE, "scancel": self.SCANCEL, "scontrol": self.SCONTROL}
        for name, text in tools.items():
            (folder / name).write_text(text.format(python=sys.executable, folder=str(folder)))
            (folder / name).chmod(0o755)

    @property
    def calls(self) -> list[dict[str, Any]]:
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def argv(self) -> list[list[str]]:
        return [call["argv"] for call in self.calls]

    def refuse(self, number: int, words: str) -> None:
        (self.folder / f"refuse-{number}").write_text(words)

    def answer_oddly(self, number: int, code: str) -> None:
        """Has sbatch run ``code`` after it has submitted job ``number``, before it prints the number."""
        (self.folder / f"odd-{number}").write_text(code)

    def queue(self, *entries: tuple[str, str], name: str = NAME) -> None:
        """``("job|index", "state|reason")``: what squeue will print."""
        rows = [f"{job}|{state}|{name}" for job, state in entries]
        (self.folder / "queue").write_text("\n".join(rows) + "\n")

    def configure(self, *lines: str) -> None:
        """What ``scontrol show config`` will print."""
        (self.folder / "config").write_text("\n".join(lines) + "\n")

    @property
    def cancelled(self) -> list[str]:
        path = self.folder / "cancelled"
        return path.read_text().split() if path.exists() else []


def option(argv: Sequence[str], name: str) -> str | None:
    """Returns the value of ``name``; the last one, as sbatch takes it."""
    values = [argument.partition("=")[2] for argument in argv if argument.startswith(f"--{name}=")]
    return values[-1] if values else None
