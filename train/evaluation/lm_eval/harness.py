"""Any task of lm-evaluation-harness on a Headrace model: its prompts and metrics, our scorer.

    task ── the harness ──> Instance, ... ── HeadraceLM ──> Text ── prompt.encode, scorer ──> (log-likelihood, greedy)
                 └───────────────────── results, samples ──> entries of the score table

The harness is an optional extra (``pip install 'headrace[evaluation]'``); only this module imports it. A task is named
as the harness names it, or by the path of its YAML, which may point to local files:

    include: /…/lm_eval/tasks/piqa/piqa.yaml
    task: piqa_local
    dataset_path: json
    dataset_name: null
    dataset_kwargs: {data_files: {validation: /…/piqa.jsonl}}
"""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable, sanitize_list

from headrace.pipeline.core.errors import ConfigError
from headrace.train.evaluation.lm_eval.file_format import is_file
from headrace.train.evaluation.metrics import SHARES, Z95
from headrace.train.evaluation.prompt import encode
from headrace.train.evaluation.scoring import DIGITS
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.generation.generator import generator_of
from headrace.train.inference.item import Answer, Query, Text, Tokens
from headrace.train.inference.scorer import Tally
from headrace.train.inference.subject import Subject

BOOTSTRAPS = 1000
"""Resamplings behind the harness's standard errors of medians, perplexities and the like."""


class HeadraceLM(TemplateLM):
    """A model under test as lm-evaluation-harness sees it."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self._subject, self._generator = subject, generator_of(subject)
        self.tallies: dict[str, Tally] = defaultdict(Tally)
        """What was asked by each task, and what did not fit."""

    @property
    def eot_token_id(self) -> int:
        return self._subject.tokenizer.end_of_text

    @property
    def max_length(self) -> int:
        return self._subject.scorer.window_tokens

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        (ids,) = self._subject.tokenizer.encode([string])
        return [*([] if add_special_tokens is False else self._subject.opening), *ids.tolist()]

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """(log-likelihood, greedy) of each (context, continuation)."""
        answers = self._answers(requests, [Text(*request.args) for request in requests])
        return [(answer.log_likelihood, answer.greedy) for answer in answers]

    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], disable_tqdm: bool = False, **kwargs: Any
    ) -> list[tuple[float, bool]]:
        answers, _ = self._subject.scorer.answers([_tokens(context, ids) for _, context, ids in requests])
        return [(answer.log_likelihood, answer.greedy) for answer in answers]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Log-likelihood of each whole text after the end-of-text token, in disjoint windows (``scorer.pieces``)."""
        texts = [_tokens([self.eot_token_id], self.tok_encode(*request.args)) for request in requests]
        return [answer.log_likelihood for answer in self._answers(requests, texts)]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """What the model writes after each context, greedily, up to the first of the request's stops.

        Raises:
            ConfigError: when a task asks for random choices.
        """
        places: dict[tuple[tuple[str, ...], int], list[int]] = defaultdict(list)
        for place, request in enumerate(requests):
            asked = normalize_gen_kwargs(request.args[1])
            if asked["do_sample"]:
                wrong = f"{request.task_name} has texts drawn at random"
                raise ConfigError("evaluation.tasks", wrong, "take tasks with greedy texts (do_sample: false)")
            places[tuple(stop for stop in asked["until"] if stop), asked["max_gen_toks"]].append(place)
        found: dict[int, str] = {}
        for (stops, max_tokens), own in places.items():
            prompts = [requests[place].args[0] for place in own]
            found |= zip(own, self._generator.generate_until(prompts, stops, max_tokens), strict=True)
        return [found[place] for place in range(len(requests))]

    def _answers(self, requests: Sequence[Instance], queries: Sequence[Query]) -> list[Answer]:
        """One answer per request, in their order; counted by task."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, request in enumerate(requests):
            places[str(request.task_name)].append(place)
        found: dict[int, Answer] = {}
        for task, own in places.items():
            asked = encode([queries[place] for place in own], self._subject.tokenizer, self._subject.opening)
            answers, tally = self._subject.scorer.answers(asked)
            self.tallies[task] += tally
            found.update(zip(own, answers, strict=True))
        return [found[place] for place in range(len(requests))]


@dataclasses.dataclass(frozen=True)
class TaskScores:
    """What the harness found."""

    entries: list[dict[str, Any]]
    """As scores.json has benchmarks, in the order of their names."""
    samples: Mapping[str, list[dict[str, Any]]]
    """The lines of samples/<task>.jsonl, by task; a task with several filters has a line for each."""
    logs: Mapping[str, list[dict[str, Any]]]
    """The same as the harness writes them."""


def score_tasks(evaluation: Evaluation, subject: Subject) -> TaskScores:
    """Run ``evaluation.tasks``.

    Raises:
        ConfigError: when the harness knows no such task, or its data is not here.
    """
    model = HeadraceLM(subject)
    try:
        tasks = TaskManager(include_defaults=any(not is_file(task) for task in evaluation.tasks))
        found = simple_evaluate(
            model=model,
            tasks=list(evaluation.tasks),
            task_manager=tasks,
            num_fewshot=evaluation.task_shots,
            limit=evaluation.task_limit,
            bootstrap_iters=BOOTSTRAPS,
        )
    except (KeyError, ValueError, OSError) as error:
        wrong = f"lm-evaluation-harness cannot run {', '.join(evaluation.tasks)} ({_first_line(error)})"
        raise ConfigError("evaluation.tasks", wrong, "correct the names; offline, give data in local files") from error
    entries = [_entry(name, found, model.tallies[name]) for name in sorted(found["results"])]
    samples = found["samples"].items()
    return TaskScores(
        entries,
        samples={task: [_sample(task, row) for row in rows] for task, rows in samples},
        logs={task: [_logged(row) for row in rows] for task, rows in samples},
    )


def _entry(name: str, results: Mapping[str, Any], tally: Tally) -> dict[str, Any]:
    values = results["results"][name]
    items = results["n-samples"].get(name, {}).get("effective", int(values.get("sample_len", 0)))
    scored = [key for key, value in values.items() if "," in key and "_stderr," not in key and _is_number(value)]
    return {
        "name": name,
        "type": "lm_eval",
        "shots": int(results["n-shot"].get(name) or 0),
        "items": items,
        **dataclasses.asdict(tally),
        "overlap": None,
        "metrics": [_metric(key, values, items) for key in scored],
    }


def _metric(key: str, values: Mapping[str, Any], items: int) -> dict[str, Any]:
    """The metric ``name,filter`` with the harness's standard error and ± 1.96 of them as its interval."""
    name, _, filtered = key.partition(",")
    value, error = float(values[key]), values.get(f"{name}_stderr,{filtered}")
    error = float(error) if _is_number(error) else None
    interval = None if error is None else [value - Z95 * error, value + Z95 * error]
    if interval and name.startswith(SHARES):
        interval = [max(0.0, interval[0]), min(1.0, interval[1])]
    return {
        "name": name if filtered == "none" else f"{name} ({filtered})",
        "value": value,
        "standard_error": error,
        "interval": interval,
        "random": None,
        "items": items,
        "group": "",
        "clean": None,
        "dirty": None,
    }


def _sample(task: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A sample of the harness as a line of samples/<name>.jsonl."""
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


def _logged(row: Mapping[str, Any]) -> dict[str, Any]:
    """A sample of the harness as it would write it (loggers/evaluation_tracker.py, save_results_samples)."""
    asked = {f"gen_args_{n}": {f"arg_{m}": one for m, one in enumerate(own)} for n, own in enumerate(row["arguments"])}
    told = {name: sanitize_list(row[name]) for name in ("resps", "filtered_resps")}
    line = {**row, **told, "arguments": asked, "target": str(row["target"])}
    return dict(json.loads(json.dumps(line, default=handle_non_serializable)))


def _tokens(context: Sequence[int], continuation: Sequence[int]) -> Tokens:
    return Tokens(np.array(context, np.int64), np.array(continuation, np.int64))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
