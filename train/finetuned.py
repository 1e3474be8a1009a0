"""The stage ``finetuned``: a model that learned a task from labelled examples, once for each seed, and its scores.

    finetuned/<address>/
        scores.json             each metric: its mean over the seeds, half of its 95 % interval, its values
        seed_1/                 metrics.jsonl, result.json, predictions.jsonl, test_predictions.jsonl (session.py)
        hf/                     the model of the best seed as a Hugging Face folder
        lock                    locked while a training writes here

Seeds are trained one after the other. One that is killed goes on at its newest checkpoint. In fp32 on a CPU the result
is the same, bit for bit, as without the interruption.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from headrace.pipeline.core.artifact import Balance, TaskOutput
from headrace.pipeline.core.extras import loading
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.pipeline.core.stage import Inputs, Phase, Stage
from headrace.train.config import ModelConfig
from headrace.train.distributed.watchdog import TRAINING
from headrace.train.finetune.seed_files import RESULT, SeedFiles, best_seed, seed_scores
from headrace.train.finetune.settings import Finetune
from headrace.train.finetune.tuning import Tuning
from headrace.train.training_config import TrainingConfig

SCORES = "scores.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finetuned(Tuning):
    """Fine-tunes a model on a task; counts examples, seeds, steps and rows."""

    name: ClassVar[str] = "finetuned"
    distributed: ClassVar[bool] = True
    headline: ClassVar[tuple[str, ...]] = ("seeds", "examples")
    remedy: ClassVar[str] = TRAINING.remedy

    @property
    def inputs(self) -> tuple[str, ...]:
        if self.finetune.folder is not None:
            return ()
        return ("tokenizer",) if self.finetune.from_scratch else ("tokenizer", "weights")

    @staticmethod
    def joined(
        line: tuple[Stage, ...], finetune: Finetune | None, model: ModelConfig, training: TrainingConfig, **others: Any
    ) -> tuple[Stage, ...]:
        """Returns the part of ``line`` that ``finetune`` needs, with this stage: all stages; those up to the tokenizer
        where the first weights are random; no other where they come from a folder. Without ``finetune``, ``line``.

        ``model``, ``training`` and ``others`` are the settings of the run.
        """
        if finetune is None:
            return line
        shape = Finetuned.model_of(finetune, model)
        finetuned = Finetuned(finetune=finetune, model=shape, training=training, **others)
        if not finetuned.inputs:
            return (finetuned,)
        end = [stage.name for stage in line].index(finetuned.inputs[-1]) + 1
        return (*line[:end], finetuned, *(() if finetune.from_scratch else line[end:]))

    @property
    def device(self) -> str:
        return self.training.device

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("finetuned", 1, self.run),)

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        yield "seeds = finetune.seeds", counts["seeds"], len(self.finetune.seeds)
        yield "rows = steps · finetune.batch_rows", counts["rows"], counts["steps"] * self.finetune.batch_rows

    def run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Trains each seed as one of the ranks. Only rank 0 registers files and returns counts.

        Raises:
            ConfigError: when settings, ranks and examples do not fit each other.
            RetryableError: when another training holds the folder, this one was asked to stop, or a GPU failed.
            TaskError: when training diverged.
        """
        with loading():
            from headrace.train.distributed import processes

            ranks = processes.start(self.training.device)  # before DeepSpeed is imported: it asks for the device once

            from headrace.train.distributed.processes import device_errors
            from headrace.train.finetune.seeds import train_seeds

        with processes.alone(ranks, out.folder), device_errors(self.training, ranks, out.folder):
            facts = train_seeds(self, inputs, out, ranks)
            if not ranks.first:
                return Counter()
            results = self._register(out, facts)
        return Counter(
            seeds=len(results),
            examples=facts["examples"]["train"],
            steps=sum(result["steps"] for result in results),
            rows=sum(result["rows"] for result in results),
            tokens=sum(result["tokens"] for result in results),
        )

    def _register(self, out: TaskOutput, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Makes the files of the seeds, the best model and the table of scores files of the artifact.

        Returns the result of each seed.

        Raises:
            RetryableError: when a file of a seed is damaged.
        """
        seeds = {seed: SeedFiles(out, seed) for seed in self.finetune.seeds}
        for files in seeds.values():
            files.register(files.folder, files.folder.name)
        results: list[dict[str, Any]] = [read_json(files.folder / RESULT) for files in seeds.values()]
        metric = self.finetune.task.metric
        best = best_seed(results, metric)
        seeds[best].register(seeds[best].exported, "hf")
        with out.file(SCORES) as path:
            scores = {scores_of_metric.metric: scores_of_metric.row() for scores_of_metric in seed_scores(results)}
            head = {"task": self.finetune.task.type, "metric": metric, "best_seed": best, "scores": scores}
            write_json(path, {**head, "seeds": results, **facts})
        return results
