"""Questions of benchmarks with what the model answered, right and wrong ones, for a reader to look through.

scores/…/samples/piqa.jsonl    {"name": "piqa.jsonl:7", "prompts": ["…"], "continuations": ["…", "…"], …}
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.report.formatting import visible
from headrace.pipeline.report.samples import CHARACTERS

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


def questions(scores: Artifact, entries: Sequence[Mapping[str, Any]]) -> list[Question]:
    """Of each benchmark whose samples have text the first right and the first wrong ones, as many if there are."""
    most = max(2, min(PER_BENCHMARK, ON_THE_PAGE // max(1, len(entries))))
    found = []
    for entry in entries:
        name = f"samples/{entry['name']}.jsonl"
        if name in scores.manifest["files"]:
            records = [orjson.loads(line) for line in scores.path(name).read_bytes().splitlines()]
            asked = [_question(entry, record) for record in records if record["continuations"] or record.get("written")]
            found += [asked[place] for place in _chosen([question.verdict for question in asked], most)]
    return found


def _chosen(verdicts: Sequence[str], most: int) -> list[int]:
    """The places of ``most`` questions: the first of each verdict, in turn, in their order."""
    turns: dict[str, int] = {}
    ranks = []
    for place, verdict in enumerate(verdicts):
        turns[verdict] = turns.get(verdict, -1) + 1
        ranks.append((turns[verdict], place))
    return sorted(place for _, place in sorted(ranks)[:most])


def _question(entry: Mapping[str, Any], record: Mapping[str, Any]) -> Question:
    """A line of samples/*.jsonl; where each choice has a prompt of its own, it stands before the choice. What the model
    wrote stands as a choice beside the right answer."""
    prompts, texts, likelihoods = record["prompts"], record["continuations"], record["log_likelihoods"]
    shared = prompts[0] if len(prompts) == 1 else ""
    own = prompts if len(prompts) == len(texts) > 1 else [""] * len(texts)
    best = max(range(len(texts)), key=lambda i: likelihoods[i], default=None)
    verdict = _verdict(entry, record["outcome"])
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
        benchmark=str(entry["name"]),
        name=visible(str(record["name"]), CHARACTERS),
        verdict=verdict,
        overlap=(record.get("overlap") or "").replace("_", " "),
        prompt=_end(shared),
        choices=choices,
    )


def _verdict(entry: Mapping[str, Any], outcome: Mapping[str, float]) -> str:
    main = entry["metrics"][0]["name"]
    return {1.0: "right", 0.0: "wrong"}.get(outcome.get(main, outcome.get(main.partition(" (")[0], 0.5)), "")


def _end(text: str) -> str:
    """The end of a prompt, which is what the answer hangs on."""
    cut = len(text) > PROMPT_CHARACTERS
    return ("…" if cut else "") + visible(text[-PROMPT_CHARACTERS:], PROMPT_CHARACTERS)
