"""lm-evaluation-harness's files: what a task's YAML reads, and the results that its tools read. Needs no harness.

results_*.json    {"results": {"piqa": {"acc,none": 0.6, "acc_stderr,none": 0.01, …}}, "n-shot": {"piqa": 0}, …}
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.stage import RawFile, raw_file

SETTING = "evaluation.tasks"
LOWER_IS_BETTER = (
    "perplexity",
    "loss",
    "bits_per_byte",
    "byte_perplexity",
    "word_perplexity",
    "token_perplexity",
    "bits_per_character",
    "in_context_score",
    "loss_at_early",
    "loss_at_late",
    "copying_loss",
    "loss_at_first",
    "loss_on_repeat",
)


def is_file(task: str) -> bool:
    """Whether ``task`` is the path of a YAML."""
    return task.endswith((".yaml", ".yml"))


def task_files(task: str) -> tuple[RawFile, ...]:
    """What a task's YAML and the local files that it names hold; nothing for a task that the harness ships.

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
    """The local files below dataset_kwargs.data_files."""

    class Loader(yaml.SafeLoader):
        """Reads the harness's tags (!function) as nothing."""

    Loader.add_multi_constructor("!", lambda loader, suffix, node: None)
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except yaml.YAMLError as error:
        wrong = f"{str(path)!r} is not YAML ({str(error).replace(chr(10), ' ')})"
        raise ConfigError(SETTING, wrong, "correct it") from None
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
    entries: Sequence[Mapping[str, Any]], precision: str, configs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The benchmarks of scores.json as lm-evaluation-harness writes results (result_schema.py, EvalResults).

    ``configs`` is what is known of tasks by their samples (harness_samples.py).

    A group within a benchmark becomes a task of its own, ``<benchmark>_<group>``. Nothing that depends on machine or
    time is in it.
    """
    values: dict[str, dict[str, Any]] = {}
    shots: dict[str, int] = {}
    samples: dict[str, dict[str, int]] = {}
    groups: dict[str, list[str]] = {}
    for entry in entries:
        groups[entry["name"]] = []
        for metric in entry["metrics"]:
            name = f"{entry['name']}_{metric['group']}" if metric["group"] else entry["name"]
            if metric["group"] and name not in groups[entry["name"]]:
                groups[entry["name"]].append(name)
            key, error = _key(metric["name"]), metric["standard_error"]
            of_task = values.setdefault(name, {"alias": name})
            of_task[",".join(key)] = metric["value"]
            of_task[f"{key[0]}_stderr,{key[1]}"] = "N/A" if error is None else error
            shots[name] = entry["shots"]
            samples[name] = {"original": metric["items"], "effective": metric["items"]}
    names = {name: {_key(metric)[0] for metric in _names_of(one)} for name, one in values.items()}
    return {
        "results": values,
        "group_subtasks": groups,
        "configs": {name: {"task": name, "num_fewshot": shots[name], **configs.get(name, {})} for name in values},
        "versions": dict.fromkeys(values, "headrace"),
        "n-shot": shots,
        "higher_is_better": {name: {m: m not in LOWER_IS_BETTER for m in sorted(own)} for name, own in names.items()},
        "n-samples": samples,
        "config": {"model": "headrace", "model_args": None, "model_dtype": precision},
    }


def _key(name: str) -> tuple[str, str]:
    """The metric's name and its filter: ``exact_match (strict-match)`` → exact_match, strict-match."""
    metric, _, filtered = name.partition(" (")
    return metric, filtered.rstrip(")") or "none"


def _names_of(values: Mapping[str, Any]) -> Iterator[str]:
    """The metrics of a task."""
    yield from (key.partition(",")[0] for key in values if "," in key and "_stderr," not in key)
