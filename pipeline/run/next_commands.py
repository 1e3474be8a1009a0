"""The commands that a user is likely to type after a run: they are printed below its results, ready to be copied.

headrace inspect clean --rule c4_lines.sentences --run small  what the rule that dropped most documents dropped
headrace why pages.jsonl:2 --run small                        what became of one document
headrace generate --prompt 'The function' --run small         after a training: first words of a held-out document
headrace fill 'The function [MASK]' --run small               the same after that of an encoder
headrace experiment=demo --config-dir presets                 the rest of the stages, after until=…

Each names the run, because the newest run may be another one when the command is typed.
"""

import itertools
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from headrace.data_prep.document import read_documents
from headrace.data_prep.packed import held_out
from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.report.about import start_command
from headrace.pipeline.report.count_rows import count_rows
from headrace.pipeline.report.documents.document_samples import names
from headrace.pipeline.report.report import Report
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.run_files import DEFAULT_ROOT, labels

NEUTRAL_PROMPT = "The"
PROMPT_WORDS, PROMPT_CHARACTERS = 4, 40
MAX_READ = 2_000
"""Documents that are read to find a held-out one; a hundredth of all documents is held out by default."""


def next_commands(run: Run, artifacts: Mapping[str, Artifact]) -> Iterator[str]:
    """Yields two or three commands about ``run``, whose finished ``artifacts`` are given by stage."""
    root = [f"root={run.config.root}"] if run.config.root != DEFAULT_ROOT else []
    of_run = ["--run", _label(run), *root]
    if "weights" in artifacts:
        prompt = _prompt(artifacts)
        fill = ["fill", f"{prompt} [MASK]"]
        generator = str(artifacts["weights"].folder / "hf" / "generator")
        uses = {"encoder": [*fill, *of_run], "discriminator": [*fill, "--model", generator]}
        use = uses.get(run.config.model.stack, ["generate", "--prompt", prompt, *of_run])
        yield shlex.join(["headrace", *use])
    if "clean" in artifacts:
        rules = count_rows(artifacts["clean"].counts, "dropped:", 0)
        rule = ["--rule", rules[0].name] if rules else []
        yield shlex.join(["headrace", "inspect", "clean", *rule, *of_run])
        for document in _first_document(artifacts["clean"]):
            yield shlex.join(["headrace", "why", document, *of_run])
    if run.config.until != Report.name:
        others = [override for override in run.overrides if not override.startswith("until=")]
        yield start_command(others, run.config_dir)


def _label(run: Run) -> str:
    """Returns the name of ``run`` if no other run below its root has it, else its id."""
    name = run.config.name
    return name if name and list(labels(Path(run.config.root))).count(name) == 1 else run.config.id


def _prompt(artifacts: Mapping[str, Artifact]) -> str:
    """Returns the first words of a held-out document, or ``NEUTRAL_PROMPT`` when no suitable one is found soon."""
    return next(filter(None, map(_beginning, _held_out_texts(artifacts))), NEUTRAL_PROMPT)


def _held_out_texts(artifacts: Mapping[str, Artifact]) -> Iterator[str]:
    """Yields texts of held-out documents among the first documents that remained; none if documents were forgotten.

    The shard is not verified: only its beginning is read.
    """
    if not artifacts.keys() >= {"unique", "packed"}:
        return
    packing = artifacts["packed"].settings["packing"]
    paths = [artifacts["unique"].folder / name for name in names(artifacts["unique"], "documents")[:1]]
    for path in paths if packing["forget"] is None else ():
        for document in itertools.islice(read_documents(path), MAX_READ):
            key = np.array(key_of("split", document.id), dtype=np.uint64)
            if held_out(key, packing["validation_fraction"]):
                yield document.text


def _beginning(text: str) -> str:
    """Returns the first words of the first line of ``text``; empty when they are too long or not printable."""
    words = text.strip().partition("\n")[0].split()[:PROMPT_WORDS]
    prompt = " ".join(words)
    is_usable = len(words) == PROMPT_WORDS and len(prompt) <= PROMPT_CHARACTERS and prompt.isprintable()
    return prompt if is_usable and not prompt.startswith("-") else ""


def _first_document(clean: Artifact) -> list[str]:
    """Returns the id of the first document that cleaning kept; nothing when it kept none in its first shard.

    The shard is not verified: only its beginning is read.
    """
    first = [clean.folder / name for name in names(clean, "documents")[:1]]
    return [document.id for path in first for document in itertools.islice(read_documents(path), 1)]
