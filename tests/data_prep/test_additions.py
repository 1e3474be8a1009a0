"""A new filter and a new source are one module, one line of the union and one configuration file each.

The test adds both to a copy of the project and uses them from the command line. No other file of the copy changes.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "headrace"

FILTER = '''
from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import count_removed, filter_settings
from headrace.data_prep.filters.filter import LineFilter, LineRule, apply_rules
from headrace.pipeline.core.settings import settings


@settings
class Shouting(LineRule):
    """Removes lines that end in exclamation marks."""

    type: Literal["shouting"] = "shouting"
    marks: str = "!"

    def apply(self, line: str) -> str | None:
        return None if line.endswith(self.marks) else line


@filter_settings
class QuietLines(LineFilter):
    """Removes shouting lines and drops pages that have no other lines."""

    type: Literal["quiet_lines"] = "quiet_lines"
    rules: tuple[Shouting, ...] = (Shouting(),)

    def judge(self, document: Document) -> Drop | None:
        lines = document.text.split("\\n")
        kept = [line for line in lines if apply_rules(self.rules, line)[1] is None]
        if not kept:
            return Drop(f"{self.type}.empty", lines[0])
        count_removed(document, self.reason("shouting"), len(lines) - len(kept))
        document.text = "\\n".join(kept)
        return None
'''

SOURCE = '''
from collections.abc import Iterator
from typing import Literal

from datatrove.data import Document

from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.source import Record
from headrace.pipeline.core.settings import settings


@settings
class PlainText(FileSource):
    """Text files, in which blank lines separate the documents."""

    type: Literal["plain_text"] = "plain_text"

    def suffixes(self) -> tuple[str, ...]:
        return (".txt",)

    def read(self, name: str) -> Iterator[Record]:
        with self.open(name) as stream:
            for number, text in enumerate(stream.read().decode().strip().split("\\n\\n")):
                yield Document(text, f"{name}:{number}", metadata={"url": ""}), None
'''


def add_to_table(file: Path, line: str, last: str) -> None:
    """Adds ``line`` to the table of kinds after that of the class ``last``, as a person edits the file."""
    text = file.read_text(encoding="utf-8")
    assert text.count(f':{last}",\n') == 1
    file.write_text(text.replace(f':{last}",\n', f':{last}",\n        {line},\n'))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of the project with a filter ``quiet_lines`` and a source ``plain_text``."""
    folder = tmp_path_factory.mktemp("project")
    copy = folder / "headrace"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    filters, sources = copy / "data_prep" / "filters", copy / "data_prep" / "sources"
    (filters / "quiet_lines.py").write_text(FILTER)
    (sources / "plain_text.py").write_text(SOURCE)
    line = '"quiet_lines": "headrace.data_prep.filters.quiet_lines:QuietLines"'
    add_to_table(filters / "__init__.py", line, "MaskPii")
    line = '"plain_text": "headrace.data_prep.sources.plain_text:PlainText"'
    add_to_table(sources / "__init__.py", line, "Warc")
    (copy / "conf/cleaning/quiet.yaml").write_text(
        "filters:\n  - {type: quiet_lines, rules: [{type: shouting, marks: '!'}]}\nbuckets: 16\n"
    )
    (copy / "conf/source/plain_text.yaml").write_text("type: plain_text\npaths: []\ntask_bytes: 64_000_000\n")
    (folder / "pages.txt").write_text("The mill stands.\nBUY NOW!\n\nBUY NOW!\n\nThe wheel turns.\n")
    return folder


def headrace(project: Path, *arguments: str) -> str:
    """Runs the copy's command line: ``python -m`` finds the package in the current folder first."""
    overrides = ["source=plain_text", "source.paths=[pages.txt]", "cleaning=quiet", "until=clean", "workers=1"]
    command = [sys.executable, "-m", "headrace", *arguments, *overrides]
    environment = os.environ | {"WANDB_MODE": "disabled"}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_new_filter_and_a_new_source_need_no_other_file(project: Path) -> None:
    """The run counts the filter's reasons, and ``inspect`` marks the lines that its rule removed."""
    headrace(project)
    shown = headrace(project, "inspect", "clean").splitlines()
    facts = [tuple(line.split(None, 1)) for line in shown if line]
    assert ("id", "pages.txt:0") in facts
    assert ("id", "pages.txt:2") in facts
    assert "quiet_lines.empty" in {value.split()[0] for _, *rest in facts for value in rest}
    assert any("quiet_lines.shouting" in line and "BUY NOW!" in line for line in shown)
