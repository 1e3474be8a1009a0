"""Chooses questions of benchmarks that the model answered right and wrong, and reads the texts that it wrote.

scores/…/samples/piqa.jsonl             {"name": "piqa.jsonl:7", "prompts": ["…"], "continuations": ["…", "…"], …}
scores/…/samples/continuations.jsonl    {"name": "00003:17", "prompts": ["…"], "written": ["…", "…"], …}
    ──> the prompt, the greedy text, the sampled text, the document's own text
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.documents.samples import CHARACTERS
from headrace.pipeline.report.formatting import visible
from headrace.train.evaluation.score_rows import BenchmarkScores, split_filter

PER_BENCHMARK = 24
MAX_QUESTIONS = 480
"""The number of questions of all benchmarks; each takes about 2 kB of the page."""
PROMPT_CHARACTERS = 400


@dataclasses.dataclass(frozen=True)
class Choice:
    """A choice of a question: the log-likelihood of its text, whether it is right, and whether the model chose it."""

    text: str
    log_likelihood: str
    right: bool
    chosen: bool


@dataclasses.dataclass(frozen=True)
class AnsweredQuestion:
    """An item of a benchmark with the model's answers."""

    benchmark: str
    name: str
    verdict: str
    """``right`` or ``wrong``; empty when the main metric has other values."""
    overlap: str
    """``clean``, ``dirty`` or ``too short``; empty when overlaps were not searched for."""
    prompt: str
    choices: list[Choice]


def records(artifact: Artifact, scores: BenchmarkScores) -> list[dict[str, Any]]:
    """Returns the lines of samples/*.jsonl of a benchmark; none where it has no samples."""
    name = f"samples/{scores.name}.jsonl"
    if name not in artifact.manifest["files"]:
        return []
    return [orjson.loads(line) for line in artifact.path(name).read_bytes().splitlines()]


def questions(artifact: Artifact, benchmarks: Sequence[BenchmarkScores]) -> list[AnsweredQuestion]:
    """Returns the first right and the first wrong questions of each benchmark with text, equally many if possible."""
    number = max(2, min(PER_BENCHMARK, MAX_QUESTIONS // max(1, len(benchmarks))))
    shown = []
    for scores in benchmarks:
        asked = [record for record in records(artifact, scores) if record["continuations"] or record.get("written")]
        answered = [_question(scores, record) for record in asked]
        shown += [answered[index] for index in _chosen([question.verdict for question in answered], number)]
    return shown


def _chosen(verdicts: Sequence[str], number: int) -> list[int]:
    """Returns the indices of ``number`` questions, in their order: the first of each verdict, in turn."""
    turns: dict[str, int] = {}
    ranks = []
    for index, verdict in enumerate(verdicts):
        turns[verdict] = turns.get(verdict, -1) + 1
        ranks.append((turns[verdict], index))
    return sorted(index for _, index in sorted(ranks)[:number])


def _question(scores: BenchmarkScores, record: Mapping[str, Any]) -> AnsweredQuestion:
    """Returns the question of a record of samples/*.jsonl.

    If each choice has a prompt of its own, the prompt precedes the choice. A written answer is shown as a choice,
    followed by the right answer.
    """
    prompts, texts, likelihoods = record["prompts"], record["continuations"], record["log_likelihoods"]
    shared = prompts[0] if len(prompts) == 1 else ""
    own_prompts = prompts if len(prompts) == len(texts) > 1 else [""] * len(texts)
    best = max(range(len(texts)), key=lambda i: likelihoods[i], default=None)
    verdict = _verdict(scores, record["outcome"])
    choices = [
        Choice(
            text=_end(prompt + text),
            log_likelihood=f"{likelihood:.2f}".replace("-", "−"),
            right=index == record["gold"],
            chosen=index == best if len(texts) > 1 else bool(record["greedy"][0]),
        )
        for index, (prompt, text, likelihood) in enumerate(zip(own_prompts, texts, likelihoods, strict=True))
    ]
    choices += [Choice(_end(text), "", right=verdict == "right", chosen=True) for text in record.get("written", ())]
    choices += [Choice(_end(text), "", right=True, chosen=False) for text in record.get("right_answers", ())[:1]]
    return AnsweredQuestion(
        benchmark=scores.name,
        name=visible(str(record["name"]), CHARACTERS),
        verdict=verdict,
        overlap=(record.get("overlap") or "").replace("_", " "),
        prompt=_end(shared),
        choices=choices,
    )


def _verdict(scores: BenchmarkScores, outcome: Mapping[str, float]) -> str:
    main = scores.metrics[0].name
    bare, _ = split_filter(main)
    return {1.0: "right", 0.0: "wrong"}.get(outcome.get(main, outcome.get(bare, 0.5)), "")


def _end(text: str) -> str:
    """Returns the end of ``text``: the answer depends on it most."""
    cut = len(text) > PROMPT_CHARACTERS
    return ("…" if cut else "") + visible(text[-PROMPT_CHARACTERS:], PROMPT_CHARACTERS)


GREEDY, SAMPLED, DOCUMENT = "model, greedy", "model, sampled", "document"
TEXT_CHARACTERS = 1_000
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
        shown = {label: visible(BLANK_LINES.sub("\n\n", text.strip()), TEXT_CHARACTERS) for label, text in texts}
        name = f"document {record['name']}" if DOCUMENT in shown else str(record["name"]).replace(":", " ")
        return cls(visible(name, TEXT_CHARACTERS), visible(record["prompts"][0], TEXT_CHARACTERS), shown)


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
        is_cut = len(text.prompt) > LINE_CHARACTERS
        yield ""
        yield _line(text.name, f"…{text.prompt[-LINE_CHARACTERS:]}" if is_cut else text.prompt)
        for label, written in text.texts.items():
            yield _line(f"  {label}", visible(written, LINE_CHARACTERS))


def _line(label: str, text: str) -> str:
    return f"{label:<20}{' '.join(text.split())}"
