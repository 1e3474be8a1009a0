"""What a model can do, as a table with errors and baselines, and every answer that led to it: of a run, of a folder.

scores.json               per benchmark: metrics, standard errors, intervals, random baselines, what did not fit; each
                          metric on all items, on clean and on dirty ones
scores.md                 the same as a table
lm_eval.json              the same as lm-evaluation-harness writes it
samples/<name>.jsonl      per item: prompts, choices, log-likelihoods, outcome
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from data_prep.tokenization.encode import Encoder
from pipeline.core.artifact import FileRecord, TaskOutput, read_json
from pipeline.core.errors import ConfigError
from pipeline.core.stage import Inputs, Phase, RawFile, Stage
from train.evaluation.benchmark import Evaluation
from train.evaluation.contamination import Overlap
from train.evaluation.held_out import HeldOut
from train.evaluation.scoring import Subject, score_all, write_samples, write_tables

MODEL_FILES = ("*.json", "*.safetensors", "*.bin", "*.model", "*.txt")
"""What a Hugging Face folder keeps weights, shape and tokenizer in."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores(Stage):
    """Scores the weights of a run on each benchmark."""

    name: ClassVar[str] = "scores"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[str, ...]] = ("overlaps", "tokens", "packed", "weights")

    evaluation: Evaluation

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("scores", 1, self.run),)

    def raw_files(self) -> tuple[RawFile, ...]:
        return self.evaluation.raw_files()

    def run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Score every benchmark with the exported model; counts benchmarks, items, queries and tokens."""
        from train.evaluation.scorer import load_scorer

        weights = inputs["weights"]
        encoder = Encoder.load(weights.path("hf/tokenizer.json"))
        held_out = HeldOut(inputs["tokens"], inputs["packed"], encoder)
        vocabulary = int(read_json(weights.path("hf/config.json"))["vocab_size"])
        scorer = load_scorer(weights.path("hf/model.safetensors").parent, self.evaluation)
        found = read_json(inputs["overlaps"].path("items.json"))["benchmarks"]
        overlaps = {
            name: Overlap.of(found[texts]) for name, texts in self.evaluation.same_texts().items() if texts in found
        }
        return _scored(self.evaluation, held_out, overlaps, Subject(scorer, encoder, vocabulary), out)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FolderScores(Stage):
    """Scores the model in a Hugging Face folder, whoever made it, on each benchmark that needs no run."""

    name: ClassVar[str] = "folder_scores"

    evaluation: Evaluation
    folder: str = dataclasses.field(metadata={"hashed": False})
    """Its files decide the result, not its place."""

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("scores", 1, self.run),)

    def raw_files(self) -> tuple[RawFile, ...]:
        """The files of the model and of the benchmarks.

        Raises:
            ConfigError: when the folder holds no model, or a benchmark's file is missing.
        """
        folder = Path(self.folder)
        if not (folder / "config.json").is_file():
            remedy = "give the folder of a Hugging Face model"
            raise ConfigError("evaluate", f"{self.folder!r} has no config.json", remedy)
        paths = sorted({path for pattern in MODEL_FILES for path in folder.glob(pattern)})
        records = [(path.name, FileRecord.of(path)) for path in paths]
        model = tuple(RawFile(f"model/{name}", record.bytes, record.sha256) for name, record in records)
        return model + self.evaluation.raw_files()

    def run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Score every benchmark; counts benchmarks, items, queries and tokens."""
        from train.evaluation.folder import open_folder

        return _scored(self.evaluation, None, {}, open_folder(Path(self.folder), self.evaluation), out)


def _scored(
    evaluation: Evaluation,
    held_out: HeldOut | None,
    overlaps: Mapping[str, Overlap],
    subject: Subject,
    out: TaskOutput,
) -> "Counter[str]":
    """Our benchmarks, then lm-evaluation-harness's tasks, then the tables of both."""
    entries = score_all(evaluation, held_out, overlaps, subject, out)
    if evaluation.tasks:
        from train.evaluation.harness import score_tasks

        found = score_tasks(evaluation, subject)
        for task, rows in found.samples.items():
            write_samples(task, rows, out)
        entries += found.entries
    return write_tables(entries, evaluation, subject, out)
