"""Opens a training from the stage's settings and inputs, and resumes from a checkpoint if there is one."""

import dataclasses
import itertools
import shutil
from pathlib import Path

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.progress import LATEST, Progress
from headrace.pipeline.core.settings import plain
from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.tracking.tracker import Tracker, new_run_id, place_in_line
from headrace.train.checkpoint.names import CHECKPOINTS
from headrace.train.checkpoint.saver import Saver
from headrace.train.checkpoint.state import State
from headrace.train.checkpoint.store import Keeping
from headrace.train.context import ContextForm
from headrace.train.cost.flops import flops_per_token
from headrace.train.cost.shapes import shapes_by_role
from headrace.train.data.mixture import held_out_rows, parts_of_order, sources_of, training_data
from headrace.train.data.order import Later
from headrace.train.data.rows import MixedRows, Rows
from headrace.train.distributed.processes import Ranks, StopRequest, on_first, wait_longer_than
from headrace.train.distributed.watchdog import Watchdog
from headrace.train.engine.engine import Engine
from headrace.train.evaluation.held_out_documents import HeldOut
from headrace.train.families import initial_weights
from headrace.train.families.hf_folder import export, read_predecessor, read_weights
from headrace.train.families.predecessor import Predecessor
from headrace.train.loop import branch, distillation, preflight
from headrace.train.loop.branch import settings_of
from headrace.train.loop.pretraining import Pretraining
from headrace.train.loop.speed import Meter, Stragglers, peak_flops
from headrace.train.loop.trainer import TrainerParts, train
from headrace.train.loop.training_start import (
    announce,
    empty_model,
    exported,
    first_line,
    first_values,
    load_checkpoint,
    newest_checkpoint,
    open_engine,
)
from headrace.train.loop.validation import HeldOutRows, InLoopEvaluation
from headrace.train.model.initialization import first_weights
from headrace.train.model.transformer import Transformer, build_empty
from headrace.train.objectives.base import (
    OBJECTIVE_FILES,
    Demanding,
    Objective,
    Terms,
    Vocabulary,
    of_stack,
    target_tokens,
)
from headrace.train.objectives.row_reader import Reader


@dataclasses.dataclass(frozen=True)
class Session:
    """One training of ``stage`` in ``folder``, as seen by one rank."""

    stage: Pretraining
    inputs: Inputs
    folder: Path
    tokenizer_file: Path
    vocabulary: int
    form: ContextForm
    job: TrainerParts
    state: State

    @classmethod
    def open(cls, stage: Pretraining, inputs: Inputs, folder: Path, ranks: Ranks) -> "Session":
        """Builds the model and loads the newest whole checkpoint, if there is one.

        Raises:
            ConfigError: when rows are longer than the model's context, or ranks differ (train/loop/preflight.py).
            ArtifactError: when there is nothing to train on, or the checkpoint is of other data.
        """
        tokenizer_file = inputs["tokenizer"].path("tokenizer.json")
        encoder = Encoder.load(tokenizer_file)
        vocabulary = encoder.vocabulary_size
        preflight.check(
            stage, stage.training, stage.optimizer, shapes_by_role(stage.model, vocabulary), inputs, folder, ranks
        )
        if ranks.world > 1:
            sources = sources_of(inputs, stage.mixture).values()
            preflight.verify_together(
                [inputs_of_source[name] for inputs_of_source in sources for name in ("packed", "tokens")], ranks
            )
        train_rows, order = training_data(stage.training.seed, inputs, stage.mixture, stage.training.unique_rows)
        objective = of_stack(stage.objective, stage.model.stack)
        tokens = Vocabulary.read(objective, tokenizer_file)
        _check_rows(objective, train_rows, stage.model.context)
        if isinstance(objective, Demanding):
            objective.check_vocabulary(tokens)
        if stage.training.initial_weights is not None:
            initial_weights.check_tokenizer(Path(stage.training.initial_weights), tokenizer_file, vocabulary)
        model, training = empty_model(stage, vocabulary), stage.training
        engine = open_engine(model, stage.optimizer, training, stage.zero, ranks)
        terms = _terms(stage, objective, model, tokenizer_file, vocabulary, ranks)
        form = objective.context_form(tokens)
        limits = training.hang_seconds, training.save_hang_seconds
        watchdog = Watchdog(*limits, ranks.rank, folder, unequal_steps=training.ramp_steps)
        keeping = Keeping(training.keep_last, training.keep_every, training.spike_rollback_every)
        job = TrainerParts(
            engine=engine,
            training=training,
            optimizer=stage.optimizer,
            schedule=stage.schedule,
            objective=terms,
            reader=Reader(objective, tokens, training.seed, "training"),
            train_rows=train_rows,
            order=order,
            validation=HeldOutRows(
                engine=engine,
                objective=objective,
                reader=Reader(objective, tokens, training.seed, "validation"),
                train_rows=train_rows,
                seen_rows=list(dict.fromkeys(order.batch(0, training.seen_rows).tolist())),
                rows=Rows(inputs["packed"], inputs["tokens"], "validation"),
                limit=training.validation_rows,
                sources=held_out_rows(inputs, stage.mixture, training.source_rows),
                token_bytes=encoder.token_bytes,
            ),
            meter=_meter(stage, objective, vocabulary, train_rows.row_tokens, ranks),
            stragglers=Stragglers(model, ranks, folder, training.sequence_ranks),
            saver=Saver(folder / CHECKPOINTS, ranks, keeping, watchdog.saving),
            watchdog=watchdog,
            evaluation=_evaluation(stage, inputs, encoder, form, engine, watchdog),
        )
        wait_longer_than(training.longest_wait_seconds)  # the saver's group, too
        state = _take_up(job, stage, inputs, folder, vocabulary)
        if state.first_row:
            job = dataclasses.replace(job, order=Later(order, state.first_row))
        return cls(stage, inputs, folder, tokenizer_file, vocabulary, form, job, state)

    def train(self) -> State:
        """Trains to the last step; rank 0 logs."""
        ranks, watchdog = self.job.engine.ranks, self.job.watchdog
        if not ranks.first:
            with watchdog, self.job.saver, StopRequest() as stop:
                return train(self.job, self.state, None, None, stop)
        steps, latest = self.stage.training.steps, self.folder / LATEST
        tracker = self._tracker()
        with StopRequest() as stop:  # a request comes, too, when another rank has failed: wandb is not done then
            try:
                with watchdog, self.job.saver, Progress("weights", steps, "steps", latest=latest) as progress:
                    progress.skip(self.state.step)
                    state = train(self.job, self.state, tracker, progress, stop)
                tracker.verify()
                return state
            finally:
                tracker.close()

    def _tracker(self) -> Tracker:
        """Opens the curve of this training, in metrics.jsonl and in wandb."""
        stage, state = self.stage, self.state
        addresses = {name: artifact.folder.name for name, artifact in self.inputs.items()}
        facts = plain(stage) | place_in_line(self.folder.name, addresses) | {"ranks": self.job.engine.ranks.world}
        return Tracker(self.folder, stage.tracking, state.run_id, state.step, facts, state.curve)

    def export(self, folder: Path) -> None:
        """Writes the Hugging Face folder on rank 0; all ranks contribute their share of the weights."""
        ranks = self.job.engine.ranks
        weights = exported(self.stage, self.job.engine.weights(), lambda line: announce(self.folder, ranks, line))
        if ranks.first:
            if folder.exists():
                shutil.rmtree(folder)  # a start that was killed may have left temporary files
            common = (self.stage.model, self.vocabulary, self.tokenizer_file, folder, self.form)
            export(weights, *common, predecessor=Predecessor.of(self.folder))
        else:
            for _ in weights:
                pass


def _terms(
    stage: Pretraining,
    objective: Objective,
    model: Transformer,
    tokenizer_file: Path,
    vocabulary: int,
    ranks: Ranks,
) -> Terms:
    """Returns the terms of the loss: those of ``objective``, and of ``distillation.teacher`` if there is one."""
    folder = stage.distillation.teacher
    on_first(ranks, lambda: stage.check_files(OBJECTIVE_FILES))
    if folder is None:
        return objective
    opened = distillation.Teacher.open(Path(folder), stage.training, tokenizer_file, vocabulary, ranks)
    on_first(ranks, lambda: stage.check_files(initial_weights.TEACHER_FILES))
    return distillation.Distilled(objective, opened, model, stage.distillation)


def _begin(engine: Engine, stage: Pretraining, vocabulary: int, training_folder: Path) -> None:
    """Sets the first weights, one parameter at a time: random ones, or those of ``training.initial_weights`` or of
    the layers of a teacher.

    What an export takes over from the folder of initial weights is kept in ``training_folder``.
    """
    model, folder = empty_model(stage, vocabulary), stage.training.initial_weights
    if stage.distillation.teacher is not None and stage.distillation.initial_layers:
        of_teacher = distillation.initial_values(vocabulary, stage.distillation)
        engine.begin(itertools.chain(of_teacher, first_values(stage, model)))
    elif folder is None:
        engine.begin(first_weights(model, stage.training.seed))
    else:
        plain = build_empty(stage.model, vocabulary)
        engine.begin(itertools.chain(read_weights(plain, Path(folder)), first_values(stage, model)))
        on_first(engine.ranks, lambda: read_predecessor(plain, Path(folder)).keep(training_folder))
        on_first(engine.ranks, lambda: stage.check_files(initial_weights.INITIAL_FILES))


def _evaluation(
    stage: Pretraining, inputs: Inputs, encoder: Encoder, form: ContextForm, engine: Engine, watchdog: Watchdog
) -> InLoopEvaluation:
    """Prepares the scoring of ``training.evaluate_every``; finds broken benchmark files before the first step."""
    if stage.training.evaluate_every is not None:
        on_first(engine.ranks, stage.evaluation.raw_files)
    return InLoopEvaluation(
        evaluation=stage.evaluation,
        held_out=HeldOut(inputs["tokens"], inputs["packed"], encoder),
        encoder=encoder,
        model=stage.model,
        context_form=form,
        weights=engine.weights,
        ranks=engine.ranks,
        watchdog=watchdog,
    )


def _check_rows(objective: Objective, rows: Rows | MixedRows, context: int) -> None:
    if max(objective.lengths(rows.row_tokens).values()) > context:
        raise ConfigError(
            "model.context", f"is {context}, the packed rows have {rows.row_tokens} tokens", "make them equal"
        )


def _meter(stage: Pretraining, objective: Objective, vocabulary: int, row_tokens: int, ranks: Ranks) -> Meter:
    peak, targets = peak_flops(ranks.device), target_tokens(objective, row_tokens)
    flops = flops_per_token(stage.model, vocabulary, row_tokens, targets)
    return Meter(flops, peak * ranks.world if peak else None)


def _take_up(job: TrainerParts, stage: Pretraining, inputs: Inputs, folder: Path, vocabulary: int) -> State:
    """Loads the newest whole checkpoint on all ranks and returns its state; or sets the first weights, and returns the
    state at the beginning. Prints which of them, and why.

    A branch without a checkpoint goes on from one of its trunk (train/loop/branch.py).
    """
    data = parts_of_order(stage.training.seed, inputs, stage.mixture, stage.training.unique_rows)
    settings = settings_of(stage.planned_description({name: artifact.folder.name for name, artifact in inputs.items()}))
    ranks, rollback_every = job.engine.ranks, stage.training.spike_rollback_every

    def begin() -> tuple[str, Path | None, State]:
        point, run_id = branch.branch_point(stage, folder), new_run_id()
        if point is None:
            return first_line(folder), None, State(0, 0, 0, run_id, data, settings=settings)
        return branch.adopt(point, folder, settings, stage.training, data, run_id)

    checkpoint = newest_checkpoint(job.saver, data, settings, rollback_every, ranks)
    path: Path | None
    if checkpoint:
        path, state = checkpoint.path, checkpoint.state
        line = f"goes on from step {state.step}, {checkpoint.reason}"
    else:
        line, path, state = on_first(ranks, begin)
    announce(folder, ranks, f"weights: {line}")
    if path is None:
        _begin(job.engine, stage, vocabulary, folder)
    else:
        load_checkpoint(job.engine, path, state)
    return state
