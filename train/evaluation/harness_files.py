"""Files of lm-evaluation-harness: results and samples as it writes them (--log_samples), the YAML of tasks as it reads
it. The harness is not needed, and no function is run.

lm_eval/results_1970-01-01T00-00-00.000000.json
    {"results": {"piqa": {"acc,none": 0.6, "acc_stderr,none": 0.01, …}}, "n-shot": {"piqa": 0}, …}
lm_eval/samples_piqa_1970-01-01T00-00-00.000000.jsonl
    {"doc_id": 0, "arguments": {"gen_args_0": {"arg_0": "Question: …", "arg_1": " yes"}, …},
     "filtered_resps": [["-3.5", "False"], …], "target": "0", "metrics": ["acc", …], "acc": 1.0, …}

The fields are those of evaluator.py; numbers as text and names of files are those of loggers/evaluation_tracker.py,
version 0.4.13. A group within a benchmark is a task of its own.

quiz.yaml ── include ──> base.yaml          and on, as the harness reads them: the file's own keys win
    ├─ doc_to_text: !function utils.text ──> the Python files in the folder of utils.py
    ├─ dataset_path, data_files, data_dir ──> quiz.jsonl: from the YAML's folder, evaluation.data, or here
    └─ group: all, task: [one, two] ──> the YAML files below the folder that define the tasks one and two

The content of all these files decides what is asked.
"""

import dataclasses
import glob
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.stage import RawFile, raw_file
from headrace.pipeline.core.text_files import stored_path
from headrace.train.evaluation.score_rows import KINDS, BenchmarkScores, split_filter

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


SETTING = "evaluation.tasks"
FORMATS = ("json", "csv", "parquet", "text", "arrow")
"""The values of dataset_path whose data_files are local, or addresses."""


class _TaskLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as the harness does, but ``!function`` as a NamedFunction."""


_TaskLoader.add_constructor("!function", lambda reader, node: NamedFunction(str(node.value)))


@dataclasses.dataclass(frozen=True)
class NamedFunction:
    """A Python function that a YAML names."""

    name: str
    """``<module>.<function>``."""


@dataclasses.dataclass(frozen=True)
class TaskFile:
    """A YAML file with a task, or with a group of tasks."""

    path: Path
    name: str
    """The name of the task or of the group."""
    files: tuple[Path, ...]
    """All files whose content decides what is asked, in the order in which they are found."""
    is_group: bool
    needs_shipped: bool
    """Whether the group has tasks that no file below its folder defines: those of the harness."""

    def raw_files(self) -> Iterator[RawFile]:
        """Yields the files, named from the folder of the YAML; those outside it by their own name."""
        folder = self.path.parent
        for path in dict.fromkeys(map(Path.resolve, self.files)):
            inner = path.is_relative_to(folder)
            yield raw_file(f"tasks/{path.relative_to(folder).as_posix() if inner else path.name}", path)


def is_file(task: str) -> bool:
    """Whether ``task`` is the path of a YAML."""
    return task.endswith((".yaml", ".yml"))


def read_task(path: Path, data: Path) -> TaskFile:
    """Returns the task of the YAML ``path``; data may lie below the folder ``data``.

    Raises:
        ConfigError: naming a file that is missing, that is no YAML of a task, or that includes itself.
    """
    files: list[Path] = []
    path = path.expanduser().resolve()
    keys = _read(path, files)
    name = keys.get("group", keys.get("task"))
    if not isinstance(name, str):
        raise ConfigError(SETTING, f"{str(path)!r} holds no task", "write KEY: VALUE lines, task: NAME among them")
    with_local_data(keys, path, data, files)
    unknown, known = list(_members(keys)), _defined_below(path.parent) if "group" in keys else {}
    needs_shipped, seen = False, {name}
    while unknown:
        if (member := unknown.pop()) not in seen:
            seen.add(member)
            needs_shipped |= member not in known
            for file in known.get(member, []):
                inner = _read(file, files)
                with_local_data(inner, file, data, files)
                unknown += _members(inner)
    return TaskFile(path, name, tuple(files), "group" in keys, needs_shipped)


def with_local_data(keys: Mapping[str, Any], path: Path, data: Path, collected: list[Path]) -> dict[str, Any]:
    """Returns ``keys`` of the YAML ``path`` with absolute paths of local data files, which are added to ``collected``.

    Raises:
        ConfigError: when a file is missing.
    """
    folders = (path.parent, data, Path())
    source = str(keys.get("dataset_path", ""))
    local, files = _folder(source, folders, collected), list[Path]()
    arguments = keys.get("dataset_kwargs")
    arguments = dict(arguments) if isinstance(arguments, Mapping) else {}
    if isinstance(folder := arguments.get("data_dir"), str):
        arguments["data_dir"] = _folder(folder, folders, collected) or folder
    elif "data_files" in arguments and local is None and source in ("", *FORMATS):
        arguments["data_files"] = _located(arguments["data_files"], path, folders, files)
    collected += files
    changed: dict[str, Any] = {"dataset_path": local} if local else {}
    if arguments:
        changed["dataset_kwargs"] = arguments
    if isinstance(members := keys.get("task"), list):
        changed["task"] = [
            with_local_data(member, path, data, collected) if isinstance(member, Mapping) else member
            for member in members
        ]
    return {**keys, **changed}


def _folder(name: str, folders: Sequence[Path], collected: list[Path]) -> str | None:
    """Returns the folder of data ``name`` as an absolute path, and adds its files; None: there is none."""
    if name and name not in FORMATS:
        for folder in folders:
            if (path := folder / name).is_dir():
                collected += _files_at(path)
                return str(path.absolute())
    return None


def _files_at(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def _located(names: Any, path: Path, folders: Sequence[Path], collected: list[Path]) -> Any:
    """Returns the ``names`` of files, one or in lists and by split, as absolute paths."""
    if isinstance(names, Mapping):
        return {split: _located(names_of_split, path, folders, collected) for split, names_of_split in names.items()}
    if isinstance(names, list):
        return [_located(name, path, folders, collected) for name in names]
    if not isinstance(names, str) or "://" in names:
        return names
    for folder in folders:
        place = stored_path(folder / names)
        if files := [file for name in glob.glob(str(place), recursive=True) for file in _files_at(Path(name))]:
            collected += files
            return str(place.absolute())
    remedy = "give a path from the folder of the YAML, evaluation.data or the current folder"
    raise ConfigError(SETTING, f"{path}: no file {names!r}", remedy)


def _read(path: Path, files: list[Path], including: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Returns the keys of the YAML ``path`` with those that it includes; adds them and their Python files to ``files``.

    As the harness (tasks/_yaml_loader.py, load_yaml). Of a key that is written twice, the last value counts.
    """
    keys = _parsed(path)
    files += [path, *_python_files(keys, path.parent)]
    includes = keys.pop("include", [])
    merged: dict[str, Any] = {}
    for included in includes if isinstance(includes, list) else [includes]:
        other = (path.parent / str(included)).resolve()
        if other in including:
            raise ConfigError(SETTING, f"{str(other)!r} includes itself", "remove one of the includes")
        inherited = _read(other, files, (*including, path))
        inherited.pop("task_list", None)
        merged |= inherited
    return merged | keys


def _parsed(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(SETTING, f"no file {str(path)!r}", "give the path of a YAML file")
    try:
        keys = yaml.load(path.read_bytes(), _TaskLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(
            SETTING, f"{str(path)!r} is not YAML ({' '.join(str(error).split())})", "correct it"
        ) from None
    if not isinstance(keys, dict):
        raise ConfigError(SETTING, f"{str(path)!r} holds no task", "write KEY: VALUE lines, task: NAME among them")
    return keys


def _python_files(keys: Any, folder: Path) -> Iterator[Path]:
    """Yields the Python files in the folder of each function that ``keys`` name: one may import the others."""
    if isinstance(keys, NamedFunction):
        module = folder / f"{keys.name.rpartition('.')[0].replace('.', '/')}.py"
        yield from sorted(module.parent.glob("*.py")) if module.is_file() else ()
    elif isinstance(keys, Mapping | list):
        for part in keys.values() if isinstance(keys, Mapping) else keys:
            yield from _python_files(part, folder)


def _members(keys: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names of the tasks, groups and tags of a group; none of a task."""
    members = keys.get("task")
    for member in members if isinstance(members, list) else []:
        if isinstance(member, Mapping) and isinstance(member.get("task"), list):
            yield from _members(member)
        else:
            yield str(member.get("group", member.get("task")) if isinstance(member, Mapping) else member)


def _defined_below(folder: Path) -> dict[str, list[Path]]:
    """Returns the YAML files below ``folder`` by the names and the tags of their tasks; files of other things have
    none."""
    known: dict[str, list[Path]] = {}
    for path in map(Path.resolve, sorted(folder.glob("**/*.yaml"))):
        try:
            keys = _read(path, [])
        except ConfigError:
            continue
        tags = keys.get("tag")
        for name in (keys.get("group", keys.get("task")), *(tags if isinstance(tags, list) else [tags])):
            if isinstance(name, str):
                known.setdefault(name, []).append(path)
    return known
