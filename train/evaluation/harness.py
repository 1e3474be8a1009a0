"""Runs any task of lm-evaluation-harness on a Headrace model: its prompts and metrics, our likelihoods.

    task ── harness ──> Instance, ... ── HeadraceLM ──> Text ── prompt.encode, likelihood ──> (log-likelihood, greedy)
               └─────────────────── results, samples ──> rows of the score table

The harness is an optional extra (``pip install 'headrace[evaluation]'``); only this module imports it. A task is named
as the harness names it, or by the path of its YAML (yaml_files.py). What is wrong in the harness' own reading is wrong
here, too.
"""

import contextlib
import dataclasses
import json
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets.exceptions import DatasetsError
from jinja2 import TemplateError
from lm_eval import simple_evaluate
from lm_eval.api.group import Group
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.api.task import Task
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.tasks import TaskManager
from lm_eval.tasks._factory import TaskFactory
from lm_eval.tasks._index import Entry, Kind
from lm_eval.utils import handle_non_serializable, sanitize_list

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.statistics import normal_interval
from headrace.train.evaluation.harness_files import FORMATS, SETTING, is_file, read_task, with_local_data
from headrace.train.evaluation.metrics import within_shares
from headrace.train.evaluation.prompt import PromptForm, encode
from headrace.train.evaluation.score_rows import DIGITS, BenchmarkScores, Metric, kind_of
from headrace.train.evaluation.scoring import texts_written, with_form
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import Answer, Generate, LikelihoodQuery, Tally, Text, TokenQuery, with_opening
from headrace.train.inference.settings import Sampling

BOOTSTRAPS = 1000
"""The number of resamplings for the harness's standard errors of medians, perplexities and the like."""
os.environ["DISABLE_MULTIPROC"] = "1"  # the harness would resample in forks of this process, which hang: it has threads
GREEDY = ("until", "do_sample", "max_gen_toks", "temperature", "top_p", "top_k", "use_cache", "pad_token_id")
"""The generation_kwargs that greedy texts take, or do not depend on."""
FAILURES = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, OSError, RuntimeError, SyntaxError),
    *(TypeError, ValueError, TemplateError, DatasetsError),
)
"""The errors of a task's YAML, templates, functions and data."""


class HeadraceLM(TemplateLM):
    """Our model with lm-evaluation-harness's interface."""

    def __init__(self, model: InferenceModel, form: PromptForm) -> None:
        super().__init__()
        self._model, self._form = model, form
        self.is_answering = False
        """True while the model is at work: then an error is none of a task."""
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

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        self.is_answering = True
        yield  # without a finally: it stays true after an error
        self.is_answering = False

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
            ConfigError: when a task asks for other than greedy texts.
        """
        queries: dict[str, dict[Generate, str]] = defaultdict(dict)
        asked = [_asked(request) for request in requests]
        for request, query in zip(requests, asked, strict=True):
            queries[str(request.task_name)][query] = ""  # repeats of a request have one text
        with self._answering():
            for task, texts in queries.items():
                written, tally = texts_written([*texts], self._model)
                texts.update(zip(texts, [answer.text for answer in written], strict=True))
                self.tallies[task] += tally
        return [queries[str(request.task_name)][query] for request, query in zip(requests, asked, strict=True)]

    def _answers(self, requests: Sequence[Instance], queries: Sequence[LikelihoodQuery]) -> list[Answer]:
        """Returns one answer per request, in their order, and counts them by task."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            numbers[str(request.task_name)].append(number)
        answers: dict[int, Answer] = {}
        with self._answering():
            for task, of_task in numbers.items():
                asked = encode([queries[number] for number in of_task], self._model.tokenizer, self._model.opening)
                self.tallies[task] += self._model.likelihood.tally(asked)
                answers.update(zip(of_task, self._model.likelihood.answers(asked), strict=True))
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


class LocalFactory(TaskFactory):
    """Makes tasks whose data files lie where yaml_files.py finds them, prepared in a folder of their own."""

    def __init__(self, data: Path, prepared: str) -> None:
        super().__init__()
        self._data, self._prepared = data, prepared

    def _load_full_config(self, entry: Any, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
        keys: dict[str, Any] = super()._load_full_config(entry, overrides)
        if entry.yaml_path:
            keys = with_local_data(keys, entry.yaml_path.resolve(), self._data, [])
        if keys.get("dataset_path") in FORMATS and not keys.get("custom_dataset"):
            keys["dataset_kwargs"] = {"cache_dir": self._prepared, **(keys.get("dataset_kwargs") or {})}
        return keys


def score_tasks(evaluation: Evaluation, model: InferenceModel) -> TaskScores:
    """Runs ``evaluation.tasks`` and ``evaluation.yaml``.

    Raises:
        ConfigError: when the harness knows no such task, its data is not here, or it fails in its own templates,
            functions or settings.
    """
    form, model = with_form(evaluation, model)
    adapter = HeadraceLM(model, form)
    with tempfile.TemporaryDirectory(prefix="headrace-tasks-") as prepared:
        manager, made = _made_tasks(evaluation, prepared)
        with _explained(", ".join(evaluation.task_names), adapter):
            results = simple_evaluate(
                model=adapter,
                tasks=made,
                task_manager=manager,
                num_fewshot=evaluation.task_shots,
                limit=evaluation.task_limit,
                bootstrap_iters=BOOTSTRAPS,
                apply_chat_template=form.template is not None,
                fewshot_as_multiturn=form.template is not None and form.examples == "turns",
                system_instruction=form.system or None,
            )
        samples = results["samples"].items()
        return TaskScores(
            [task_row(name, results, adapter.tallies[name]) for name in sorted(results["results"])],
            samples={task: [task_sample(task, row) for row in rows] for task, rows in samples},
            logs={task: [_logged(row) for row in rows] for task, rows in samples},
        )


def _made_tasks(evaluation: Evaluation, prepared: str) -> tuple[TaskManager, list[Task | Group]]:
    """Returns the tasks and groups that are asked for, and what knows them by name."""
    data = Path(evaluation.data)
    files = [read_task(path, data) for path in evaluation.task_paths]
    shipped = [task for task in evaluation.tasks if not is_file(task)]
    with _explained("its own tasks"):
        manager = TaskManager(
            include_path=[file.path.parent for file in files if file.is_group],
            include_defaults=bool(shipped) or any(file.needs_shipped for file in files),
        )
    manager._factory = LocalFactory(data, prepared)
    made: list[Task | Group] = []
    groups = {str(file.path): Entry(file.name, Kind.GROUP, file.path) for file in files if file.is_group}
    for task in [*shipped, *(str(file.path) for file in files)]:
        with _explained(task):
            entry = groups.get(task)  # by its path the harness would take the list of its tasks as its name
            loaded = manager._factory.build(entry, registry=manager._index) if entry else manager._load_spec(task)
            made += loaded if isinstance(loaded, list) else [loaded]
            if slashed := [name for name in manager.load(made)["tasks"] if "/" in name]:
                raise ValueError(f"the name {slashed[0]!r} has a slash")
    return manager, made


@contextlib.contextmanager
def _explained(task: str, adapter: HeadraceLM | None = None) -> Iterator[None]:
    """Turns an error of the harness inside the block into a ConfigError that names ``task``."""
    try:
        yield
    except FAILURES as error:
        if adapter is not None and adapter.is_answering:
            raise
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        problem = f"lm-evaluation-harness cannot run {task} ({reason})"
        raise ConfigError(SETTING, problem, "correct it; offline, give data in local files") from error


def _asked(request: Instance) -> Generate:
    """Returns the text that ``request`` asks for.

    Raises:
        ConfigError: when it is another one than the greedy text.
    """
    settings = normalize_gen_kwargs(request.args[1])
    if settings["do_sample"]:
        problem = f"{request.task_name} has texts drawn at random"
        raise ConfigError(SETTING, problem, "take tasks with greedy texts (do_sample: false)")
    for name, value in settings.items():
        if name not in GREEDY and value not in (None, 1, False):
            problem = f"{request.task_name} has generation_kwargs {name}: {value!r}, which only its own backends know"
            raise ConfigError(SETTING, problem, f"leave it out, or take one of {', '.join(GREEDY)}")
    stops = tuple(stop for stop in settings["until"] if stop)
    return Generate(request.args[0], Sampling(max_tokens=settings["max_gen_toks"], stops=stops))


def _logged(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a sample of the harness as it would write it (loggers/evaluation_tracker.py, save_results_samples)."""
    asked = {
        f"gen_args_{n}": {f"arg_{m}": argument for m, argument in enumerate(arguments)}
        for n, arguments in enumerate(row["arguments"])
    }
    responses = {name: sanitize_list(row[name]) for name in ("resps", "filtered_resps")}
    line = {**row, **responses, "arguments": asked, "target": str(row["target"])}
    return dict(json.loads(json.dumps(line, default=handle_non_serializable)))


def _tokens(context: Sequence[int], continuation: Sequence[int]) -> TokenQuery:
    return TokenQuery(np.array(context, np.int64), np.array(continuation, np.int64))


def task_row(name: str, results: Mapping[str, Any], tally: Tally) -> BenchmarkScores:
    """Returns the scores of the task or group ``name`` from ``results`` of the harness (result_schema.py, EvalResults);
    ``tally`` counts its queries."""
    values, samples = results["results"][name], results["samples"].get(name, [])
    items = results["n-samples"].get(name, {}).get("effective", int(values.get("sample_len", 0)))
    keys = [key for key, value in values.items() if "," in key and "_stderr," not in key and _is_number(value)]
    is_choice = results["configs"].get(name, {}).get("output_type") == "multiple_choice"
    chance = math.fsum(map(_chance, samples)) / len(samples) if is_choice and samples else None
    listed = [metric["metric"] for metric in results["configs"].get(name, {}).get("metric_list") or []]
    named = [metric for metric in listed if isinstance(metric, str)]
    missing = [metric for metric in named if not any(key.startswith(f"{metric},") for key in values)]
    return BenchmarkScores(
        name=name,
        type="lm_eval",
        shots=int(results["n-shot"].get(name) or 0),
        items=items,
        tally=tally,
        metrics=tuple(_metric(key, values, items, chance) for key in keys),
        notes=(f"The harness has no value of {', '.join(missing)} here.",) if missing else (),
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
