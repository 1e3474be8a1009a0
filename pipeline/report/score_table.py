"""The scores of the page and the terminal: rows of scores.json, a figure, questions, and texts that the model wrote.

scores/…/samples/piqa.jsonl             {"name": "piqa.jsonl:7", "prompts": ["…"], "continuations": ["…", "…"], …}
scores/…/samples/continuations.jsonl    {"name": "00003:17", "prompts": ["…"], "written": ["…", "…"], …}
    ──> questions that were answered right and wrong; the prompt, the greedy text, the sampled text, the document's own
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.documents.samples import CHARACTERS
from headrace.pipeline.report.drawing import Figure
from headrace.pipeline.report.formatting import count, decimal, visible
from headrace.pipeline.report.score_figures import AccuracyMark, accuracies
from headrace.train.evaluation.benchmarks import BENCHMARKS
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric, read_scores, split_filter

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


HEADLINES = 3
CONTINUATIONS = "continuations"
"""The type of the benchmark whose answers are texts to be read."""
EMPTY = ("", "–")
"""Cells without a number."""


@dataclasses.dataclass(frozen=True)
class ScoreRow:
    """One metric of one benchmark, or of a group within it."""

    benchmark: BenchmarkScores
    metric: Metric

    @property
    def title(self) -> str:
        return f"{self.benchmark.base_name} {self.metric.name}".replace("_", " ")

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for rows that differ only in their shots."""
        return self.benchmark.base_name, self.metric.group, self.metric.name

    def text(self, value: float | None) -> str:
        """Returns ``value`` in the unit of this metric, with at most as many digits as its main value."""
        if value is None:
            return "–"
        kind = self.metric.kind
        if kind.unit:
            return f"{kind.scale * value:.1f}{kind.unit}"
        large = max(abs(self.metric.value), abs(value)) >= 100
        return decimal(value, 1 if large else 3)

    @property
    def cells(self) -> dict[str, str]:
        """The numbers of the row, by the heading of their column."""
        metric = self.metric
        parts = {"clean": metric.clean, "dirty": metric.dirty}
        shots = count(self.benchmark.shots) if self.benchmark.shots else ""
        error = None if metric.kind.is_exponential else metric.standard_error
        return {
            "shots": shots,
            "value": self.text(metric.value),
            "standard error": "" if error is None else f"± {self.text(error)}",
            "95 % interval": "–" if metric.interval is None else " to ".join(self.text(end) for end in metric.interval),
            "random": self.text(metric.random),
            "items": count(metric.items),
            **{name: f"{self.text(part.value)} ({count(part.items)})" if part else "–" for name, part in parts.items()},
        }


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    """The scores of a run, ready to be shown."""

    rows: list[ScoreRow]
    groups: list[ScoreRow]
    notes: list[str]
    """Limitations of the scores: truncated contexts, missing items, overlaps with training documents."""
    held_out: Mapping[str, float]
    """Metric → value over all held-out documents; the validation during training uses a sample of them."""
    figure: Figure | None
    questions: list[AnsweredQuestion]
    written: list[WrittenTexts]
    sentences: dict[str, str]
    """Benchmark, without its shots → one sentence about it."""

    @staticmethod
    def columns(rows: Sequence[ScoreRow]) -> list[str]:
        """Returns the headings of the columns in which at least one of ``rows`` has a number."""
        headings = rows[0].cells if rows else ()
        return [heading for heading in headings if any(row.cells[heading] not in EMPTY for row in rows)]

    @classmethod
    def of(cls, scores: Artifact) -> "ScoreTable":
        """Returns the table of ``scores``."""
        benchmarks = sorted(read_scores(scores.path("scores.json")), key=lambda benchmark: benchmark.order)
        rows = [ScoreRow(benchmark, metric) for benchmark in benchmarks for metric in benchmark.metrics]
        whole = [row for row in rows if not row.metric.group]
        shown = first_accuracies(whole, lambda row: row.benchmark.name)
        texts = [benchmark for benchmark in benchmarks if benchmark.type == CONTINUATIONS]
        return cls(
            rows=_by_shots(whole),
            groups=_by_shots([row for row in rows if row.metric.group]),
            notes=list(dict.fromkeys(note for benchmark in benchmarks for note in _notes(benchmark))),
            held_out={
                m.name: m.value for benchmark in benchmarks if benchmark.type == "validation" for m in benchmark.metrics
            },
            figure=accuracies([_accuracy(row) for row in shown]),
            questions=questions(scores, [benchmark for benchmark in benchmarks if benchmark not in texts]),
            written=written_texts(scores, texts),
            sentences={
                benchmark.base_name: BENCHMARKS[benchmark.type].sentence
                for benchmark in benchmarks
                if benchmark.type in BENCHMARKS
            },
        )

    def headlines(self) -> list[ScoreRow]:
        """Returns the first accuracy of each of the first benchmarks, with the fewest worked examples."""
        return first_accuracies(self.rows, lambda row: row.benchmark.base_name)[:HEADLINES]


def first_accuracies(rows: Sequence[ScoreRow], name: Callable[[ScoreRow], str]) -> list[ScoreRow]:
    """Returns for each ``name`` the first row that is a share of right answers."""
    firsts: dict[str, ScoreRow] = {}
    for row in rows:
        if row.metric.kind.is_share:
            firsts.setdefault(name(row), row)
    return list(firsts.values())


def _accuracy(row: ScoreRow) -> AccuracyMark:
    metric = row.metric
    return AccuracyMark(row.title, row.benchmark.shots, metric.value, metric.interval, metric.random)


def _by_shots(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """Returns ``rows``; rows that differ only by their shots follow each other."""
    by_key: dict[tuple[str, str, str], list[ScoreRow]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    return [row for alike in by_key.values() for row in alike]


def _notes(scores: BenchmarkScores) -> Iterator[str]:
    """Yields the limitations: no items, truncated contexts, overlaps with training documents."""
    tally = scores.tally
    yield from (f"{scores.name}: {note}" for note in scores.notes)
    yield from (f"{scores.name}: {metric.name} {metric.signature}" for metric in scores.whole if metric.signature)
    if not scores.metrics:
        yield f"{scores.name}: no items."
    if tally.truncated_contexts:
        lost = f"{count(tally.truncated_contexts)} of {count(tally.queries)} contexts did not fit the window"
        yield f"{scores.name}: {lost} and lost {count(tally.truncated_tokens)} tokens on the left."
    if tally.split_continuations:
        yield f"{scores.name}: {count(tally.split_continuations)} continuations were longer than the window."
    overlap = scores.overlap
    if overlap and (overlap["dirty"] or overlap["too_short"]):
        clean, dirty, short = (count(overlap[part]) for part in ("clean", "dirty", "too_short"))
        overlaps = f"{dirty} items overlap with training documents, {clean} do not"
        yield f"{scores.base_name}: {overlaps}, {short} are too short to decide."
