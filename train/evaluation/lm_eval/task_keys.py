"""Reads the keys of a task's YAML, each checked as it is taken.

dataset_kwargs: {data_files: {test: quiz.jsonl}} ── TaskReader ──> DataFiles("json", {"test": ("quiz.jsonl",)})
"""

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from headrace.train.evaluation.lm_eval.task_filters import NO_FILTER, FilterPipeline, filter_pipelines
from headrace.train.evaluation.lm_eval.task_yaml import TaskKeys, refused

OutputType = Literal["multiple_choice", "loglikelihood", "loglikelihood_rolling", "generate_until"]
OUTPUT_TYPES = ("multiple_choice", "loglikelihood", "loglikelihood_rolling", "generate_until")
DataFormat = Literal["json", "csv", "parquet", "text"]
FORMATS = ("json", "csv", "parquet", "text")
"""The values of ``dataset_path`` that name files and no hub."""
Sampler = Literal["default", "first_n"]
SAMPLERS = ("default", "first_n")
PROMPT = ("doc_to_text", "doc_to_target", "doc_to_choice", "gen_prefix", "target_delimiter", "fewshot_delimiter")
"""Keys that ``fewshot_config`` may have, too, for worked examples."""
SPLITS = ("training_split", "validation_split", "test_split", "fewshot_split")
GREEDY = {"do_sample": (False, None), "temperature": (0, None)}
"""Key of ``generation_kwargs`` → the values with which the harness takes the most likely token."""
IDLE = ("top_p", "top_k")
"""Keys of ``generation_kwargs`` that greedy decoding does not look at."""
LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Names of the most tokens of a text; the harness takes the first of these (models/utils.py, normalize_gen_kwargs)."""
MOST_TOKENS = 256


@dataclasses.dataclass(frozen=True)
class PromptTemplates:
    """The parts of a prompt: names of fields, or Jinja templates over a record."""

    doc_to_text: str | int
    doc_to_target: str | int | tuple[Any, ...]
    doc_to_choice: str | tuple[str, ...] | None = None
    gen_prefix: str | None = None
    """The text that the answer begins with."""
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"


@dataclasses.dataclass(frozen=True)
class WorkedExamples:
    """The source of worked examples."""

    templates: PromptTemplates
    split: str | None
    """The split that ``fewshot_split`` or ``fewshot_config.split`` names."""
    samples: tuple[Mapping[str, Any], ...] | None
    """Records in the YAML itself."""
    sampler: Sampler


@dataclasses.dataclass(frozen=True)
class DataFiles:
    """The files of a task's records."""

    format: DataFormat
    paths: Mapping[str, tuple[str, ...]]
    """Name of a split → its files, as they are written."""
    separator: str = ","
    """Between the cells of CSV."""


@dataclasses.dataclass(frozen=True)
class TaskReader:
    """The keys of a task, checked as they are taken."""

    path: Path
    keys: TaskKeys

    def text(self, key: str, default: str | None = None) -> str:
        value = self.keys.get(key, default)
        if not isinstance(value, str):
            problem = f"{key} is {value!r}" if key in self.keys else f"has no key {key!r}"
            raise refused(self.path, problem, "give it a text, in quotes where it looks like a number")
        return value

    def one_of(self, key: str, names: Collection[str], default: str) -> str:
        value = self.text(key, default)
        if value not in names:
            raise refused(self.path, f"{key} is {value!r}", f"take {', '.join(names)}")
        return value

    def table(self, key: str, known: Collection[str]) -> TaskKeys:
        """Returns the keys below ``key``."""
        value = self.keys.get(key, {})
        if not isinstance(value, Mapping):
            raise refused(self.path, f"{key} is {value!r}", "write KEY: VALUE lines below it")
        for name in value:
            if name not in known:
                raise refused(self.path, f"{key} has {name!r}, which is not read", f"take {', '.join(known)}")
        return {name: own for name, own in value.items() if own is not None}

    def shots(self) -> int | None:
        shots = self.keys.get("num_fewshot")
        if shots is not None and (not isinstance(shots, int) or shots < 0):
            raise refused(self.path, f"num_fewshot is {shots!r}", "give a number of worked examples")
        return shots

    def templates(self) -> PromptTemplates:
        text, target = self.keys.get("doc_to_text"), self.keys.get("doc_to_target")
        if not isinstance(text, str | int) or isinstance(text, bool):
            raise refused(self.path, f"doc_to_text is {text!r}", "give a field or a template")
        if not isinstance(target, str | int | list) or isinstance(target, bool):
            raise refused(self.path, f"doc_to_target is {target!r}", "give a field, a template or an index")
        return PromptTemplates(
            doc_to_text=text,
            doc_to_target=tuple(target) if isinstance(target, list) else target,
            doc_to_choice=self._choices(),
            gen_prefix=self.text("gen_prefix") if "gen_prefix" in self.keys else None,
            target_delimiter=self.text("target_delimiter", " "),
            fewshot_delimiter=self.text("fewshot_delimiter", "\n\n"),
        )

    def _choices(self) -> str | tuple[str, ...] | None:
        choices = self.keys.get("doc_to_choice")
        if choices is None or isinstance(choices, str):
            return choices
        texts = tuple(choices.values()) if isinstance(choices, Mapping) else choices
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise refused(self.path, f"doc_to_choice is {choices!r}", "give texts, in quotes: YAML reads no as false")
        return tuple(texts)

    def worked(self, templates: PromptTemplates, split: str | None) -> WorkedExamples:
        own = self.table("fewshot_config", ("sampler", "split", "samples", *PROMPT))
        reader = TaskReader(self.path, {key: value for key, value in self.keys.items() if key in PROMPT} | dict(own))
        samples = own.get("samples")
        is_list = isinstance(samples, list) and all(isinstance(record, Mapping) for record in samples)
        if samples is not None and not is_list:
            raise refused(self.path, f"fewshot_config.samples is {samples!r}", "give a list of records")
        return WorkedExamples(
            templates=reader.templates() if own else templates,
            split=reader.text("split") if "split" in own else split,
            samples=None if samples is None else tuple(samples),
            sampler=cast(Sampler, reader.one_of("sampler", SAMPLERS, "default")),
        )

    def data(self) -> DataFiles:
        source = self.text("dataset_path")
        if source not in FORMATS:
            remedy = f"write dataset_path: {' or '.join(FORMATS)} and name local files in dataset_kwargs.data_files"
            raise refused(self.path, f"dataset_path {source!r} needs a hub", remedy)
        known = ("data_files", "sep", "delimiter", "trust_remote_code")
        own = self.table("dataset_kwargs", known)
        if source != "csv" and {"sep", "delimiter"} & own.keys():
            raise refused(self.path, f"dataset_kwargs has a separator for {source}", "remove it")
        files = own.get("data_files")
        by_split = files if isinstance(files, Mapping) else {"train": files}
        paths = {str(split): self._paths(names) for split, names in by_split.items()}
        separator = own.get("delimiter", own.get("sep", ","))
        if not isinstance(separator, str) or len(separator) != 1:
            raise refused(self.path, f"the separator of CSV is {separator!r}", "give one character")
        return DataFiles(cast(DataFormat, source), paths, separator)

    def _paths(self, names: Any) -> tuple[str, ...]:
        paths = [names] if isinstance(names, str) else names
        if not isinstance(paths, list) or not paths or not all(isinstance(name, str) for name in paths):
            problem = f"dataset_kwargs.data_files holds {names!r}"
            raise refused(self.path, problem, "give the file or the list of files of each split")
        for name in paths:
            if "://" in name or "*" in name:
                raise refused(self.path, f"data_files names {name!r}", "name each local file")
        return tuple(paths)

    def filters(self, output_type: OutputType) -> tuple[FilterPipeline, ...]:
        pipelines = filter_pipelines(self.path, self.keys.get("filter_list"))
        if output_type != "generate_until" and pipelines != NO_FILTER:
            raise refused(self.path, f"filter_list changes likelihoods of {output_type}", "remove it")
        return pipelines

    def generation(self, output_type: OutputType, delimiter: str) -> tuple[tuple[str, ...], int]:
        """Returns the stops and the most tokens of a text."""
        if output_type != "generate_until":
            return (), MOST_TOKENS
        own = self.table("generation_kwargs", ("until", *LENGTHS, *GREEDY, *IDLE))
        for key, greedy in GREEDY.items():
            if own.get(key) not in greedy and own.get("do_sample") is not False:
                raise refused(self.path, f"{key} is {own[key]!r}: texts drawn at random", "write do_sample: false")
        until = own.get("until", [delimiter])
        stops = [until] if isinstance(until, str) else until
        if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
            raise refused(self.path, f"generation_kwargs.until is {until!r}", "give a text or a list of texts")
        tokens = next((own[key] for key in LENGTHS if key in own), MOST_TOKENS)
        if not isinstance(tokens, int) or tokens < 1:
            raise refused(self.path, f"the most tokens of a text are {tokens!r}", "give a number above 0")
        return tuple(stop for stop in stops if stop), tokens
