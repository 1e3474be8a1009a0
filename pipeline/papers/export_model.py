"""Writes the model of a run as a Hugging Face folder: weights or checkpoints with a card, or its fine-tuned model."""

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.documents.lookup import need
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.papers.cards import model_card
from headrace.pipeline.papers.whole_folder import checked_folder, new_folder, sized
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints
from headrace.train.checkpoint.saver import averaged, shapes_of
from headrace.train.context import ContextForm
from headrace.train.engine.fragments import MASTER
from headrace.train.engine.optimizers.base import EMA
from headrace.train.families.end_tokens import GENERATION_CONFIG, write_generation_config
from headrace.train.families.hf_folder import export
from headrace.train.families.predecessor import Predecessor
from headrace.train.finetuned import SCORES, Finetuned
from headrace.train.model.transformer import build_empty
from headrace.train.objectives.base import Vocabulary
from headrace.train.parts import WRITING
from headrace.train.weights import Weights

FILE_BYTES = 5_000_000_000
"""The most bytes of weights in one file, as ``transformers`` saves them."""
CARD = "README.md"
STEPS = "write RUN, RUN@STEP, or RUN@STEP,STEP,… for the average of several of its checkpoints"


def export_model(overrides: Sequence[str], asked: str, to: str, ema: bool) -> Iterator[Fact]:
    """Writes what ``asked`` names (RUN, RUN@STEP, or RUN@STEP,STEP,… for their average) to the folder ``to``.

    With ``ema`` it writes the moving average of the weights instead. Yields what was written.

    Raises:
        ConfigError: when there is no such run, checkpoint or moving average, or the folder exists.
        ArtifactError: when a checkpoint is damaged.
    """
    folder = checked_folder(to)
    name, at, steps = asked.partition("@")
    if at and not re.fullmatch(r"\d+(,\d+)*", steps, re.ASCII):
        raise ConfigError("RUN", f"{asked!r} names no steps", STEPS)
    run = run_of(overrides, name)
    finetuned = next((stage for stage in run.stages if stage.name == Finetuned.name), None)
    if finetuned is not None and not at and not ema:
        yield from _export_finetuned(finetuned, name, folder)
        return
    weights = next((stage for stage in run.stages if stage.name == Weights.name), None)
    if weights is None:
        raise ConfigError("RUN", f"{name!r} trains no model", "name another run (headrace runs lists all)")
    if ema and run.config.optimizer.ema_decay is None:
        raise ConfigError("--ema", f"{name!r} kept no moving average", "train with optimizer.ema_decay=0.999, say")
    paths = _checkpoints(weights, name, steps)
    with new_folder(folder) as temporary:
        form = write_model(run, weights, paths, temporary, EMA if ema else MASTER, FILE_BYTES)
        if run.config.trained_model.stack in WRITING and not (temporary / GENERATION_CONFIG).is_file():
            write_generation_config(temporary, form.stops)
        (temporary / CARD).write_text(model_card(run, weights, paths, ema), encoding="utf-8")
        for file in temporary.rglob("*.safetensors"):  # safetensors lets only their owner read them
            shutil.copymode(temporary / CARD, file)
    shown = ", ".join(f"{step:,}" for step in paths)
    what = f"{'the average of steps' if len(paths) > 1 else 'step'} {shown}"
    yield "weights", f"{weights.folder}, {'the moving average at ' if ema else ''}{what}"
    yield "folder", sized(folder)
    yield "scores", f"headrace evaluate {folder}"


def _export_finetuned(finetuned: PlannedStage, name: str, folder: Path) -> Iterator[Fact]:
    """Copies the model of the best seed, as ``finetuned`` wrote it, to ``folder``."""
    if not finetuned.is_whole:
        remedy = f"{name}@STEP exports a checkpoint of its pretraining"
        raise ConfigError("RUN", f"the fine-tuning of {name!r} is not finished", f"run it to its end; {remedy}")
    artifact = Artifact(finetuned.folder)
    seed = read_json(artifact.path(SCORES))["best_seed"]
    with new_folder(folder) as temporary:
        shutil.copytree(artifact.path("hf/config.json").parent, temporary, dirs_exist_ok=True)
    yield "model", f"{finetuned.folder}, fine-tuned, seed {seed}"
    yield "folder", sized(folder)
    yield "pretraining", f"headrace export {name}@STEP --to FOLDER writes the weights before the fine-tuning"


def _checkpoints(weights: PlannedStage, name: str, steps: str) -> dict[int, Path]:
    """Returns the checkpoints that ``steps`` names (numbers separated by commas), the last one without it."""
    saved = checkpoints(weights.folder / CHECKPOINTS)
    there = ", ".join(map(str, saved)) or "none"
    if not steps:
        if not weights.is_whole or not saved:
            raise ConfigError("RUN", f"the training of {name!r} is not finished", f"give a step: {name}@STEP ({there})")
        return {max(saved): saved[max(saved)]}
    numbers = steps.split(",")
    for number in numbers:
        if int(number) not in saved:
            raise ConfigError("RUN", f"{name!r} has no checkpoint of step {number}", f"give some of these: {there}")
    return {number: saved[number] for number in sorted(set(map(int, numbers)))}


def write_model(
    run: Run,
    stage: PlannedStage,
    paths: dict[int, Path],
    folder: Path,
    kind: str = MASTER,
    file_bytes: int | None = None,
) -> ContextForm:
    """Writes the average of the checkpoints ``paths`` of the training ``stage`` to ``folder``, as the training writes
    its ``hf/``; returns the form of a context. ``kind``: MASTER or EMA; ``file_bytes``: see ``export``.

    Raises:
        ArtifactError: when a checkpoint is damaged or was removed.
    """
    config = run.config
    tokenizer_file = need("tokenizer", run.stages).path("tokenizer.json")
    vocabulary = Encoder.load(tokenizer_file).vocabulary_size
    objective = config.row_objective
    form = objective.context_form(Vocabulary.read(objective, tokenizer_file))
    try:
        shapes = shapes_of(build_empty(config.trained_model, vocabulary))
        weights = averaged(list(paths.values()), shapes, kind)
    except FileNotFoundError as error:
        raise ArtifactError(str(error.filename), "was removed while it was read", "give a newer step") from None
    common = (config.trained_model, vocabulary, tokenizer_file, folder, form, file_bytes)
    export(weights.items(), *common, predecessor=Predecessor.of(stage.folder))
    return form
