"""Every answer as lm-evaluation-harness logs it (--log_samples), for its tools. The harness is not needed.

lm_eval/samples_piqa_1970-01-01T00-00-00.000000.jsonl
    {"doc_id": 0, "arguments": {"gen_args_0": {"arg_0": "Question: …", "arg_1": " yes"}, …},
     "filtered_resps": [["-3.5", "False"], …], "target": "0", "metrics": ["acc", …], "acc": 1.0, …}

The fields are those of evaluator.py; numbers as text and names of files are those of loggers/evaluation_tracker.py,
version 0.4.13. A group within a benchmark is a task of its own, as in the results.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.train.evaluation.score_rows import KINDS

STAMP = "1970-01-01T00-00-00.000000"
"""Stands where the harness writes the time, so that equal scores are equal bytes."""
FOLDER = "lm_eval"
RESULTS = f"{FOLDER}/results_{STAMP}.json"


def file_of(task: str) -> str:
    """Returns the path of the lines of ``task`` in an artifact."""
    return f"{FOLDER}/samples_{task}_{STAMP}.jsonl"


def by_task(benchmark: str, samples: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yields (task, lines) of a benchmark from the lines of its samples/*.jsonl, then of each group, if there are
    several. A benchmark that asks by tokens has no prompts, and yields nothing."""
    asked = [sample for sample in samples if sample["prompts"]]
    lines = [_line(number, sample) for number, sample in enumerate(asked)]
    groups = [sample["group"] for sample in asked]
    if lines:
        yield benchmark, lines
    for group in sorted(set(groups)) if len(set(groups)) > 1 else ():
        yield f"{benchmark}_{group}", [line for line, own in zip(lines, groups, strict=True) if own == group]


def _line(number: int, sample: Mapping[str, Any]) -> dict[str, Any]:
    texts, written = sample["continuations"], sample["written"]
    answers = list(zip(sample["log_likelihoods"], sample["greedy"], strict=True))
    prompts = sample["prompts"] if len(sample["prompts"]) > 1 else sample["prompts"] * max(1, len(texts), len(written))
    asked = list(zip(prompts, texts, strict=True)) if texts else [(prompt,) for prompt in prompts]
    responses = [[str(value), str(is_greedy)] for value, is_greedy in answers] if texts else written
    target = str(sample["gold"]) if len(texts) > 1 else "".join(texts or sample["right_answers"][:1])
    doc = {name: sample[name] for name in ("name", "group", "overlap")}
    outcome = {name: value for name, value in sample["outcome"].items() if name in KINDS}  # others are parts of metrics
    return {
        "doc_id": number,
        "doc": doc,
        "target": target,
        "arguments": {f"gen_args_{n}": {f"arg_{m}": text for m, text in enumerate(own)} for n, own in enumerate(asked)},
        "resps": [[answer] for answer in responses],
        "filtered_resps": responses,
        "filter": "none",
        "metrics": list(outcome),
        "doc_hash": _hash(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": _hash(prompts[0]),
        "target_hash": _hash(target),
        **outcome,
    }


def config(line: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a task that the harness's tools need to read its ``line``s."""
    is_written = isinstance(line["filtered_resps"][0], str)
    choice = "multiple_choice" if len(line["arguments"]) > 1 else "loglikelihood"
    return {
        "output_type": "generate_until" if is_written else choice,
        "metric_list": [{"metric": name, "aggregation": "mean"} for name in line["metrics"]],
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
