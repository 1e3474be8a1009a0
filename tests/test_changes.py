"""Ordinary changes touch the places that docs/architecture.md names, and no others (section 5 there).

Each change is made in one copy of the project as a person makes it: new files, and one line of a table. All of them are
then used through the settings, the command line and the Python API.
"""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "headrace"
Line = tuple[str, str, str]
"""The file of a table, the member after which the new one is written, the import or the text that goes with it."""


@dataclasses.dataclass(frozen=True)
class Change:
    """One change: its new files, and the lines that it adds to files that are there."""

    files: Mapping[str, str]
    lines: tuple[Line, ...] = ()


def subclass(module: str, base: str, name: str, type_name: str) -> str:
    """Returns a module with a class of another type that does what ``base`` does."""
    return f'''"""A stub."""

from typing import Literal

from headrace.pipeline.core.settings import settings
from headrace.{module} import {base}


@settings
class {name}({base}):
    """The stub {type_name}."""

    type: Literal["{type_name}"] = "{type_name}"
'''


def member(file: str, after: str, module: str, name: str) -> Line:
    return file, after, f"from headrace.{module} import {name}"


def kind(file: str, after: str, tag: str, module: str, name: str) -> Line:
    """Returns the line of a table of kinds after the line that ends in ``after``."""
    return file, f'{after}",', f'        "{tag}": "headrace.{module}:{name}",'


COMMAND = '''"""``headrace greet``: greets.

headrace greet Anna
"""

from collections.abc import Sequence

import click

from headrace.pipeline.command_line.declaration import command


@command
@click.argument("name", metavar="NAME")
def greet(overrides: Sequence[str], name: str) -> None:
    """Greets NAME."""
    print(f"Hello {name}")
'''
FAMILY = '''"""A stub."""

from headrace.train.families.gpt2 import Gpt2


class Twin(Gpt2):
    """GPT-2 by another name."""

    model_type = "twin"
'''
STUDY = """title: A stub
question: Is one rate better?
expectation: No.
overrides: [experiment=demo]
arms:
  slow: [optimizer.learning_rate=1e-4]
  fast: [optimizer.learning_rate=1e-3]
sizes: {tiny: [training.steps=2], small: [], paper: []}
held_equal: [tokens]
measures: {loss: validation_loss}
claims:
  - {claim: The higher rate is better., rising: [fast, slow]}
"""
STAGE = '''"""A stub."""

import dataclasses
from typing import ClassVar

from headrace.pipeline.core.stage import Phase, Stage
from headrace.pipeline.core.stage import DocumentCounts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Polished(Stage):
    """A stage."""

    name: ClassVar[str] = "polished"
    inputs: ClassVar[tuple[str, ...]] = ("unique",)
    headline: ClassVar[tuple[str, ...]] = ("documents_in", "kept")
    describes_documents: ClassVar[bool] = True
    document_counts: ClassVar[DocumentCounts | None] = DocumentCounts(
        read="documents_in",
        unit="documents",
        text_bytes="bytes",
        dropped_title="too dull",
        kept_title="polished",
        kept_short="polished",
    )

    def phases(self, shards):
        return (Phase("polished", shards["unique"], None),)
'''
OBJECTIVES, OPTIMIZERS = "train/objectives/__init__.py", "train/engine/optimizers/__init__.py"
KINDS, FORMATS = "train/finetune/tasks/__init__.py", "train/finetune/files/__init__.py"
EVALUATION, CLUSTERS = "train/evaluation/benchmarks/__init__.py", "pipeline/clusters/__init__.py"
CHANGES = {
    "objective": Change(
        {
            "train/objectives/stub.py": subclass("train.objectives.causal", "Causal", "Onward", "onward"),
            "conf/objective/onward.yaml": "# A stub.\ntype: onward\n",
        },
        (kind(OBJECTIVES, ":Reconstruction", "onward", "train.objectives.stub", "Onward"),),
    ),
    "optimizer": Change(
        {
            "train/engine/optimizers/stub.py": subclass("train.engine.optimizers.adamw", "AdamW", "Steady", "steady"),
            "conf/optimizer/steady.yaml": "# A stub.\ndefaults: [adamw]\ntype: steady\n",
        },
        (kind(OPTIMIZERS, ":StableAdamW", "steady", "train.engine.optimizers.stub", "Steady"),),
    ),
    "tokenizer": Change(
        {
            "data_prep/tokenization/stub.py": subclass(
                "data_prep.tokenization.made_tokenizers", "Bytes", "Octets", "octets"
            ),
            "conf/tokenizer/octets.yaml": "# A stub.\ndefaults: [byte]\ntype: octets\n",
        },
        (kind("data_prep/tokenizer.py", ":Bytes", "octets", "data_prep.tokenization.stub", "Octets"),),
    ),
    "benchmark": Change(
        {
            "train/evaluation/benchmarks/stub.py": subclass(
                "train.evaluation.benchmarks.minimal_pairs", "Agreement", "Accord", "accord"
            )
        },
        (kind(EVALUATION, ":Agreement", "accord", "train.evaluation.benchmarks.stub", "Accord"),),
    ),
    "task to fine-tune": Change(
        {
            "train/finetune/tasks/stub.py": subclass(
                "train.finetune.tasks.labels", "Classification", "Sorting", "sorting"
            )
        },
        (kind(KINDS, ":SpanTask", "sorting", "train.finetune.tasks.stub", "Sorting"),),
    ),
    "format of examples": Change(
        {"train/finetune/files/stub.py": subclass("train.finetune.files.published", "Glue", "Paste", "paste")},
        (kind(FORMATS, ":Squad", "paste", "train.finetune.files.stub", "Paste"),),
    ),
    "cluster": Change(
        {
            "pipeline/clusters/stub.py": subclass("pipeline.clusters.base", "Local", "Here", "here"),
            "conf/cluster/here.yaml": "# A stub.\ntype: here\n",
        },
        (kind(CLUSTERS, ":Slurm", "here", "pipeline.clusters.stub", "Here"),),
    ),
    "model family": Change(
        {"train/families/stub.py": FAMILY},
        (kind("train/families/registry.py", ":Gpt2", "twin", "train.families.stub", "Twin"),),
    ),
    "position scheme": Change(
        {},
        (
            ("train/parts.py", '"none"]', '"same"'),
            ("train/parts.py", '"none": PositionsFacts(vectors_per_position=0),', '"same": PositionsFacts(1),'),
            ("train/model/positions.py", '"none": Positions,', '"same": LearnedPositions,'),
        ),
    ),
    "metric": Change(
        {},
        (
            (
                "train/evaluation/score_rows.py",
                'MetricKind("repeated_4grams", higher_is_better=False),',
                'MetricKind("stub"),',
            ),
        ),
    ),
    "command": Change(
        {"pipeline/commands/greet.py": COMMAND}, (("pipeline/command_line/group.py", '"mirror",', '"greet",'),)
    ),
    "study": Change({"conf/study/stub.yaml": STUDY}),
    "stage": Change(
        {"data_prep/stub.py": STAGE}, (member("pipeline/stages.py", "Tokens()", "data_prep.stub", "Polished"),)
    ),
    "column of the funnel": Change(
        {}, (("pipeline/report/funnel.py", "COLUMNS = (", 'FunnelColumn("stub", "stubs", lambda step: 7.0, count),'),)
    ),
    "name of the Python API": Change(
        {"pipeline/api/stub.py": '"""A stub."""\n\nANSWER = 42\n'},
        (("__init__.py", "_HOMES = {", '"pipeline.api.stub": ("ANSWER",),'),),
    ),
}
USE = """
import json
import headrace
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.experiments.study_file import read_study
from headrace.train.evaluation.score_rows import kind_of
from headrace.train.families.registry import family_of_type
from headrace.train.model.positions import POSITIONS

config = config_of([
    "objective=onward", "optimizer=steady", "tokenizer=octets", "cluster=here", "model.positions=same",
    "evaluation.benchmarks={one: {type: accord}}", "finetune=own", "finetune.task.type=sorting",
    "finetune.task.format={type: paste, task: sst2}", "finetune.train=[a.tsv]", "finetune.validation=[b.tsv]",
])
print(json.dumps({
    "objective": config.objective.type, "optimizer": config.optimizer.type, "tokenizer": config.tokenizer.type,
    "cluster": config.cluster.type, "benchmark": config.evaluation.benchmarks["one"].type,
    "task to fine-tune": config.finetune.task.type, "format of examples": config.finetune.task.format.type,
    "position scheme": type(POSITIONS["same"](config.model)).__name__, "metric": kind_of("stub").name,
    "model family": type(family_of_type("twin")).__name__, "name of the Python API": headrace.ANSWER,
    "study": read_study("stub").title,
}))
"""
USED = {
    "objective": "onward",
    "optimizer": "steady",
    "tokenizer": "octets",
    "cluster": "here",
    "benchmark": "accord",
    "task to fine-tune": "sorting",
    "format of examples": "paste",
    "position scheme": "LearnedPositions",
    "metric": "stub",
    "model family": "Twin",
    "name of the Python API": 42,
    "study": "A stub",
}


def write_line(copy: Path, line: Line) -> None:
    """Adds a member to a table after another one, with its import, or a text on the line below."""
    name, after, added = line
    text = (copy / name).read_text(encoding="utf-8")
    assert text.count(after) == 1, line
    if added.startswith("from "):
        new = added.rpartition(" ")[2]
        new = f"{new}()" if after.endswith("()") else f"| {new}"
        text = text.replace(after, f"{after}, {new}" if after.endswith("()") else f"{after} {new}")
        text = text.replace("\nfrom headrace", f"\n{added}\nfrom headrace", 1)
    elif after.endswith("]"):
        text = text.replace(after, f"{after[:-1]}, {added}]")
    else:
        text = text.replace(after, f"{after}\n{added}")
    (copy / name).write_text(text, encoding="utf-8")


FUNNEL = """
import json
from collections import Counter
from types import SimpleNamespace
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.run.run_state import headline
from headrace.pipeline.report.funnel import funnel
from headrace.pipeline.report.cleaning_section import funnel_section
from headrace.pipeline.run.summary import funnel_lines

counts = {
    "texts": {"records_in": 9, "kept": 8, "dropped:no_text": 1},
    "polished": {"documents_in": 8, "kept": 5, "dropped:dull": 3, "bytes": 40},
}
artifacts = {stage: SimpleNamespace(counts=Counter(own)) for stage, own in counts.items()}
section = funnel_section(artifacts)
print(json.dumps({
    "page": [section["table"].header, *section["table"].rows], "terminal": list(funnel_lines(artifacts)),
    "status": headline("polished", artifacts["polished"].counts),
    "API": [vars(row) for stage in funnel(artifacts) for row in stage.rules],
}))
"""
FACTS = Path(__file__).with_name("pipeline") / "test_stage_facts.py"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of the project with all changes."""
    folder = tmp_path_factory.mktemp("project")
    copy = folder / "headrace"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for change in CHANGES.values():
        for name, text in change.files.items():
            (copy / name).write_text(text, encoding="utf-8")
        for line in change.lines:
            write_line(copy, line)
    return folder


def python(project: Path, *arguments: str) -> str:
    """Runs Python in the folder of the copy, which is imported first from there."""
    environment = {**os.environ, "PYTHONSAFEPATH": "", "WANDB_MODE": "disabled"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_each_change_is_used_though_no_other_file_knows_it(project: Path) -> None:
    assert json.loads(python(project, "-c", USE)) == USED


def test_a_command_is_found(project: Path) -> None:
    assert python(project, "-m", "headrace", "greet", "Anna") == "Hello Anna\n"
    assert "\n  greet " in python(project, "-m", "headrace", "--help")


@pytest.mark.slow
def test_a_stage_is_known_everywhere_after_its_facts_are_written(project: Path) -> None:
    """Its class and its line of stages.py are all that is written by hand."""
    python(project, "-c", f"import runpy; runpy.run_path({str(FACTS)!r}, run_name='__main__')")
    shown = json.loads(python(project, "-c", FUNNEL))
    assert shown["page"] == [
        ["step", "stubs", "documents", "of all records", "bytes of text"],
        ["records read", "7", "9", "100.0 %", ""],
        ["readable", "7", "8", "88.9 %", ""],
        ["polished", "7", "5", "55.6 %", "40"],
    ]
    assert [line.split()[:2] for line in shown["terminal"][-2:]] == [["too", "dull"], ["polished", "5"]]
    assert shown["status"] == "8 documents in, 5 kept"
    assert shown["API"][-1] == {"stage": "polished", "rule": "dull", "dropped": 3, "documents": 8, "share": 3 / 8}
    root = project / "runs"
    (root / "polished" / "0123456789ab" / "parts").mkdir(parents=True)
    assert "polished" in python(project, "-m", "headrace", "du", f"root={root}")
    pages = project / "pages.jsonl"
    pages.write_text('{"text": "One page."}\n', encoding="utf-8")
    settings = ("source=jsonl", f"source.paths=[{pages}]", "until=polished", f"root={root}")
    rows = python(project, "-m", "headrace", "status", *settings).splitlines()
    assert [row.split()[0] for row in rows[-3:]] == ["tokens", "polished", "report"]
