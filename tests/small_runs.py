"""Two small corpora that go through the real data stages, in two shards each.

The corpus ``c4`` has pages that C4's rules drop and near duplicates; ``plain``, uncleaned, has a cluster of exact and
near duplicates over both shards.
"""

import dataclasses
import functools
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

from headrace.pipeline.command_line import request
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.documents import document_path
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run, plan, save
from tests.stage_run import run_here

WORDS = tuple("river water mill wheel stone grain flour channel gate power bread town season winter".split())  # noqa: SIM905


def page(seed: int) -> str:
    """Twelve sentences on one line."""
    random_words = random.Random(seed)
    starts = (" ".join(random_words.choice(WORDS) for _ in range(9)).capitalize() for _ in range(12))
    return " ".join(f"{start} is what the people of this quiet valley remember." for start in starts)


def pages(first_seed: int, host: str) -> list[dict[str, str]]:
    return [{"text": page(first_seed + n), "url": f"https://{host}.example/?page={n}"} for n in range(12)]


def c4_corpus() -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    first, second = pages(0, "a"), pages(100, "b")
    second[2]["text"] = "Too short."
    second[3]["url"] = first[3]["url"]
    second[4]["text"] = first[5]["text"] + " Once more."
    second[6]["text"] = "menu \x1b[31m\nhome\n" + second[6]["text"]
    second[7]["text"] = "A page with { curly brackets.\n" + second[7]["text"]
    return first, second


def plain_corpus() -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    first, second = pages(200, "c"), pages(300, "d")
    first[4]["text"] = second[0]["text"] = first[1]["text"]
    second[9]["text"] = first[1]["text"] + " One sentence more than the others."
    second[10]["text"] = ""
    second[11]["text"] = "\x1b]0;owned\x07 \u202e\n" + second[11]["text"]
    return first, second


TRAINING = [
    "until=weights", "model.layers=1", "model.width=16", "model.heads=2", "model.kv_heads=2", "model.mlp_width=32",
    "model.context=128", "training.batch_rows=4", "training.micro_batch_rows=4", "training.precision=fp32",
    "training.device=cpu", "training.save_every=2", "training.keep_last=9", "tracking.wandb=off", "zero.stage=0",
    "schedule=wsd", "schedule.warmup_steps=1", "schedule.decay_fraction=0",
]  # fmt: skip
"""The settings of a training of a tiny model on a small corpus, at a constant rate after its first step."""


@dataclasses.dataclass(frozen=True)
class Corpus:
    run: Run
    folder: Path
    """The folder of its files."""
    first: ClassVar[str] = "a.jsonl"
    """The name of the file of shard 0."""
    second: ClassVar[str] = "second.jsonl"

    @property
    def config(self) -> RunConfig:
        return self.run.config

    @property
    def steps(self) -> list[PlannedStage]:
        return list(self.run.stages)

    @property
    def overrides(self) -> list[str]:
        return list(self.run.overrides)

    def artifact(self, stage: str) -> Artifact:
        return next(Artifact(step.folder) for step in self.steps if step.name == stage)

    def why(self, word: str) -> list[tuple[str, str]]:
        return list(document_path.document_facts(self.steps, word))

    def values(self, word: str, name: str) -> list[str]:
        return [value for key, value in self.why(word) if key == name]


def overrides(folder: Path, cleaning: str) -> list[str]:
    """The settings of a small run below ``folder``: each file is a shard, a row is shorter than a page, and the shards
    are packed together where nothing is cleaned."""
    return [
        "source=jsonl", f"source.paths=[{folder}/a.jsonl,{folder}/second.jsonl]", "source.task_bytes=1",
        f"root={folder}/runs", f"cleaning={cleaning}", "tokenizer.vocabulary_size=300", "until=packed",
        "packing.row_tokens=128", "packing.validation_fraction=0.4",
        f"packing.group_shards={2 if cleaning == 'none' else 1}",
    ]  # fmt: skip


@functools.cache
def finished(cleaning: str) -> "tempfile.TemporaryDirectory[str]":
    """The folder of a corpus with its run, made once in this process. Tests work on copies (``build``)."""
    folder = tempfile.TemporaryDirectory()
    shards = c4_corpus() if cleaning == "c4" else plain_corpus()
    for name, rows in zip((Corpus.first, Corpus.second), shards, strict=True):
        Path(folder.name, name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_with(Path(folder.name), overrides(Path(folder.name), cleaning))
    return folder


def build(folder: Path, cleaning: str) -> Corpus:
    """Returns a run of its own below ``folder``: ``c4_corpus`` if ``cleaning`` is "c4", ``plain_corpus`` if "none"."""
    shutil.copytree(finished(cleaning).name, folder, dirs_exist_ok=True)
    return planned(folder, overrides(folder, cleaning))


def planned(folder: Path, settings: list[str]) -> Corpus:
    values = compose(settings)
    config = decoded(values)
    return Corpus(Run(config, values, plan(config)[:-1], settings), folder)  # without the report


def run_with(folder: Path, settings: list[str]) -> Corpus:
    """Runs the data stages of ``settings``."""
    corpus = planned(folder, settings)
    for step in corpus.steps:
        run_here(step.stage, {name: Artifact(path) for name, path in step.inputs.items()}, step.folder)
    return corpus


def with_more(corpus: Corpus, more: list[str], tokenizer: Path) -> Corpus:
    """Returns the uncleaned ``corpus`` with the settings ``more``, its tokens made with the file ``tokenizer``."""
    own = [override for override in corpus.overrides if not override.startswith("tokenizer.")]
    return run_with(corpus.folder, [*own, *more, "tokenizer=file", f"tokenizer.path={tokenizer}"])


def training_of(corpus: Corpus, *more: str) -> Run:
    """Returns the planned run of a small training on ``corpus``."""
    words = [*corpus.overrides, *TRAINING, *more]
    return request.planned(request.composed(words), words)


def trained(run: Run) -> Run:
    """Trains the weights of ``run`` in this process and saves it."""
    (step,) = (step for step in run.stages if step.name == "weights")
    run_here(step.stage, {name: Artifact(folder) for name, folder in step.inputs.items()}, step.folder)
    save(run.config, run.values, run.stages, run.overrides)
    return run
