"""``headrace verify``: checks a release: checksums, documents, data, training and scores.

headrace verify small-1.0                       with the data below the default root, if it is there
headrace verify small-1.0 root=/data/runs       with the data below another root
headrace verify small-1.0 --seed 7              the shards and the benchmark that the seed 7 draws

    files            verified       47 files have their checksums in SHA256SUMS
    data clean       not verified   runs/clean/62a9aaa0bbe5 is not there; give root=FOLDER, or headrace mirror pull it
    shard of clean   DIFFERS        documents/00003.jsonl.zst has other bytes

Every file is compared with its checksum, every address with what it hashes, every document with what the artifacts
give, the model with the last checkpoint. One random shard of each data stage is computed again from the inputs that it
names. Exit status 1: something differs. What could not be verified has its reason, and does not change the status.

Somebody who writes new checksums is found by what is made again alone, or by a signature of the author:
``ssh-keygen -Y sign -n file -f KEY small-1.0/SHA256SUMS`` makes one, ``ssh-keygen -Y verify`` compares it. Settings in
a release may name code: verify only releases whose authors you trust.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.choice import root_of
from headrace.pipeline.command_line.declaration import command, load
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.settings import Seed, value_of
from headrace.pipeline.output import terminal
from headrace.pipeline.papers.stored_files import OTHER, SAME, UNCHECKED, Finding


@command
@click.argument("folder", metavar="DIR", type=click.Path())
@click.option("--seed", metavar="N", default="", help="The seed of what is drawn; another one each time without it.")
def verify(overrides: Sequence[str], folder: str, seed: str) -> None:
    """Checks a release: its files, documents and data, a shard of each stage, steps of the training, and scores."""
    drawn = int(value_of(Seed, seed, "--seed")) if seed else secrets.randbelow(10**6)
    findings: list[Finding] = []
    for finding in load("papers.release_checks").findings(Path(folder), Path(root_of(overrides)), drawn):
        findings.append(finding)
        terminal.show([(finding.subject, f"{finding.outcome:<{len(UNCHECKED)}}  {finding.text}")])
    numbers = {outcome: sum(own.outcome == outcome for own in findings) for outcome in (SAME, OTHER, UNCHECKED)}
    summary = ", ".join(f"{number} {outcome}" for outcome, number in numbers.items())
    terminal.show([("checks", f"{summary}; seed {drawn}")])
    if numbers[OTHER]:
        raise ArtifactError(folder, f"differs in {numbers[OTHER]} of {len(findings)} checks", "do not rely on it")
