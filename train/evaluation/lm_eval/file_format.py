"""Results and samples as lm-evaluation-harness writes them (--log_samples): ours in its form, its own in ours.

lm_eval/results_1970-01-01T00-00-00.000000.json
    {"results": {"piqa": {"acc,none": 0.6, "acc_stderr,none": 0.01, …}}, "n-shot": {"piqa": 0}, …}
lm_eval/samples_piqa_1970-01-01T00-00-00.000000.jsonl
    {"doc_id": 0, "arguments": {"gen_args_0": {"arg_0": "Question: …", "arg_1": " yes"}, …},
     "filtered_resps": [["-3.5", "False"], …], "target": "0", "metrics": ["acc", …], "acc": 1.0, …}

The fields are those of evaluator.py; numbers as text and names of files are those of loggers/evaluation_tracker.py,
version 0.4.13. A group within a benchmark is a task of its own.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.pipeline.core.statistics import normal_interval
from headrace.train.evaluation.metrics import within_shares
from headrace.train.evaluation.score_rows import DIGITS, KINDS, BenchmarkScores, Metric, kind_of, split_filter
from headrace.train.inference.queries import Tally

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
        yield f"{benchmark}_{group}", [line for line, other in zip(lines, groups, strict=True) if other == group]


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
        "arguments": {
            f"gen_args_{n}": {f"arg_{m}": text for m, text in enumerate(parts)} for n, parts in enumerate(asked)
        },
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


def results(
    benchmarks: Sequence[BenchmarkScores], precision: str, configs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Returns the scores as lm-evaluation-harness writes results (result_schema.py, EvalResults).

    A group within a benchmark becomes a task of its own, ``<benchmark>_<group>``. A metric whose direction is unknown
    has no entry in ``higher_is_better``. Nothing in the results depends on the
    machine or the time. ``configs`` holds settings of tasks by the samples of their tasks (samples.config).
    """
    values: dict[str, dict[str, Any]] = {}
    higher: dict[str, dict[str, bool]] = {}
    shots: dict[str, int] = {}
    samples: dict[str, dict[str, int]] = {}
    groups: dict[str, list[str]] = {scores.name: [] for scores in benchmarks}
    for scores in benchmarks:
        for metric in scores.metrics:
            task = f"{scores.name}_{metric.group}" if metric.group else scores.name
            if metric.group and task not in groups[scores.name]:
                groups[scores.name].append(task)
            name, filtered = split_filter(metric.name)
            of_task = values.setdefault(task, {"alias": task})
            of_task[f"{name},{filtered}"] = metric.value
            of_task[f"{name}_stderr,{filtered}"] = "N/A" if metric.standard_error is None else metric.standard_error
            directions = higher.setdefault(task, {})
            if metric.kind.higher_is_better is not None:
                directions[name] = metric.kind.higher_is_better
            shots[task] = scores.shots
            samples[task] = {"original": metric.items, "effective": metric.items}
    return {
        "results": values,
        "group_subtasks": groups,
        "configs": {name: {"task": name, "num_fewshot": shots[name], **configs.get(name, {})} for name in values},
        "versions": dict.fromkeys(values, "headrace"),
        "n-shot": shots,
        "higher_is_better": higher,
        "n-samples": samples,
        "config": {"model": "headrace", "model_args": None, "model_dtype": precision},
    }


def task_row(name: str, results: Mapping[str, Any], tally: Tally, repeated: int) -> BenchmarkScores:
    """Returns the scores of the task or group ``name`` from ``results`` of the harness (result_schema.py, EvalResults).

    Args:
        tally: its queries.
        repeated: the number of questions among their own worked examples.
    """
    values, samples = results["results"][name], results["samples"].get(name, [])
    items = results["n-samples"].get(name, {}).get("effective", int(values.get("sample_len", 0)))
    keys = [key for key, value in values.items() if "," in key and "_stderr," not in key and _is_number(value)]
    is_choice = results["configs"].get(name, {}).get("output_type") == "multiple_choice"
    chance = math.fsum(map(_chance, samples)) / len(samples) if is_choice and samples else None
    notes = []
    if repeated:
        notes.append(
            f"{repeated} of {items} questions are among their own worked examples, so scores are too high: the harness "
            "draws examples from the questions. Give fewshot_split another split, or the name of test_split."
        )
    listed = [metric["metric"] for metric in results["configs"].get(name, {}).get("metric_list") or []]
    if missing := [
        metric
        for metric in listed
        if isinstance(metric, str) and not any(key.startswith(f"{metric},") for key in values)
    ]:
        notes.append(f"The harness has no value of {', '.join(missing)} here.")
    return BenchmarkScores(
        name=name,
        type="lm_eval",
        shots=int(results["n-shot"].get(name) or 0),
        items=items,
        tally=tally,
        metrics=tuple(_metric(key, values, items, chance) for key in keys),
        notes=tuple(notes),
    )


def _chance(sample: Mapping[str, Any]) -> float:
    """Returns the probability that a guess at a question with choices is right."""
    choices = len(sample["arguments"]) // (2 if "acc_mutual_info" in sample["metrics"] else 1)
    return (len({*sample["target"]}) if isinstance(sample["target"], list) else 1) / choices


def _metric(key: str, values: Mapping[str, Any], items: int, chance: float | None) -> Metric:
    """Returns the metric ``name,filter`` with the harness's standard error, and ± 1.96 of them as its interval.

    ``chance`` is the accuracy of guessing, where the task has choices.
    """
    name, _, filtered = key.partition(",")
    value, error = float(values[key]), values.get(f"{name}_stderr,{filtered}")
    standard_error = float(error) if error is not None and _is_number(error) else None
    random, shown = chance if name.startswith("acc") else None, name if filtered == "none" else f"{name} ({filtered})"
    metric = Metric(shown, value, standard_error, normal_interval(value, standard_error), random, items)
    return within_shares(metric) if kind_of(name).is_share else metric


def task_sample(task: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a sample of the harness as a line of samples/<name>.jsonl."""
    asked, answers = row["arguments"], [answer[0] for answer in row["resps"]]
    is_scored = all(isinstance(answer, tuple) for answer in answers)
    is_asked = is_scored and all(len(arguments) == 2 for arguments in asked)
    prompts = [arguments[0] for arguments in asked] if is_asked or not is_scored else []
    written = [answer for answer in answers if isinstance(answer, str)]
    scores = [row[name] for name in row["metrics"]]
    return {
        "name": f"{task}:{row['doc_id']}",
        "group": "" if row["filter"] == "none" else row["filter"],
        "overlap": None,
        "prompts": prompts[:1] if len(set(prompts)) == 1 else prompts,
        "continuations": [arguments[1] for arguments in asked] if is_asked else [],
        "log_likelihoods": [round(answer[0], DIGITS) for answer in answers] if is_asked else [],
        "greedy": [bool(answer[1]) for answer in answers] if is_asked else [],
        "tokens": [],
        "written": written,
        "right_answers": [str(row["target"])] if written else [],
        "gold": row["target"] if isinstance(row["target"], int) else 0,
        "outcome": {
            name: round(float(score), DIGITS)
            for name, score in zip(row["metrics"], scores, strict=True)
            if _is_number(score)
        },
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
