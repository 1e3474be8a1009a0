"""A whole line that is small: text that C4's rules keep, made from a grammar, and a model of a few thousand weights."""

import dataclasses
import json
import os
import random
import subprocess
import sys
from pathlib import Path

NOUNS = ("river", "mill", "wheel", "farmer", "village", "bridge", "winter", "harvest", "stone", "garden", "teacher")
VERBS = ("carries", "follows", "remembers", "repairs", "crosses", "watches", "paints", "builds", "finds", "describes")
ADJECTIVES = ("old", "quiet", "narrow", "green", "broken", "famous", "early", "heavy", "small", "distant")
SETTINGS = (
    *(
        "source=jsonl",
        "source.task_bytes=200_000",
        "dedup.buckets=2",
        "tracking=file",
        "tokenizer.vocabulary_size=400",
        "packing.row_tokens=128",
        "packing.validation_fraction=0.05",  # of 300 documents whose ids hold a folder of each time: never none
    ),
    *(
        "model.layers=1",
        "model.width=32",
        "model.heads=2",
        "model.kv_heads=2",
        "model.mlp_width=64",
        "model.context=128",
    ),
    *("training.steps=8", "training.batch_rows=4", "training.micro_batch_rows=2", "training.validation_rows=4"),
    *("training.validate_every=4", "training.save_every=4", "schedule.warmup_steps=2"),
)
FILES = 2
RUN_SECONDS = 600


@dataclasses.dataclass(frozen=True)
class Line:
    """A run: its root, and its settings in addition to those above."""

    settings: tuple[str, ...]
    root: Path


def write_source(folder: Path) -> str:
    """JSONL files of 150 documents and five exact copies each; the setting that names them."""
    order = random.Random(0)
    folder.mkdir()
    for number in range(FILES):
        texts = [_document(order) for _ in range(150)]
        rows = [{"id": f"{number}-{i}", "text": text} for i, text in enumerate(texts + texts[:5])]
        (folder / f"part-{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"source.paths=[{folder}/*.jsonl]"


def _document(order: random.Random) -> str:
    return "\n".join(
        " ".join(_sentence(order) for _ in range(order.randint(2, 4))) for _ in range(order.randint(3, 12))
    )


def _sentence(order: random.Random) -> str:
    subject, place = order.choice(ADJECTIVES), order.choice(ADJECTIVES)
    nouns = [order.choice(NOUNS) for _ in range(3)]
    return f"The {subject} {nouns[0]} {order.choice(VERBS)} the {nouns[1]} near the {place} {nouns[2]}."


def headrace(*arguments: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Runs the command with the settings of the small line, in ``folder``."""
    command = [sys.executable, "-m", "headrace", *arguments[:1], *SETTINGS, *arguments[1:]]
    environment = os.environ | {"COLUMNS": "250"}  # a row of a table is a line
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, env=environment, cwd=folder)


def submit(*arguments: str, folder: Path | None = None) -> list[list[str]]:
    """Submits a job for each phase, unless ``arguments`` change that, in ``folder``.

    Returns:
        The table of jobs: stage, phase, tasks, job, the job that it waits for (none for the first), a note.
    """
    done = headrace("run", "cluster=slurm", "cluster.one_job=never", *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    return [row for row in rows if len(row) >= 5 and row[2].isdigit()]
