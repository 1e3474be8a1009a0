"""Stage ``scores``: what the model can do, as a table with errors and baselines, and every answer that led to it.

scores.json               per benchmark: metrics, standard errors, intervals, random baselines, what did not fit; each
                          metric on all items, on clean and on dirty ones
scores.md                 the same as a table
samples/<name>.jsonl      per item: prompts, choices, log-likelihoods, outcome
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from data_prep.tokenization.encode import Encoder
from pipeline.core.artifact import TaskOutput, read_json, write_json
from pipeline.core.progress import Progress
from pipeline.core.stage import Inputs, Phase, RawFile, Stage
from train.evaluation.benchmark import AnyBenchmark, Evaluation
from train.evaluation.benchmarks.base import FewShotBenchmark, Sources
from train.evaluation.contamination import Overlap, metrics_by_part, parts_of, sizes
from train.evaluation.held_out import HeldOut
from train.evaluation.item import Answer, Item, Outcome, Text
from train.evaluation.prompt import encode
from train.evaluation.table import markdown

if TYPE_CHECKING:
    from train.evaluation.scorer import Scorer

FORMAT = 1
COUNTED = ("items", "queries", "tokens", "truncated_contexts")
DIGITS = 6
"""Decimals of log-likelihoods and outcomes in the samples: beyond what fp32 resolves in a sum of tens."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores(Stage):
    """Scores the weights on each benchmark."""

    name: ClassVar[str] = "scores"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[str, ...]] = ("overlaps", "tokens", "packed", "weights")

    evaluation: Evaluation

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("scores", 1, self.run),)

    def raw_files(self) -> tuple[RawFile, ...]:
        return self.evaluation.raw_files()

    def run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Score every benchmark with the exported model; counts benchmarks, items, queries and tokens."""
        from train.evaluation.scorer import load_scorer

        weights = inputs["weights"]
        encoder = Encoder.load(weights.path("hf/tokenizer.json"))
        held_out = HeldOut(inputs["tokens"], inputs["packed"], encoder)
        vocabulary = int(read_json(weights.path("hf/config.json"))["vocab_size"])
        scorer = load_scorer(weights.path("hf/model.safetensors").parent, self.evaluation)
        found = read_json(inputs["overlaps"].path("items.json"))["benchmarks"]
        overlaps = {
            name: Overlap.of(found[texts]) for name, texts in self.evaluation.same_texts().items() if texts in found
        }
        entries = []
        with Progress(self.name, len(self.evaluation.benchmarks), "benchmarks") as progress:
            for name, benchmark in sorted(self.evaluation.benchmarks.items()):
                sources = Sources(Path(self.evaluation.data), held_out, f"{self.evaluation.seed}:{name}")
                scored = score(name, benchmark, sources, overlaps.get(name), encoder, scorer, vocabulary)
                write_samples(scored, out)
                entries.append(scored.entry)
                progress.advance(1, last=name)
        report = {"format": FORMAT, "window_tokens": scorer.window_tokens, "vocabulary": vocabulary}
        with out.file("scores.json") as path:
            write_json(path, {**report, "precision": self.evaluation.precision, "benchmarks": entries})
        with out.file("scores.md") as path:
            path.write_text(markdown(entries), encoding="utf-8")
        return Counter(benchmarks=len(entries), **{unit: sum(e[unit] for e in entries) for unit in COUNTED})


@dataclasses.dataclass(frozen=True)
class Scored:
    """One benchmark with all its answers."""

    entry: dict[str, Any]
    """What scores.json says of it."""
    items: Sequence[Item]
    answers: Sequence[Sequence[Answer]]
    outcomes: Sequence[Outcome]
    parts: Sequence[str | None]
    """Whether each item is clean, dirty or too short to tell; None where the benchmark was not searched for."""


def score(
    name: str,
    benchmark: AnyBenchmark,
    sources: Sources,
    overlap: Overlap | None,
    encoder: Encoder,
    scorer: "Scorer",
    vocabulary: int,
) -> Scored:
    """Ask the model every item of ``benchmark`` and sum up; ``vocabulary`` in tokens."""
    items = benchmark.items(sources)
    flat, tally = scorer.answers(encode([query for item in items for query in item.queries], encoder))
    remaining = iter(flat)
    answers = [[next(remaining) for _ in item.queries] for item in items]
    outcomes = [benchmark.outcome(item, found) for item, found in zip(items, answers, strict=True)]
    parts = parts_of(items, overlap)
    entry = {
        "name": name,
        "type": benchmark.type,
        "shots": benchmark.shots if isinstance(benchmark, FewShotBenchmark) else 0,
        "items": len(items),
        **dataclasses.asdict(tally),
        "overlap": sizes(parts) if overlap else None,
        "metrics": metrics_by_part(benchmark, items, outcomes, parts, vocabulary),
    }
    return Scored(entry, items, answers, outcomes, parts)


def write_samples(scored: Scored, out: TaskOutput) -> None:
    """``samples/<name>.jsonl``: one line per item."""
    with out.file(f"samples/{scored.entry['name']}.jsonl") as path, path.open("w", encoding="utf-8") as stream:
        for row in zip(scored.items, scored.answers, scored.outcomes, scored.parts, strict=True):
            stream.write(json.dumps(_sample(*row), ensure_ascii=False) + "\n")


def _sample(item: Item, answers: Sequence[Answer], outcome: Outcome, part: str | None) -> dict[str, Any]:
    texts = [query for query in item.queries if isinstance(query, Text)]
    prompts = [query.context for query in texts]
    return {
        "name": item.name,
        "group": item.group,
        "overlap": part,
        "prompts": prompts[:1] if len(set(prompts)) == 1 else prompts,
        "continuations": [query.continuation for query in texts],
        "log_likelihoods": [round(answer.log_likelihood, DIGITS) for answer in answers],
        "greedy": [answer.greedy for answer in answers],
        "tokens": [answer.tokens for answer in answers],
        "gold": item.gold,
        "outcome": {metric: round(value, DIGITS) for metric, value in outcome.items()},
    }
