"""The commands that a user is likely to type after a run: they are printed below its results, ready to be copied.

headrace inspect clean --rule c4_lines.sentences      what the rule that dropped most documents dropped
headrace why pages.jsonl:2                            what became of one document
headrace generate --prompt "Once upon a time"         after a training
headrace experiment=demo                              the rest of the stages, after until=…
"""

import itertools
import shlex
from collections.abc import Iterator, Mapping

from headrace.data_prep.document import read_documents
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.report.count_rows import count_rows
from headrace.pipeline.report.document_samples import names
from headrace.pipeline.report.report import Report
from headrace.pipeline.run.planner import Run


def next_commands(run: Run, artifacts: Mapping[str, Artifact]) -> Iterator[str]:
    """Yields two or three commands about ``run``, whose finished ``artifacts`` are given by stage."""
    root = [override for override in run.overrides if override.startswith("root=")]
    if "weights" in artifacts:
        yield shlex.join(["headrace", "generate", "--prompt", "Once upon a time", *root])
    if "clean" in artifacts:
        rules = count_rows(artifacts["clean"].counts, "dropped:", 0)
        rule = ["--rule", rules[0].name] if rules else []
        yield shlex.join(["headrace", "inspect", "clean", *rule, *root])
        for document in _first_document(artifacts["clean"]):
            yield shlex.join(["headrace", "why", document, *root])
    if run.config.until != Report.name:
        others = [override for override in run.overrides if not override.startswith("until=")]
        yield shlex.join(["headrace", *(others or ["run"])])


def _first_document(clean: Artifact) -> list[str]:
    """Returns the id of the first document that cleaning kept; nothing when it kept none in its first shard.

    The shard is not verified: only its beginning is read.
    """
    first = [clean.folder / name for name in names(clean, "documents")[:1]]
    return [document.id for path in first for document in itertools.islice(read_documents(path), 1)]
