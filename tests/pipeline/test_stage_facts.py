"""The facts of all stages in stage_facts.json are those that their classes state. After a change, write them again:

python tests/pipeline/test_stage_facts.py
"""

import dataclasses
import json
import sys

import pytest

from headrace.pipeline import stages as line
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.stage import FACTS, FACTS_JSON, Stage
from headrace.pipeline.run.planner import stages_up_to
from headrace.train.scores import CheckpointScores, FolderScores

WITH_ALL_STAGES = (
    "classifier.examples=[{type: files, path: a.jsonl, label: a}, {type: files, path: b.jsonl, label: b}]",
    "dedup.repeated_words=50",
    *("finetune=sst2", "finetune.train=[a.tsv]", "finetune.validation=[b.tsv]"),
    *("+columns.scorers.words={type: length}", "selection.rules=[{type: threshold, column: words, min: 1}]"),
)
OUTSIDE_THE_LINE: tuple[type[Stage], ...] = (FolderScores, CheckpointScores)
"""The stages that no run has: commands make their artifacts."""
COMMAND = "python tests/pipeline/test_stage_facts.py"


def stage_classes() -> list[type[Stage]]:
    """Returns all stages: those of a run in the order of the line, then the others."""
    return [*map(type, stages_up_to(decoded(compose(WITH_ALL_STAGES)))), *OUTSIDE_THE_LINE]


def written() -> str:
    """Returns the text that the file should have."""
    return json.dumps([dataclasses.asdict(stage.facts()) for stage in stage_classes()], indent=1) + "\n"


def test_the_file_has_the_facts_of_the_classes() -> None:
    assert FACTS_JSON.read_text(encoding="utf-8") == written(), f"write them again: {COMMAND}"
    assert list(FACTS.values()) == [stage.facts() for stage in stage_classes()]


def test_no_stage_of_the_line_is_left_out() -> None:
    """A stage that is in the line with certain settings only needs them in ``WITH_ALL_STAGES``."""
    imported = {one for one in vars(line).values() if isinstance(one, type) and issubclass(one, Stage)}
    assert imported - {Stage} <= {*stage_classes()}


@pytest.mark.parametrize("stage", stage_classes(), ids=lambda stage: stage.name)
def test_the_counts_of_documents_are_of_stages_that_describe_documents(stage: type[Stage]) -> None:
    assert stage.describes_documents or stage.document_counts is None


if __name__ == "__main__":
    FACTS_JSON.write_text(written(), encoding="utf-8")
    sys.exit(0)
