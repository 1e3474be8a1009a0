"""Questions of benchmarks with the model's answers, right and wrong ones, for the page.

scores/…/samples/piqa.jsonl    {"name": "piqa.jsonl:7", "prompts": ["…"], "continuations": ["…", "…"], …}
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.report.formatting import visible
from headrace.pipeline.report.samples import CHARACTERS
from headrace.train.evaluation.score_rows import BenchmarkScores, split_filter

PER_BENCHMARK = 24
ON_THE_PAGE = 480
"""Questions of all benchmarks; they take about 2 kB each."""
PROMPT_CHARACTERS = 400


@dataclasses.dataclass(frozen=True)
class Choice:
    """A continuation that was scored: its log-likelihood, whether it was right and whether the model liked it best."""

    text: str
    log_likelihood: str
    right: bool
    chosen: bool


@dataclasses.dataclass(frozen=True)
class Question:
    """An item of a benchmark with the model's answers."""

    benchmark: str
    name: str
    verdict: str
    """``right`` or ``wrong``; empty where the main metric is of another kind."""
    overlap: str
    """``clean``, ``dirty`` or ``too short``; empty where nothing was searched for."""
    prompt: str
    choices: list[Choice]


def questions(artifact: Artifact, benchmarks: Sequence[BenchmarkScores]) -> list[Question]:
    """Returns the first right and the first wrong questions of each benchmark with text, equally many if possible."""
    most = max(2, min(PER_BENCHMARK, ON_THE_PAGE // max(1, len(benchmarks))))
    found = []
    for scores in benchmarks:
        name = f"samples/{scores.name}.jsonl"
        if name in artifact.manifest["files"]:
            records = [orjson.loads(line) for line in artifact.path(name).read_bytes().splitlines()]
            asked = [
                _question(scores, record) for record in records if record["continuations"] or record.get("written")
            ]
            found += [asked[index] for index in _chosen([question.verdict for question in asked], most)]
    return found


def _chosen(verdicts: Sequence[str], most: int) -> list[int]:
    """Returns the indices of ``most`` questions: the first of each verdict, in turn, in their order."""
    turns: dict[str, int] = {}
    ranks = []
    for index, verdict in enumerate(verdicts):
        turns[verdict] = turns.get(verdict, -1) + 1
        ranks.append((turns[verdict], index))
    return sorted(index for _, index in sorted(ranks)[:most])


def _question(scores: BenchmarkScores, record: Mapping[str, Any]) -> Question:
    """Returns the question of a line of samples/*.jsonl.

    A prompt of a choice's own comes before the choice. A written answer is a choice beside the right answer.
    """
    prompts, texts, likelihoods = record["prompts"], record["continuations"], record["log_likelihoods"]
    shared = prompts[0] if len(prompts) == 1 else ""
    own = prompts if len(prompts) == len(texts) > 1 else [""] * len(texts)
    best = max(range(len(texts)), key=lambda i: likelihoods[i], default=None)
    verdict = _verdict(scores, record["outcome"])
    choices = [
        Choice(
            text=_end(prompt + text),
            log_likelihood=f"{likelihood:.2f}".replace("-", "−"),
            right=number == record["gold"],
            chosen=number == best if len(texts) > 1 else bool(record["greedy"][0]),
        )
        for number, (prompt, text, likelihood) in enumerate(zip(own, texts, likelihoods, strict=True))
    ]
    choices += [Choice(_end(text), "", right=verdict == "right", chosen=True) for text in record.get("written", ())]
    choices += [Choice(_end(text), "", right=True, chosen=False) for text in record.get("right_answers", ())[:1]]
    return Question(
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
    """Returns the end of a prompt, which the answer depends on most."""
    cut = len(text) > PROMPT_CHARACTERS
    return ("…" if cut else "") + visible(text[-PROMPT_CHARACTERS:], PROMPT_CHARACTERS)
