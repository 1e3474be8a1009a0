"""Real trainings in processes of their own, which may kill themselves; started by the tests.

    python -m tests.train.training SPEC_JSON                               one after the other, each rank in a fork
    python -m torch.distributed.run ... -m tests.train.training SPEC_JSON  this rank of the first of them

The specification (``specify``) names the input artifacts' folders, the stage's settings, the number of ranks, and the
runs: a folder, and the stop by SIGKILL, or by another signal on one rank: just before the n-th call of a function.
"""

import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.stage import Inputs
from headrace.train.finetuned import Finetuned
from headrace.train.weights import Weights
from tests.train import fork_server
from tests.train.forks import status_of_ranks

ROOT = Path(__file__).parents[2]
STAGES: dict[str, type[Weights] | type[Finetuned]] = {one.name: one for one in (Weights, Finetuned)}


def specify(
    folder: Path, inputs: Inputs, stage: dict[str, Any], runs: list[list[Any]], ranks: int = 1, name: str = "weights"
) -> Path:
    """The path of a specification of the stage ``name``, which is written into ``folder``."""
    folders = {name: str(artifact.folder) for name, artifact in inputs.items()}
    spec = {"name": name, "inputs": folders, "stage": stage, "runs": runs, "ranks": ranks}
    (folder / "spec.json").write_text(json.dumps(spec))
    return folder / "spec.json"


def train(spec: Path) -> tuple[list[int], str]:
    """Trains each run of ``spec``; returns their exit statuses (of the first rank that failed) and the output."""
    done = fork_server.run("tests.train.training", str(spec))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def owner_of(place: str) -> Any:
    """The module or, of ``module:Class``, the class (or the module that this one imported)."""
    module, _, inside = place.partition(":")
    owner: Any = importlib.import_module(module)
    for name in filter(None, inside.split(".")):
        owner = getattr(owner, name)
    return owner


def kill_before(module: str, function: str, call: int, signal_name: str = "SIGKILL", rank: str = "0") -> None:
    """Makes this process, if it is ``rank``, send itself a signal before the ``call``-th call of ``function``."""
    if os.environ.get("RANK", "0") != rank:
        return
    owner = owner_of(module)
    original: Callable = getattr(owner, function)
    calls = 0

    def counted(*arguments, **named):
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.Signals[signal_name])
        return original(*arguments, **named)

    setattr(owner, function, counted)


def run(spec: dict, folder: str, kill: list | None) -> None:
    """One training into ``folder``; ends the process."""
    try:
        if kill:
            kill_before(*kill)
        name = spec["name"]
        stage = decode(STAGES[name], spec["stage"])
        inputs = {each: Artifact(Path(path)) for each, path in spec["inputs"].items()}
        out = TaskOutput(Path(folder), name, 0)
        counts = stage.phases({})[0].run(0, inputs, out)
        if os.environ.get("RANK", "0") == "0":
            out.done(counts)
            finish(Path(folder), stage.description({each: each for each in inputs}), {name: 1})
        os._exit(0)
    finally:  # a fork must not go on as its parent
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    spec = json.loads(Path(sys.argv[1]).read_text())
    if "RANK" in os.environ:
        run(spec, *spec["runs"][0])
    ends = []
    for arguments in spec["runs"]:
        if spec["ranks"] > 1:
            ends.append(status_of_ranks(spec["ranks"], lambda _, arguments=arguments: run(spec, *arguments)))
        else:
            child = os.fork() or run(spec, *arguments)
            ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(json.dumps(ends))
