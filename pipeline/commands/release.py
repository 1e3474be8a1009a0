"""``headrace release``: gives a run to others: model, checkpoints, scores, samples of data, and what they follow from.

headrace release small --to small-1.0                     the run small
headrace release --to demo-release                        your newest run
headrace release --check small-1.0                        compares a release with itself, and with data below the root
headrace release --check small-1.0 root=/data/runs        with the data below another root
headrace release --check small-1.0 --seed 7               the shards and the benchmark that the seed 7 draws

DIR has the model card, the Hugging Face folder of the weights, each checkpoint that was kept with its optimizer state,
the scores with all answers, samples of kept and dropped pages as Parquet, the manifest of each stage, run.json, the
environment with hashes, and REPRODUCE.md. SHA256SUMS has the checksum of every file (docs/formats.md). The texts are
not in DIR: others may have rights to them. ``headrace mirror push RUN DIR/artifacts`` adds them.

    files            verified       47 files have their checksums in SHA256SUMS
    data clean       not verified   runs/clean/62a9aaa0bbe5 is not there; give root=FOLDER, or headrace mirror pull it
    shard of clean   DIFFERS        documents/00003.jsonl.zst has other bytes

--check compares every file with its checksum, every address with what it hashes, every document with what the artifacts
give, the model with the last checkpoint. One random shard of each data stage is computed again from the inputs that it
names. Exit status 1: something differs. What could not be verified has its reason, and does not change the status.

Somebody who writes new checksums is found by what is made again alone, or by a signature of the author:
``ssh-keygen -Y sign -n file -f KEY small-1.0/SHA256SUMS`` makes one, ``ssh-keygen -Y verify`` compares it. Settings in
a release may name code: check only releases whose authors you trust.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.choice import root_of
from headrace.pipeline.command_line.declaration import command, load, run_argument
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import Seed, value_of
from headrace.pipeline.output import terminal
from headrace.pipeline.papers.stored_files import OTHER, SAME, UNCHECKED, Finding


@command
@run_argument
@click.option("--to", metavar="DIR", default="", help="The new folder.")
@click.option("--check", metavar="DIR", default="", type=click.Path(), help="Check the release in this folder.")
@click.option("--seed", metavar="N", default="", help="The seed of what --check draws; another each time without it.")
def release(overrides: Sequence[str], run: str, to: str, check: str, seed: str) -> None:
    """Writes a run with its model, checkpoints, scores, cards and samples to a folder for others; or checks one."""
    if bool(to) == bool(check) or (check and run) or (seed and not check):
        raise ConfigError("release", "takes one folder", "write headrace release [RUN] --to DIR, or --check DIR")
    if check:
        show_checks(
            check, root_of(overrides), int(value_of(Seed, seed, "--seed")) if seed else secrets.randbelow(10**6)
        )
    else:
        run_of = load("command_line.request").run_of
        terminal.show(load("papers.release_writing").write_release(run_of(overrides, run), to))


def show_checks(folder: str, root: str, seed: int) -> None:
    """Prints each finding about the release in ``folder``, as soon as it is known.

    Raises:
        ArtifactError: when something differs.
    """
    findings: list[Finding] = []
    for finding in load("papers.release_checks").findings(Path(folder), Path(root), seed):
        findings.append(finding)
        terminal.show([(finding.subject, f"{finding.outcome:<{len(UNCHECKED)}}  {finding.text}")])
    numbers = {outcome: sum(finding.outcome == outcome for finding in findings) for outcome in (SAME, OTHER, UNCHECKED)}
    summary = ", ".join(f"{number} {outcome}" for outcome, number in numbers.items())
    terminal.show([("checks", f"{summary}; seed {seed}")])
    if numbers[OTHER]:
        raise ArtifactError(folder, f"differs in {numbers[OTHER]} of {len(findings)} checks", "do not rely on it")
