"""One training of a fine-tuning: from one seed, in the loop that pretraining has (train/loop/trainer.py).

    seed_1/
        metrics.jsonl           one row per logged step; losses and scores of the validation where it is evaluated
        checkpoints/step_*/     while it trains: the newest one, and the best one
        result.json             the scores of the best checkpoint, and its step
        predictions.jsonl       of the best checkpoint: one line for each validation example
        test_predictions.jsonl  the same for the test examples

A fine-tuning that is started again skips the seeds whose files are whole (seed_files.py), and resumes the next one from
its newest checkpoint.

Predictions are made by all ranks together:

    rows, shortest first ── a micro-batch for each rank, round by round ── outputs ──> all ranks ──> predictions, scores
"""

import dataclasses
import itertools
import shutil
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, nn

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.json_files import json_text, write_json
from headrace.pipeline.core.progress import Progress
from headrace.pipeline.core.settings import digest, plain
from headrace.pipeline.tracking.tracker import Tracker, new_run_id
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoint_name, checkpoints
from headrace.train.checkpoint.saver import Saver, averaged, shapes_of
from headrace.train.checkpoint.state import State
from headrace.train.checkpoint.store import Keeping
from headrace.train.cost.flops import flops_per_token
from headrace.train.data.batches import Tensors, to_device
from headrace.train.distributed.processes import Ranks, StopRequest, gather, on_first, wait_longer_than
from headrace.train.distributed.watchdog import FINETUNING, Watchdog
from headrace.train.engine.engine import DTYPES, Engine
from headrace.train.families.hf_config import read_model_config
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.network import Frozen, Network
from headrace.train.finetune.seed_files import PREDICTIONS, RESULT, TEST_PREDICTIONS, SeedFiles
from headrace.train.finetune.tasks.sequences import Form
from headrace.train.finetune.tasks.task import Fitted, Prediction, Row
from headrace.train.finetune.tuning import Splits, Tuning
from headrace.train.loop.speed import Meter, Stragglers, peak_flops
from headrace.train.loop.trainer import TrainerParts, train
from headrace.train.loop.training_start import announce, first_line, load_checkpoint, newest_checkpoint, open_engine
from headrace.train.loop.validation import CheckpointSelection, add, losses, total_of
from headrace.train.objectives.row_reader import MicroBatch

NumberedOutputs = tuple[int, NDArray[Any]]
"""The number of a row and the outputs for it."""


@dataclasses.dataclass(frozen=True)
class RowsOfExamples:
    """Reads rows of a task as batches; see ``RowReader``."""

    task: Fitted
    length: int | None
    """The length of every sequence; None: that of the longest one of a batch."""

    def read(self, rows: Sequence[Row], numbers: Sequence[int], first_position: int, least_rows: int = 1) -> MicroBatch:
        """Returns the rows ``numbers``. They draw nothing, so their position does not matter."""
        chosen = [rows[number] for number in numbers]
        arrays = self.task.arrays(chosen, self.length)
        return MicroBatch(arrays, self.task.counts(arrays), sum(row.tokens for row in chosen))


@dataclasses.dataclass(frozen=True)
class Examination:
    """The examples of a split, and the model that predicts them."""

    engine: Engine
    task: Fitted
    reader: RowsOfExamples
    examples: Sequence[Example]
    rows: Sequence[Row]

    def values(self) -> dict[str, float]:
        """Returns the loss and the scores of the predictions; all ranks call it together."""
        predictions, loss = self._predicted(with_loss=True)
        scores = self.task.scores(self.examples, predictions)
        return loss | {f"validation_{name}": value for name, value in scores.items()}

    def predictions(self) -> list[Prediction]:
        """Returns the prediction of each example; all ranks call it together."""
        return self._predicted(with_loss=False)[0]

    def _predicted(self, with_loss: bool) -> tuple[list[Prediction], dict[str, float]]:
        ranks, plan = self.engine.ranks, self.engine.plan
        order = sorted(range(len(self.rows)), key=lambda number: self.rows[number].tokens)
        own_outputs: list[NumberedOutputs] = []
        sums, counts = dict.fromkeys(self.task.weights, 0.0), dict.fromkeys(self.task.weights, 0.0)
        for start in range(0, len(order), plan.micro_rows * plan.groups):
            first = start + plan.group(ranks.rank) * plan.micro_rows
            numbers = order[first : first + plan.micro_rows]
            part = self.reader.read(self.rows, numbers or order[:1], first)  # all ranks compute equally often
            outputs, of_part = self.engine.computed(self._computed, to_device(part.arrays, ranks.device))
            if numbers:
                own_outputs += zip(numbers, outputs.cpu().numpy(), strict=True)
                add(sums, {name: float(value) for name, value in of_part.items()})
                add(counts, part.counts)
        outputs_of = dict(numbered for part in gather(own_outputs) for numbered in part)
        outputs_in_order = [outputs_of[number] for number in range(len(self.rows))]
        predictions = self.task.predictions(self.examples, self.rows, outputs_in_order)
        if not with_loss:
            return predictions, {}
        return predictions, losses(self.task, "validation_loss", total_of(ranks, sums), total_of(ranks, counts))

    def _computed(self, model: nn.Module, batch: Tensors) -> tuple[Tensor, dict[str, Tensor]]:
        outputs = self.task.outputs(model, batch)
        return outputs, self.task.sums(outputs, batch)


BEYOND_CONTEXT = "beyond_context"
"""The reason for which an example is left out that has no result within the context."""


@dataclasses.dataclass(frozen=True)
class Material:
    """The common parts of all seeds: the examples as rows, and the model that they begin from."""

    tuning: Tuning
    splits: Splits
    task: Fitted
    rows: list[Row]
    """The rows of the training."""
    validation_rows: list[Row]
    network: Network
    tokenizer_file: Path

    @classmethod
    def read(cls, tuning: Tuning, tokenizer_file: Path, weights_folder: Path | None) -> "Material":
        """Reads and encodes all examples."""
        finetune, encoder = tuning.finetune, Encoder.load(tokenizer_file)
        model = dataclasses.replace(tuning.model, dropout=finetune.dropout)
        splits = Splits.read(finetune)
        tokens = encoder.vocabulary_size
        if weights_folder is not None:
            tokens = min(tokens, read_model_config(weights_folder)[1])
        task = finetune.task.fitted(splits.training, Form(encoder, model, finetune.context, tokenizer_file.parent))
        rows, validation_rows = task.rows(splits.training, True), task.rows(splits.validation, False)
        network = Network(model, tokens, task, weights_folder)
        return cls(tuning, splits, task, rows, validation_rows, network, tokenizer_file)

    @property
    def has_own_format(self) -> bool:
        """Whether the folder of the result has our own format."""
        return self.network.has_own_format(self.tokenizer_file)

    @property
    def cut(self) -> dict[str, int]:
        """The number of examples whose texts were cut, by split."""
        rows = {"train": self.rows, "validation": self.validation_rows}
        return {
            split: len({row.example for row in rows_of_split if row.cut_tokens})
            for split, rows_of_split in rows.items()
        }

    @property
    def unread_words(self) -> dict[str, int]:
        """The number of words to tag that no row has, by split; empty where there are none."""
        rows = {"train": self.rows, "validation": self.validation_rows}
        counts = {split: sum(row.unread_words for row in rows_of_split) for split, rows_of_split in rows.items()}
        return counts if any(counts.values()) else {}

    @property
    def dropped(self) -> dict[str, dict[str, int]]:
        """The number of examples that are left out by split and reason; ``beyond_context``: those without a row."""
        counts = {split: dict(reasons) for split, reasons in self.splits.dropped.items()}
        for split, examples, rows in (
            ("train", self.splits.training, self.rows),
            ("validation", self.splits.validation, self.validation_rows),
        ):
            if without := len(examples) - len({row.example for row in rows}):
                counts[split] = {**counts.get(split, {}), BEYOND_CONTEXT: without}
        return counts


@dataclasses.dataclass(frozen=True)
class SeedTraining:
    """The training from one seed, as seen by one rank."""

    material: Material
    seed: int
    folder: Path
    job: TrainerParts
    state: State
    examination: Examination
    frozen: Frozen

    @classmethod
    def open(cls, material: Material, seed: int, folder: Path, ranks: Ranks) -> "SeedTraining":
        """Builds the model and loads the newest whole checkpoint, if there is one.

        Raises:
            ArtifactError: when the checkpoint is of other examples.
        """
        tuning, task, network = material.tuning, material.task, material.network
        finetune, training = tuning.finetune, tuning.training_of(seed, len(material.rows))
        model, factors = network.empty(), network.rate_factors(finetune.layer_decay)
        frozen = Frozen(model, network.frozen(finetune.freeze), DTYPES[training.precision], ranks.device)
        engine = open_engine(model, finetune.optimizer, training, tuning.zero, ranks, factors)
        watchdog = Watchdog(training.hang_seconds, training.save_hang_seconds, ranks.rank, folder, FINETUNING)
        saver = Saver(folder / CHECKPOINTS, ranks, Keeping(training.keep_last), watchdog.saving)
        wait_longer_than(training.longest_wait_seconds)  # the saver's group, too
        length = finetune.context if training.compiles_on(ranks.device.type) else None
        reader = RowsOfExamples(task, length)
        examination = Examination(engine, task, reader, material.splits.validation, material.validation_rows)
        flops, peak = flops_per_token(network.model, network.vocabulary, finetune.context), peak_flops(ranks.device)
        job = TrainerParts(
            engine=engine,
            objective=task,
            training=training,
            optimizer=finetune.optimizer,
            schedule=tuning.schedule_of(training.steps),
            reader=reader,
            train_rows=material.rows,
            order=task.order(seed, material.rows),
            validation=examination,
            meter=Meter(flops, peak * ranks.world if peak else None),
            stragglers=Stragglers(model, ranks, folder),
            saver=saver,
            watchdog=watchdog,
            stage=FINETUNING.stage,
            selection=CheckpointSelection(f"validation_{finetune.task.metric}", finetune.patience),
        )
        data = {"finetune": digest(finetune), "order": digest([seed, len(material.rows)])}
        newest = newest_checkpoint(saver, data, {}, None, ranks)
        origin = f"goes on from step {newest.state.step}, {newest.reason}" if newest else first_line(folder)
        announce(folder.parent, ranks, f"finetuned: seed {seed} {origin}")
        first_weights = frozen.taken_out(network.first_weights(seed))
        if newest:
            if frozen:
                deque(first_weights, maxlen=0)  # sets those that no checkpoint holds
            load_checkpoint(engine, newest.path, newest.state)
            return cls(material, seed, folder, job, newest.state, examination, frozen)
        engine.begin(first_weights)
        run_id = on_first(ranks, new_run_id)
        return cls(material, seed, folder, job, State(0, 0, 0, run_id, data), examination, frozen)

    def train(self, progress: Progress | None, stop: StopRequest) -> State:
        """Trains to the end and restores the best checkpoint, or averages the last ones; rank 0 logs and has a
        ``progress``."""
        job, tracker = self.job, None
        if progress:
            progress.skip(self.state.step)
            tracking = self.material.tuning.tracking
            of_run = {"address": self.folder.parent.name, "ranks": self.job.engine.ranks.world}
            facts = plain(self.material.tuning) | {"seed": self.seed} | of_run
            state = self.state
            tracker = Tracker(self.folder, tracking, state.run_id, state.step, facts, state.curve)
        try:
            with job.watchdog, job.saver:
                state = train(job, self.state, tracker, progress, stop)
                job.saver.wait()
                if steps := self.averaged_steps(state):
                    self._average(steps)
                elif state.best_step not in (None, state.step):
                    job.engine.load(job.saver.saved(state.best_step))
            if tracker:
                tracker.verify()
            return state
        finally:
            if tracker:
                tracker.close()

    def averaged_steps(self, state: State) -> list[int]:
        """Returns the steps of the checkpoints whose mean is the result at the end of the training; none: it is the
        best one."""
        number = self.material.tuning.finetune.average_last
        steps = [step for step in checkpoints(self.job.saver.folder) if step <= state.step]
        return [] if number is None else steps[-number:]

    def _average(self, steps: Sequence[int]) -> None:
        """Makes the model the mean of the checkpoints of ``steps``; all ranks call it."""
        saver = self.job.saver
        for step in steps:
            saver.saved(step)
        paths = [saver.folder / checkpoint_name(step) for step in steps]
        self.job.engine.begin(averaged(paths, shapes_of(self.material.network.empty())).items())

    def finish(self, state: State, files: SeedFiles) -> None:
        """Writes the model, the predictions and the result, and commits these ``files``; all ranks call it."""
        material, ranks = self.material, self.job.engine.ranks
        predictions = self.examination.predictions()
        test = material.splits.test
        rows = material.task.rows(test, False)
        test_predictions = dataclasses.replace(self.examination, examples=test, rows=rows).predictions() if test else []
        weights = self.job.engine.weights()
        if not ranks.first:
            for _ in weights:
                pass
            return
        if files.exported.exists():
            shutil.rmtree(files.exported)  # a start that was killed may have left temporary files
        unchanged = self.frozen.chosen(material.network.first_weights(self.seed))
        material.network.export(itertools.chain(weights, unchanged), material.tokenizer_file, files.exported)
        write_lines(self.folder / PREDICTIONS, predictions)
        if test:
            write_lines(self.folder / TEST_PREDICTIONS, test_predictions)
        write_json(self.folder / RESULT, self._result(state, predictions))
        files.commit()

    def _result(self, state: State, predictions: list[Prediction]) -> dict[str, Any]:
        examples, task = self.material.splits.validation, self.material.task
        scores, signatures = task.scores(examples, predictions), task.signatures(examples, predictions)
        return {
            "seed": self.seed,
            "scores": scores,
            "best_step": state.best_step,
            "steps": state.step,
            "rows": state.rows_seen,
            "tokens": state.tokens_seen,
            **({"averaged_steps": steps} if (steps := self.averaged_steps(state)) else {}),
            **({"signatures": signatures} if signatures else {}),
        }


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes ``rows`` as JSON lines."""
    with path.open("w", encoding="utf-8") as stream:
        for row in rows:
            stream.write(json_text(row, path) + "\n")
