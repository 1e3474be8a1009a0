"""Scorings by one or more real ranks, started by test_ranks.py: forks of this process, one run after the other.

    python -m tests.train.evaluation.scoring_ranks SPEC_JSON

The specification names the stage's evaluation, the folders of its inputs, and the runs: a folder, the number of ranks,
the threads of each, and the signal that a rank sends itself, if any: just before the n-th call of a function. Rounds
are short, so a small benchmark takes several. The keys of answered queries go to logs/asked.
"""

import functools
import json
import os
import sys
from pathlib import Path

from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.settings import decode
from headrace.train.distributed.processes import Ranks
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference import sharing
from headrace.train.inference.sharing import AnswerLog
from headrace.train.scores import Scores
from tests.train.forks import status_of_ranks
from tests.train.training import kill_before

HANG_SECONDS = 20.0


def score(spec: dict, folder: Path, signal: list | None, ranks: Ranks) -> None:
    """Scores as pipeline/run/worker.py does."""
    if signal:
        kill_before(*signal)
    if signal and "SIGSTOP" in signal:
        spec["evaluation"]["hang_seconds"] = HANG_SECONDS
    stage = Scores(evaluation=decode(Evaluation, spec["evaluation"]))
    out = TaskOutput(folder, "scores", 0)
    counts = stage.run(0, {name: Artifact(Path(path)) for name, path in spec["inputs"].items()}, out)
    if ranks.first:
        out.done(counts)
        finish(folder, stage.description(dict.fromkeys(stage.inputs, "")), {"scores": 1})


def add_and_tell(kept: AnswerLog, answers: dict, add=AnswerLog.add) -> None:
    """``AnswerLog.add``."""
    add(kept, answers)
    if kept.path:
        with (kept.path.parents[1] / "logs" / "asked").open("a") as stream:
            stream.writelines(f"{key}\n" for key in answers)


if __name__ == "__main__":
    spec = json.loads(Path(sys.argv[1]).read_text())
    sharing.ROUND_BATCHES = 4
    AnswerLog.add = add_and_tell
    ends = []
    for folder, world, threads, signal in spec["runs"]:
        os.environ["HEADRACE_CORES"] = str(threads)
        ends.append(status_of_ranks(world, functools.partial(score, spec, Path(folder), signal)))
    print(json.dumps(ends))
