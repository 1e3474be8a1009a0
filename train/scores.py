"""The stages that score the model of a run, of a folder or of a checkpoint.

scores.json               per benchmark: metrics, standard errors, intervals, random baselines, truncation; each metric
                          on all items, on clean and on dirty ones
scores.md                 the same as a table
samples/<name>.jsonl      per item: prompts, choices, log-likelihoods, outcome
lm_eval/                  table and samples as lm-evaluation-harness writes them
"""

import abc
import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.extras import loading
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.stage import Inputs, Phase, RawFile, Stage, raw_file
from headrace.train.config import ModelConfig
from headrace.train.evaluation.contamination import BenchmarkOverlap
from headrace.train.evaluation.held_out_documents import HeldOut
from headrace.train.evaluation.settings import Evaluation
from headrace.train.families.end_tokens import end_tokens, tokenizer_end
from headrace.train.families.hf_config import is_ours, read_model_config, read_weight_files, ties_by_config
from headrace.train.families.stored_weights import SUFFIX
from headrace.train.inference.chat_template import TEMPLATE_FILE
from headrace.train.objectives import AnyObjective
from headrace.train.objectives.base import Vocabulary, of_stack
from headrace.train.objectives.causal import Causal

if TYPE_CHECKING:
    from headrace.train.distributed.processes import Ranks
    from headrace.train.inference.inference_model import InferenceModel

MODEL_FILES = ("*.json", "*.safetensors", "*.bin", "*.model", "*.txt")
"""The files of weights, shape and tokenizer in a Hugging Face folder."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoringStage(Stage):
    """Scores a model on each benchmark in one task, on all ranks together."""

    distributed: ClassVar[bool] = True

    evaluation: Evaluation

    @property
    def device(self) -> str:
        return self.evaluation.device

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("scores", 1, self.run),)

    def raw_files(self) -> tuple[RawFile, ...]:
        return self.evaluation.raw_files()

    @abc.abstractmethod
    def run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Scores every benchmark; counts benchmarks, items, queries and tokens."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores(ScoringStage):
    """Scores the weights of a run on each benchmark."""

    name: ClassVar[str] = "scores"
    version: ClassVar[int] = 6
    inputs: ClassVar[tuple[str, ...]] = ("overlaps", "tokens", "packed", "weights")
    headline: ClassVar[tuple[str, ...]] = ("benchmarks", "items")

    def run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Scores every benchmark with the exported model; counts benchmarks, items, queries and tokens."""
        with loading():
            from headrace.train.evaluation import scoring
            from headrace.train.inference.inference_model import open_exported
            from headrace.train.inference.transformers_model import open_folder

        folder = inputs["weights"].verified_folder("hf")
        encoder = Encoder.load(folder / "tokenizer.json")
        held_out = HeldOut(inputs["tokens"], inputs["packed"], encoder)
        dirty_items = read_json(inputs["overlaps"].path("items.json"))["benchmarks"]
        overlaps = {
            name: BenchmarkOverlap.of(dirty_items[texts])
            for name, texts in self.evaluation.same_texts().items()
            if texts in dirty_items
        }

        def open_model(ranks: "Ranks") -> "InferenceModel":
            if self.evaluation.chat.template is not None:  # texts have special tokens, which an Encoder does not read
                return open_folder(folder, self.evaluation)
            return open_exported(folder, encoder, self.evaluation)

        return scoring.run(self.evaluation, held_out, overlaps, open_model, out)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FolderScores(ScoringStage):
    """Scores the model in any Hugging Face folder on each benchmark that needs no run."""

    name: ClassVar[str] = "folder_scores"
    version: ClassVar[int] = 4
    is_of_run: ClassVar[bool] = False

    folder: str = dataclasses.field(metadata={"hashed": False})
    """The result depends on its files, not on its path."""

    @property
    def revision(self) -> int:
        """1 where the files name further ends of a text than the tokenizer's, or hold another output layer than
        config.json says; in revision 0 they did not count."""
        folder = Path(self.folder)
        if not (folder / "config.json").is_file():
            return 0
        with _command_line_errors():
            further = set(end_tokens(folder)) - {tokenizer_end(folder)}
            is_other = is_ours(folder) and read_model_config(folder)[0].tied != ties_by_config(folder)
        return int(bool(further) or is_other)

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the files of the model and of the benchmarks.

        Raises:
            ConfigError: when the folder holds no model, or a benchmark's file is missing.
        """
        folder = Path(self.folder)
        if not (folder / "config.json").is_file():
            remedy = "give the folder of a Hugging Face model"
            if folder.suffix == ".gguf":
                remedy += ", in which a model from_config saves what from_pretrained(…, gguf_file=NAME) has read"
            raise ConfigError("evaluate", f"{self.folder!r} has no config.json", remedy)
        with _command_line_errors():
            is_ours(folder)
            weights = read_weight_files(folder)
        patterns = (*MODEL_FILES, *([TEMPLATE_FILE] if self.evaluation.chat.template == "own" else []))
        paths = sorted(
            path
            for path in {path for pattern in patterns for path in folder.glob(pattern)}.union(weights)
            if not weights or path in weights or path.suffix != SUFFIX
        )
        model = tuple(raw_file(f"model/{path.name}", path) for path in paths)
        return model + self.evaluation.raw_files()

    def run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Scores every benchmark; counts benchmarks, items, queries and tokens."""
        with loading():
            from headrace.train.evaluation import scoring
            from headrace.train.inference.transformers_model import open_folder

        def open_model(ranks: "Ranks") -> "InferenceModel":
            with _command_line_errors():
                return open_folder(Path(self.folder), self.evaluation)

        return scoring.run(self.evaluation, None, {}, open_model, out)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointScores(ScoringStage):
    """Scores the weights in one checkpoint of a training, which may still run."""

    name: ClassVar[str] = "checkpoint_scores"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[str, ...]] = ("tokenizer", "tokens", "packed")

    training: str
    """The address of the training; address and step together determine the weights."""
    step: int
    model: ModelConfig = dataclasses.field(metadata={"hashed": False})
    objective: AnyObjective = dataclasses.field(default_factory=Causal, metadata={"hashed": False})
    checkpoint: str = dataclasses.field(metadata={"hashed": False})
    """The folder of the checkpoint."""

    def run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Scores every benchmark; counts benchmarks, items, queries and tokens.

        Raises:
            ArtifactError: when the checkpoint is damaged, or was removed before it was read.
        """
        with loading():
            from headrace.train.checkpoint.saver import read_checkpoint
            from headrace.train.evaluation import scoring
            from headrace.train.inference.inference_model import check_finite, prepared

        tokenizer_file = inputs["tokenizer"].path("tokenizer.json")
        encoder = Encoder.load(tokenizer_file)
        objective = of_stack(self.objective, self.model.stack)
        form = objective.context_form(Vocabulary.read(objective, tokenizer_file))

        def open_model(ranks: "Ranks") -> "InferenceModel":
            network = read_checkpoint(Path(self.checkpoint), self.model, encoder.vocabulary_size, form, ranks)
            check_finite(network, self.checkpoint)
            vocabulary, window = encoder.vocabulary_size, self.model.context
            return prepared(network, encoder, vocabulary, window, self.evaluation, self.checkpoint)

        held_out = HeldOut(inputs["tokens"], inputs["packed"], encoder)
        return scoring.run(self.evaluation, held_out, {}, open_model, out)


@contextlib.contextmanager
def _command_line_errors() -> Iterator[None]:
    """Turns an ArtifactError of the folder into a ConfigError of the command line: running again cannot help."""
    try:
        yield
    except ArtifactError as error:
        raise ConfigError("evaluate", f"{error.where} {error.problem}", error.remedy) from error
