"""The files of lm-evaluation-harness: those that a task's YAML names, and results. The harness is not needed.

results_*.json    {"results": {"piqa": {"acc,none": 0.6, "acc_stderr,none": 0.01, …}}, "n-shot": {"piqa": 0}, …}
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.stage import RawFile, raw_file
from headrace.train.evaluation.score_rows import BenchmarkScores, split_filter

SETTING = "evaluation.tasks"


def is_file(task: str) -> bool:
    """Whether ``task`` is the path of a YAML."""
    return task.endswith((".yaml", ".yml"))


def task_files(task: str) -> tuple[RawFile, ...]:
    """Returns a task's YAML and the local files that it names; nothing for a task that the harness ships.

    Raises:
        ConfigError: when one of them is missing.
    """
    if not is_file(task):
        return ()
    paths = [Path(task), *_data_files(Path(task))] if Path(task).is_file() else [Path(task)]
    for path in paths:
        if not path.is_file():
            raise ConfigError(SETTING, f"no file {str(path)!r}", "give paths from where headrace is started")
    return tuple(raw_file(f"tasks/{path.name}", path) for path in paths)


def _data_files(path: Path) -> list[Path]:
    """Returns the local files below dataset_kwargs.data_files."""

    class Loader(yaml.SafeLoader):
        """Reads the harness's tags (!function) as nothing."""

    Loader.add_multi_constructor("!", lambda loader, suffix, node: None)
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except yaml.YAMLError as error:
        problem = f"{str(path)!r} is not YAML ({str(error).replace(chr(10), ' ')})"
        raise ConfigError(SETTING, problem, "correct it") from None
    if not isinstance(values, dict):
        raise ConfigError(SETTING, f"{str(path)!r} holds no task", "write KEY: VALUE lines, task: NAME among them")
    files = (values.get("dataset_kwargs") or {}).get("data_files", [])
    return [Path(name) for name in _names(files) if "://" not in name]


def _names(files: Any) -> Iterator[str]:
    if isinstance(files, str):
        yield files
    else:
        for part in files.values() if isinstance(files, Mapping) else files:
            yield from _names(part)


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
