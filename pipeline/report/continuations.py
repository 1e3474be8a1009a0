"""Reads the texts that the model wrote, for the page and the terminal.

scores/…/samples/continuations.jsonl    {"name": "00003:17", "prompts": ["…"], "written": ["…", "…"], …}
    ──> the prompt, the greedy text, the sampled text, the document's own text
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.report.formatting import visible
from headrace.pipeline.report.questions import records
from headrace.train.evaluation.score_rows import BenchmarkScores

GREEDY, SAMPLED, DOCUMENT = "model, greedy", "model, sampled", "document"
CHARACTERS = 1_000
BLANK_LINES = re.compile(r"\n\s*\n")
LINE_CHARACTERS = 160
"""The length of a text in the terminal."""


@dataclasses.dataclass(frozen=True)
class Continuation:
    """A prompt and the texts after it."""

    name: str
    """The held-out document, or the prompt's number."""
    prompt: str
    texts: Mapping[str, str]
    """Label → text; ``DOCUMENT`` is what the document really says there."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Continuation":
        """Returns the texts of a record of samples/*.jsonl."""
        texts = zip((GREEDY, SAMPLED, DOCUMENT), [*record["written"], *record["right_answers"]], strict=False)
        shown = {label: visible(BLANK_LINES.sub("\n\n", text.strip()), CHARACTERS) for label, text in texts}
        name = f"document {record['name']}" if DOCUMENT in shown else str(record["name"]).replace(":", " ")
        return cls(visible(name, CHARACTERS), visible(record["prompts"][0], CHARACTERS), shown)


@dataclasses.dataclass(frozen=True)
class WrittenTexts:
    """The texts of one benchmark."""

    sampling: str
    """The settings of the sampled texts, as text."""
    texts: list[Continuation]


def written_texts(artifact: Artifact, benchmarks: Sequence[BenchmarkScores]) -> list[WrittenTexts]:
    """Returns the texts in ``artifact`` of each of ``benchmarks``, which have the type ``continuations``."""
    written = []
    for scores in benchmarks:
        settings = artifact.settings["evaluation"]["benchmarks"][scores.name]
        sampling = f"temperature {settings['temperature']}, top-p {settings['top_p']}, seed {settings['seed']}"
        written.append(WrittenTexts(sampling, [Continuation.of(record) for record in records(artifact, scores)]))
    return written


def in_short(benchmarks: Sequence[WrittenTexts]) -> Iterator[str]:
    """Yields lines for the terminal: the first texts after the beginning of a document, and after a prompt."""
    texts = [text for benchmark in benchmarks for text in benchmark.texts]
    of_documents = [text for text in texts if DOCUMENT in text.texts]
    of_prompts = [text for text in texts if DOCUMENT not in text.texts]
    for text in of_documents[:1] + of_prompts[:1]:
        prompt = text.prompt
        yield ""
        yield _line(text.name, "…" * (len(prompt) > LINE_CHARACTERS) + prompt[-LINE_CHARACTERS:])
        for label, written in text.texts.items():
            yield _line(f"  {label}", visible(written, LINE_CHARACTERS))


def _line(label: str, text: str) -> str:
    return f"{label:<20}{' '.join(text.split())}"
