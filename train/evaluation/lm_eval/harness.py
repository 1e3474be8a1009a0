"""Runs any task of lm-evaluation-harness on a Headrace model: its prompts and metrics, our likelihoods.

    task ── harness ──> Instance, ... ── HeadraceLM ──> Text ── prompt.encode, likelihood ──> (log-likelihood, greedy)
               └─────────────────── results, samples ──> rows of the score table

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
from headrace.pipeline.core.intervals import Z95
from headrace.train.evaluation.lm_eval.file_format import is_file
from headrace.train.evaluation.prompt import PromptForm, encode
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric, kind_of
from headrace.train.evaluation.scoring import DIGITS, with_form
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.generation.generator import generator_of
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import Answer, LikelihoodQuery, Tally, Text, TokenQuery, with_opening

BOOTSTRAPS = 1000
"""The number of resamplings for the harness's standard errors of medians, perplexities and the like."""


class HeadraceLM(TemplateLM):
    """Our model with lm-evaluation-harness's interface."""

    def __init__(self, model: InferenceModel, form: PromptForm) -> None:
        super().__init__()
        self._model, self._generator, self._form = model, generator_of(model), form
        self.tallies: dict[str, Tally] = defaultdict(Tally)
        """Task → its queries, and tokens that did not fit."""

    @property
    def eot_token_id(self) -> int:
        return self._model.tokenizer.end_of_text

    @property
    def max_length(self) -> int:
        return self._model.window_tokens

    @property
    def tokenizer_name(self) -> str:
        """The template of prompts: the harness keeps requests by this name."""
        return self.chat_template() or ""

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Returns the text of the template; None: prompts are plain text."""
        return self._form.template.text if self._form.template else None

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Returns the text of ``chat_history``, up to where the answer begins; else it ends in the last message."""
        return self._form.render(chat_history, add_generation_prompt)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        (ids,) = self._model.tokenizer.encode([string])
        return with_opening(ids.tolist(), [] if add_special_tokens is False else self._model.opening)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Returns (log-likelihood, greedy) of each (context, continuation)."""
        answers = self._answers(requests, [Text(*request.args) for request in requests])
        return [(answer.log_likelihood, answer.greedy) for answer in answers]

    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], disable_tqdm: bool = False, **kwargs: Any
    ) -> list[tuple[float, bool]]:
        answers = self._model.likelihood.answers([_tokens(context, ids) for _, context, ids in requests])
        return [(answer.log_likelihood, answer.greedy) for answer in answers]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Returns the log-likelihood of each whole text after the end-of-text token, in disjoint windows."""
        texts = [_tokens([self.eot_token_id], self.tok_encode(*request.args)) for request in requests]
        return [answer.log_likelihood for answer in self._answers(requests, texts)]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Returns the greedy text after each context, up to the first of the request's stops.

        Raises:
            ConfigError: when a task asks for random choices.
        """
        numbers: dict[tuple[tuple[str, ...], int], list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            asked = normalize_gen_kwargs(request.args[1])
            if asked["do_sample"]:
                problem = f"{request.task_name} has texts drawn at random"
                raise ConfigError("evaluation.tasks", problem, "take tasks with greedy texts (do_sample: false)")
            numbers[tuple(stop for stop in asked["until"] if stop), asked["max_gen_toks"]].append(number)
        texts: dict[int, str] = {}
        for (stops, max_tokens), own in numbers.items():
            prompts = [requests[number].args[0] for number in own]
            texts |= zip(own, self._generator.generate_until(prompts, stops, max_tokens), strict=True)
        return [texts[number] for number in range(len(requests))]

    def _answers(self, requests: Sequence[Instance], queries: Sequence[LikelihoodQuery]) -> list[Answer]:
        """Returns one answer per request, in their order, and counts them by task."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            numbers[str(request.task_name)].append(number)
        answers: dict[int, Answer] = {}
        for task, own in numbers.items():
            asked = encode([queries[number] for number in own], self._model.tokenizer, self._model.opening)
            self.tallies[task] += self._model.likelihood.tally(asked)
            answers.update(zip(own, self._model.likelihood.answers(asked), strict=True))
        return [answers[number] for number in range(len(requests))]


@dataclasses.dataclass(frozen=True)
class TaskScores:
    """The harness's scores."""

    scores: list[BenchmarkScores]
    """In the order of the tasks' names."""
    samples: Mapping[str, list[dict[str, Any]]]
    """The lines of samples/<task>.jsonl, by task; a task with several filters has a line for each."""
    logs: Mapping[str, list[dict[str, Any]]]
    """The same as the harness writes them."""


def score_tasks(evaluation: Evaluation, model: InferenceModel) -> TaskScores:
    """Runs ``evaluation.tasks``.

    Raises:
        ConfigError: when the harness knows no such task, or its data is not here.
    """
    form, model = with_form(evaluation, model)
    adapter = HeadraceLM(model, form)
    try:
        tasks = TaskManager(include_defaults=any(not is_file(task) for task in evaluation.tasks))
        results = simple_evaluate(
            model=adapter,
            tasks=list(evaluation.tasks),
            task_manager=tasks,
            num_fewshot=evaluation.task_shots,
            limit=evaluation.task_limit,
            bootstrap_iters=BOOTSTRAPS,
            apply_chat_template=form.template is not None,
            fewshot_as_multiturn=form.template is not None and form.examples == "turns",
            system_instruction=form.system or None,
        )
    except (KeyError, ValueError, OSError) as error:
        problem = f"lm-evaluation-harness cannot run {', '.join(evaluation.tasks)} ({_first_line(error)})"
        raise ConfigError(
            "evaluation.tasks", problem, "correct the names; offline, give data in local files"
        ) from error
    scores = [_scores(name, results, adapter.tallies[name]) for name in sorted(results["results"])]
    samples = results["samples"].items()
    return TaskScores(
        scores,
        samples={task: [_sample(task, row) for row in rows] for task, rows in samples},
        logs={task: [_logged(row) for row in rows] for task, rows in samples},
    )


def _scores(name: str, results: Mapping[str, Any], tally: Tally) -> BenchmarkScores:
    values = results["results"][name]
    items = results["n-samples"].get(name, {}).get("effective", int(values.get("sample_len", 0)))
    keys = [key for key, value in values.items() if "," in key and "_stderr," not in key and _is_number(value)]
    return BenchmarkScores(
        name=name,
        type="lm_eval",
        shots=int(results["n-shot"].get(name) or 0),
        items=items,
        tally=tally,
        metrics=tuple(_metric(key, values, items) for key in keys),
    )


def _metric(key: str, values: Mapping[str, Any], items: int) -> Metric:
    """Returns the metric ``name,filter`` with the harness's standard error, and ± 1.96 of them as its interval."""
    name, _, filtered = key.partition(",")
    value, error = float(values[key]), values.get(f"{name}_stderr,{filtered}")
    standard_error = float(error) if error is not None and _is_number(error) else None
    interval = None
    if standard_error is not None:
        low, high = value - Z95 * standard_error, value + Z95 * standard_error
        interval = (max(0.0, low), min(1.0, high)) if kind_of(name).is_share else (low, high)
    name = name if filtered == "none" else f"{name} ({filtered})"
    return Metric(name, value, standard_error, interval, None, items)


def _sample(task: str, row: Mapping[str, Any]) -> dict[str, Any]:
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


def _logged(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a sample of the harness as it would write it (loggers/evaluation_tracker.py, save_results_samples)."""
    asked = {
        f"gen_args_{n}": {f"arg_{m}": argument for m, argument in enumerate(own)}
        for n, own in enumerate(row["arguments"])
    }
    responses = {name: sanitize_list(row[name]) for name in ("resps", "filtered_resps")}
    line = {**row, **responses, "arguments": asked, "target": str(row["target"])}
    return dict(json.loads(json.dumps(line, default=handle_non_serializable)))


def _tokens(context: Sequence[int], continuation: Sequence[int]) -> TokenQuery:
    return TokenQuery(np.array(context, np.int64), np.array(continuation, np.int64))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
