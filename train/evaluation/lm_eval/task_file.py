"""A task of lm-evaluation-harness as its YAML file describes it. What cannot be the same here is refused by its name.

    task: quiz                                          the harness's keys (docs/task_guide.md, version 0.4.13)
    output_type: multiple_choice
    dataset_path: json
    dataset_kwargs: {data_files: {test: quiz.jsonl}}    below the YAML's folder, or evaluation.data
    test_split: test
    doc_to_text: "Question: {{question}}\\nAnswer:"
    doc_to_choice: "{{choices}}"
    doc_to_target: "{{answer}}"

Python functions, data of a hub, and settings that nothing here computes are errors: a score never differs in silence.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from headrace.pipeline.core.errors import suggestion
from headrace.train.evaluation.lm_eval.task_filters import FilterPipeline
from headrace.train.evaluation.lm_eval.task_keys import (
    OUTPUT_TYPES,
    PROMPT,
    SPLITS,
    DataFiles,
    OutputType,
    PromptTemplates,
    TaskReader,
    WorkedExamples,
)
from headrace.train.evaluation.lm_eval.task_metrics import TaskMetric, task_metrics
from headrace.train.evaluation.lm_eval.task_yaml import TaskKeys, functions, read_keys, refused

PYTHON = (
    *("process_docs", "process_results", "custom_dataset", "class"),
    *("use_prompt", "doc_to_image", "doc_to_audio", "unsafe_code"),
)
"""Keys that need Python code, another package or another kind of model."""
UNUSED = (
    *("tag", "group", "task_alias", "metadata", "dataset_name"),
    *("should_decontaminate", "doc_to_decontamination_query"),
)
"""Keys that change no prompt and no metric."""
KEYS = (
    *("task", "output_type", "dataset_path", "dataset_kwargs", *SPLITS, *PROMPT),
    *("description", "fewshot_config", "num_fewshot", "metric_list", "filter_list", "generation_kwargs", "repeats"),
)
"""Keys that decide prompts and metrics."""


@dataclasses.dataclass(frozen=True)
class TaskFile:
    """A task."""

    path: Path
    files: tuple[Path, ...]
    """The YAML and those that it includes."""
    name: str
    output_type: OutputType
    data: DataFiles
    test_split: str | None
    splits: Mapping[str, str]
    """Key, such as ``training_split`` → name of the split."""
    templates: PromptTemplates
    description: str
    worked: WorkedExamples
    shots: int | None
    """``num_fewshot``; 0 in the file cannot be overridden, as in the harness."""
    metrics: tuple[TaskMetric, ...]
    filters: tuple[FilterPipeline, ...]
    stops: tuple[str, ...]
    max_tokens: int

    @property
    def question_split(self) -> str:
        """The split whose records are asked about."""
        return self.splits.get("test_split") or self.splits["validation_split"]

    @property
    def worked_split(self) -> str:
        """The split of worked examples that are not in the YAML itself."""
        named = (self.splits.get(key) for key in ("training_split", "validation_split", "test_split"))
        return self.worked.split or next(split for split in named if split)


def read_task(path: Path) -> TaskFile:
    """Returns the task of the YAML ``path``.

    Raises:
        ConfigError: naming the file, the key, and what to do about a value that is not read.
    """
    keys, files = read_keys(path)
    _check_keys(path, keys)
    keys = {key: value for key, value in keys.items() if value is not None}
    reader = TaskReader(path, keys)
    output_type = cast(OutputType, reader.one_of("output_type", OUTPUT_TYPES, "generate_until"))
    splits = {key: reader.text(key) for key in SPLITS if key in keys}
    if not {"test_split", "validation_split"} & splits.keys():
        raise refused(path, "has neither test_split nor validation_split", "name the split that is asked about")
    if keys.get("repeats", 1) != 1:
        raise refused(path, f"repeats is {keys['repeats']!r}", "write repeats: 1; greedy texts are all alike")
    templates = reader.templates()
    if output_type == "multiple_choice" and templates.doc_to_choice is None:
        raise refused(path, "has no doc_to_choice", "give the choices of output_type: multiple_choice")
    stops, max_tokens = reader.generation(output_type, templates.fewshot_delimiter)
    return TaskFile(
        path=path,
        files=files,
        name=reader.text("task"),
        output_type=output_type,
        data=reader.data(),
        test_split=splits.get("test_split"),
        splits=splits,
        templates=templates,
        description=reader.text("description", ""),
        worked=reader.worked(templates, splits.get("fewshot_split")),
        shots=reader.shots(),
        metrics=task_metrics(path, keys.get("metric_list"), output_type),
        filters=reader.filters(output_type),
        stops=stops,
        max_tokens=max_tokens,
    )


def _check_keys(path: Path, keys: TaskKeys) -> None:
    if isinstance(keys.get("task"), list) or "task_list" in keys:
        raise refused(path, "is a group of tasks", "give the YAML of each task")
    for key, value in keys.items():
        for function in functions(value) if key not in UNUSED else ():
            problem = f"{key} is the Python function {function.name} ({function.place})"
            raise refused(path, problem, "override the key, or run the task by evaluation.tasks")
        if key in PYTHON and value:
            raise refused(path, f"{key} is {value!r}", "remove it, or run the task by evaluation.tasks")
        if key not in (*KEYS, *UNUSED, *PYTHON):
            raise refused(path, f"no key is named {key!r}", suggestion(key, (*KEYS, *UNUSED)))
