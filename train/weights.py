"""The stage ``weights``: a model trained on the packed rows. All ranks of a launcher run its single task together.

    weights/<address>/
        hf/                     config.json, model.safetensors, tokenizer.json, tokenizer_config.json: the result
        origin.json             the checkpoints of other trainings that it went on from (train/loop/branch.py), if any
        predecessor/            what exports take over from the folder of the initial weights, if any
                                (train/families/predecessor.py)
        metrics.jsonl           one row per logged step, one per step that benchmarks were scored after
        checkpoints/step_*/     to resume from; the last two are kept (train/checkpoint/store.py)
        lock                    locked while a training writes here

A training that is started again resumes from the newest whole checkpoint. In fp32 on a CPU the result is the same, bit
for bit, as without the interruption.
"""

import dataclasses
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from headrace.pipeline.core.artifact import Balance, TaskOutput
from headrace.pipeline.core.extras import loading
from headrace.pipeline.core.json_files import write_json
from headrace.pipeline.core.progress import Progress
from headrace.pipeline.core.stage import Inputs, Phase
from headrace.train.checkpoint.names import CHECKPOINTS, MANIFEST, checkpoint_name
from headrace.train.distributed.watchdog import TRAINING
from headrace.train.loop.pretraining import Pretraining

ORIGIN = "origin.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weights(Pretraining):
    """Trains a model and exports it in Hugging Face's format; counts steps, rows, target tokens and parameters.

    Steps, rows and tokens of the trunk of a branch are counted, too; ``trunk_steps`` and ``trunk_rows`` are its share.
    """

    name: ClassVar[str] = "weights"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[str, ...]] = ("tokenizer", "tokens", "packed")
    distributed: ClassVar[bool] = True
    headline: ClassVar[tuple[str, ...]] = ("steps", "parameters")
    remedy: ClassVar[str] = TRAINING.remedy
    progress_file: ClassVar[str] = "metrics.jsonl"

    def show_progress(self, looks: Iterable[Sequence[Mapping[str, Any]]]) -> None:
        """Shows the steps that are done, with the loss and the speed, and the lines of starts (core/work_log.py)."""
        with Progress(self.name, self.training.steps, "steps") as progress:
            for rows in looks:
                for row in rows:
                    if "line" in row:
                        progress.print_line(row["line"])
                if logged := [row for row in rows if "loss" in row]:
                    loss, speed = logged[-1]["loss"], round(logged[-1]["tokens_per_second"])
                    progress.reach(logged[-1]["step"], loss=loss, **{"tokens/s": speed})

    @property
    def device(self) -> str:
        return self.training.device

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("weights", 1, self.run),)

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        training = self.training
        yield "steps = training.steps", counts["steps"], training.steps
        own_rows = training.rows_between(counts["trunk_steps"], training.steps)
        yield "rows = those of all batches", counts["rows"], counts["trunk_rows"] + own_rows

    def run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Trains as one of the ranks. Only rank 0 registers files and returns counts.

        Raises:
            ConfigError: when the settings, the ranks, the data and the memory of the GPU do not fit each other.
            RetryableError: when another training holds the folder, this one was asked to stop, or a GPU failed.
            TaskError: when training diverged.
        """
        with loading():
            from headrace.train.distributed import processes

            ranks = processes.start(self.training.device)  # before DeepSpeed is imported: it asks for the device once

            from headrace.train.distributed.processes import device_errors
            from headrace.train.loop.session import Session

        exported = out.own_scratch("hf")
        with processes.alone(ranks, out.folder), device_errors(self.training, ranks, out.folder):
            session = Session.open(self, inputs, out.folder, ranks)
            if session.state.origins and ranks.first:
                with out.file(ORIGIN) as path:
                    write_json(path, {"origins": session.state.origins})
            state = session.train()
            session.export(exported)
            if ranks.first:
                _register(out, exported, state.step)
        if not ranks.first:
            return Counter()
        branch = state.branch
        return Counter(
            **({"trunk_steps": branch["step"], "trunk_rows": branch["rows_seen"]} if branch else {}),
            steps=state.step,
            rows=state.rows_seen,
            target_tokens=state.tokens_seen,
            parameters=self.model.parameters(session.vocabulary),
        )


def _register(out: TaskOutput, exported: Path, step: int) -> None:
    """Copies the export, the metrics and the last checkpoint's manifest to files of the artifact."""
    files = (path for path in sorted(exported.rglob("*")) if path.is_file())
    sources = {f"hf/{path.relative_to(exported).as_posix()}": path for path in files}
    for name in ("metrics.jsonl", f"{CHECKPOINTS}/{checkpoint_name(step)}/{MANIFEST}"):
        sources[name] = out.folder / name
    for name, source in sources.items():
        with out.file(name) as path:
            shutil.copyfile(source, path)
