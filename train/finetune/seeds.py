"""All seeds of a fine-tuning, one training after the other."""

import contextlib
import dataclasses
import gc
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.artifact_files import make
from headrace.pipeline.core.progress import LATEST, TRAIL, Progress
from headrace.pipeline.core.stage import Inputs
from headrace.train.cost.shapes import shapes_by_role
from headrace.train.distributed.processes import Ranks, StopRequest, on_first
from headrace.train.families.hf_config import check_memory, read_model_config
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.seed_files import OWN_FORMAT, SeedFiles
from headrace.train.finetune.session import BEYOND_CONTEXT, Material, SeedTraining
from headrace.train.finetune.tuning import Tuning
from headrace.train.loop import preflight
from headrace.train.loop.training_start import announce


def train_seeds(tuning: Tuning, inputs: Inputs, out: TaskOutput, ranks: Ranks) -> dict[str, Any]:
    """Trains every seed whose files are not whole yet, and returns facts about the examples."""
    material = _material(tuning, inputs)
    finetune = tuning.finetune
    training = tuning.training_of(finetune.seeds[0], len(material.rows))
    shapes = shapes_by_role(material.network.model, material.network.vocabulary)
    with_best = dataclasses.replace(training, keep_last=training.keep_last + 1)  # the best one is kept, too
    preflight.check(tuning, with_best, finetune.optimizer, shapes, inputs, out.folder, ranks)
    with contextlib.ExitStack() as opened:
        progress = None
        if ranks.first:
            for split, reasons in material.dropped.items():
                if without := reasons.get(BEYOND_CONTEXT):
                    problem = f"{without:,} examples are left out, whose answers are all beyond finetune.context"
                    print(f"headrace: finetune.{split}: {problem}", file=sys.stderr, flush=True)
            for split, words in material.unread_words.items():
                problem = f"{words:,} words have no token in finetune.context: validation counts them as predicted O"
                print(f"headrace: finetune.{split}: {problem}", file=sys.stderr, flush=True)
            if material.has_own_format:
                print(f"headrace: finetuned: {OWN_FORMAT}", file=sys.stderr, flush=True)
            trail = out.folder / TRAIL
            make(trail.parent)
            whole = training.steps * len(finetune.seeds)
            progress = opened.enter_context(Progress("finetuned", whole, "steps", trail, out.folder / LATEST))
        stop = opened.enter_context(StopRequest())
        for seed in finetune.seeds:
            files = SeedFiles(out, seed)
            if on_first(ranks, files.are_whole):
                announce(out.folder, ranks, f"finetuned: seed {seed} is trained")
                if progress:
                    progress.skip(training.steps)
                continue
            make(files.folder)
            session = SeedTraining.open(material, seed, files.folder, ranks)
            state = session.train(progress, stop)
            session.finish(state, files)
            if progress:
                progress.skip(training.steps - state.step)  # those of an early end
            del session
            gc.collect()  # before the next engine takes its memory
    return _facts(material)


def _material(tuning: Tuning, inputs: Inputs) -> Material:
    finetune = tuning.finetune
    if finetune.folder is not None:
        folder = Path(finetune.folder)
        model, vocabulary = read_model_config(folder)
        check_memory(folder, model.parameters(vocabulary))
        return Material.read(tuning, folder / "tokenizer.json", folder)
    tokenizer_file = inputs["tokenizer"].path("tokenizer.json")
    if finetune.from_scratch:
        return Material.read(tuning, tokenizer_file, None)
    return Material.read(tuning, tokenizer_file, inputs["weights"].verified_folder("hf"))


def _facts(material: Material) -> dict[str, Any]:
    splits = material.splits
    examples = {"train": splits.training, "validation": splits.validation, "test": splits.test}
    facts = {
        "examples": {split: len(of_split) for split, of_split in examples.items()},
        "rows": {"train": len(material.rows), "validation": len(material.validation_rows)},
        "cut": material.cut,
        "dropped": material.dropped,
        "overlapping": splits.overlapping,
    }
    if material.has_own_format:
        facts["own_format"] = True
    if majority := _majority(splits.validation):
        facts["majority"] = majority
    if material.unread_words:
        facts["unread_words"] = material.unread_words
    if frozen := material.network.frozen(material.tuning.finetune.freeze):
        sizes = {name: parameter.numel() for name, parameter in material.network.empty().named_parameters()}
        trained = sum(size for name, size in sizes.items() if name not in frozen)
        facts["parameters"] = {"all": sum(sizes.values()), "trained": trained}
    return facts


def _majority(examples: Sequence[Example]) -> dict[str, Any]:
    """Returns the most frequent class of ``examples`` and its share: the accuracy without reading a text. Nothing where
    there are no classes."""
    labels = Counter(example.label for example in examples if example.label is not None)
    if labels.total() < max(len(examples), 1):
        return {}
    label, number = min(labels.items(), key=lambda entry: (-entry[1], entry[0]))
    return {"class": label, "share": number / len(examples)}
