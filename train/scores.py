"""What a model can do, as a table with errors and baselines, and every answer that led to it: of a run, of a folder, of
a checkpoint.

scores.json               per benchmark: metrics, standard errors, intervals, random baselines, what did not fit; each
                          metric on all items, on clean and on dirty ones
scores.md                 the same as a table
samples/<name>.jsonl      per item: prompts, choices, log-likelihoods, outcome
lm_eval/                  table and samples as lm-evaluation-harness writes them
"""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.artifact import TaskOutput, read_json
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.stage import Inputs, Phase, RawFile, Stage, raw_file
from headrace.train.config import ModelConfig
from headrace.train.evaluation.contamination import Overlap
from headrace.train.evaluation.held_out import HeldOut
from headrace.train.evaluation.settings import Evaluation
from headrace.train.families.hf_config import is_ours
from headrace.train.inference.subject import Subject

if TYPE_CHECKING:
    from headrace.train.distributed.processes import Ranks

MODEL_FILES = ("*.json", "*.safetensors", "*.bin", "*.model", "*.txt")
"""What a Hugging Face folder keeps weights, shape and tokenizer in."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores(Stage):
    """Scores the weights of a run on each benchmark."""

    name: ClassVar[str] = "scores"
    version: ClassVar[int] = 5
    inputs: ClassVar[tuple[str, ...]] = ("overlaps", "tokens", "packed", "weights")
    distributed: ClassVar[bool] = True

    evaluation: Evaluation

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("scores", 1, self.run),)

    def raw_files(self) -> tuple[RawFile, ...]:
        return self.evaluation.raw_files()

    def run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Score every benchmark with the exported model; counts benchmarks, items, queries and tokens."""
        from headrace.train.inference.scorer import load_scorer

        weights = inputs["weights"]
        encoder = Encoder.load(weights.path("hf/tokenizer.json"))
        held_out = HeldOut(inputs["tokens"], inputs["packed"], encoder)
        vocabulary = int(read_json(weights.path("hf/config.json"))["vocab_size"])
        model = weights.path("hf/model.safetensors").parent
        found = read_json(inputs["overlaps"].path("items.json"))["benchmarks"]
        overlaps = {
            name: Overlap.of(found[texts]) for name, texts in self.evaluation.same_texts().items() if texts in found
        }

        def subject(ranks: "Ranks") -> Subject:
            return Subject(load_scorer(model, self.evaluation), encoder, vocabulary)

        return _scored(self.evaluation, held_out, overlaps, subject, out)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FolderScores(Stage):
    """Scores the model in a Hugging Face folder, whoever made it, on each benchmark that needs no run."""

    name: ClassVar[str] = "folder_scores"
    version: ClassVar[int] = 3
    distributed: ClassVar[bool] = True

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
        with _asked_for():
            is_ours(folder)
        paths = sorted({path for pattern in MODEL_FILES for path in folder.glob(pattern)})
        model = tuple(raw_file(f"model/{path.name}", path) for path in paths)
        return model + self.evaluation.raw_files()

    def run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Score every benchmark; counts benchmarks, items, queries and tokens."""
        from headrace.train.inference.transformers_model import open_folder

        def subject(ranks: "Ranks") -> Subject:
            with _asked_for():
                return open_folder(Path(self.folder), self.evaluation)

        return _scored(self.evaluation, None, {}, subject, out)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointScores(Stage):
    """Scores the weights in one checkpoint of a training, which may still be going on."""

    name: ClassVar[str] = "checkpoint_scores"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[str, ...]] = ("tokenizer", "tokens", "packed")
    distributed: ClassVar[bool] = True

    evaluation: Evaluation
    training: str
    """The address of the training: with the step it decides the weights."""
    step: int
    model: ModelConfig = dataclasses.field(metadata={"hashed": False})
    checkpoint: str = dataclasses.field(metadata={"hashed": False})
    """Its folder."""

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("scores", 1, self.run),)

    def raw_files(self) -> tuple[RawFile, ...]:
        return self.evaluation.raw_files()

    def run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Score every benchmark; counts benchmarks, items, queries and tokens.

        Raises:
            ArtifactError: when the checkpoint is damaged, or was removed before it was read.
        """
        from headrace.train.checkpoint.consolidation import read_checkpoint
        from headrace.train.inference.scorer import check_finite, scorer_of

        encoder = Encoder.load(inputs["tokenizer"].path("tokenizer.json"))

        def subject(ranks: "Ranks") -> Subject:
            model = read_checkpoint(Path(self.checkpoint), self.model, encoder.vocabulary_size, ranks)
            check_finite(model, self.checkpoint)
            scorer = scorer_of(model, self.model.context, self.evaluation, self.checkpoint)
            return Subject(scorer, encoder, encoder.vocabulary_size)

        held_out = HeldOut(inputs["tokens"], inputs["packed"], encoder)
        return _scored(self.evaluation, held_out, {}, subject, out)


@contextlib.contextmanager
def _asked_for() -> Iterator[None]:
    """Raise what is wrong with the folder as an error of the command line that names it: no other start can help."""
    try:
        yield
    except ArtifactError as error:
        raise ConfigError("evaluate", f"{error.where} {error.wrong}", error.remedy) from error


def _scored(
    evaluation: Evaluation,
    held_out: HeldOut | None,
    overlaps: Mapping[str, Overlap],
    open_subject: "Callable[[Ranks], Subject]",
    out: TaskOutput,
) -> "Counter[str]":
    """Our benchmarks, then lm-evaluation-harness's tasks, then the tables of both: answered by all ranks together,
    written by rank 0."""
    from headrace.train.distributed import processes
    from headrace.train.evaluation.lm_eval.samples import by_task
    from headrace.train.evaluation.scoring import samples, score_all, write_logs, write_samples, write_tables
    from headrace.train.inference.answer_log import Kept
    from headrace.train.inference.pace import Pace
    from headrace.train.inference.sharing import Sharing, shared

    ranks = processes.start(evaluation.device, "evaluation.device")
    entries: list[Mapping[str, Any]] = []
    configs: dict[str, Mapping[str, Any]] = {}
    with Pace(out.folder, ranks, evaluation.hang_seconds) as pace, processes.StopRequest() as stop:
        own, kept = open_subject(ranks), Kept.before(out.own_scratch("answers"), ranks)
        asked = shared(own, Sharing(ranks, pace.answered, kept, stop))
        for scored in score_all(evaluation, held_out, overlaps, asked, pace.expect):
            entries.append(scored.entry)
            if ranks.first:
                name, rows = scored.entry["name"], samples(scored)
                write_samples(name, rows, out)
                configs |= write_logs(by_task(name, rows), out)
        if evaluation.tasks:
            from headrace.train.evaluation.lm_eval.harness import score_tasks

            found = score_tasks(evaluation, shared(own, Sharing(ranks, pace.beat, kept, stop)))
            entries += found.entries
            for task, rows in found.samples.items() if ranks.first else ():
                write_samples(task, rows, out)
            if ranks.first:
                configs |= write_logs(found.logs.items(), out)
    return write_tables(entries, configs, evaluation, own, out) if ranks.first else Counter()
