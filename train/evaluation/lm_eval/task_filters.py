"""Filters of written texts: what of a text is compared with the right answer. As lm-evaluation-harness's filters/.

    filter_list:
      - {name: strict-match, filter: [{function: regex, regex_pattern: "#### ([0-9]+)"}, {function: take_first}]}

Each text is written once, so ``take_first``, the last function of a pipeline, takes the only one.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.train.evaluation.lm_eval.task_yaml import refused

TAKE_FIRST = "take_first"
PATTERN = r"#### (\-?[0-9\.\,]+)"
"""The harness's own pattern where none is given: the number of GSM8K."""
INVALID = "[invalid]"
TextFilter = Callable[[str], str]


@dataclasses.dataclass(frozen=True)
class FilterPipeline:
    """Functions that a text goes through, one after the other."""

    name: str
    functions: tuple[TextFilter, ...] = ()

    def __call__(self, text: str) -> str:
        return functools.reduce(lambda filtered, function: function(filtered), self.functions, text)

    def metric(self, name: str) -> str:
        """Returns the name of the metric ``name`` of texts that went through this pipeline."""
        return name if self.name == "none" else f"{name} ({self.name})"


NO_FILTER = (FilterPipeline("none"),)


@dataclasses.dataclass(frozen=True)
class RegexFilter:
    """The first or last match of a regular expression; of several groups the first that is not empty."""

    regex: re.Pattern[str]
    select: int = 0
    """0: the first match; -1: the last."""
    fallback: str = INVALID
    """The text where nothing matches."""

    def __call__(self, text: str) -> str:
        matches = self.regex.findall(text)
        if not matches:
            return self.fallback
        match = matches[self.select]
        groups = match if isinstance(match, tuple) else (match,)
        chosen = next((group for group in groups if group), self.fallback if isinstance(match, tuple) else "")
        return str(chosen).strip()


@dataclasses.dataclass(frozen=True)
class MappedTexts:
    """Texts for other texts."""

    texts: Mapping[str, str]
    default: str

    def __call__(self, text: str) -> str:
        return self.texts.get(text, self.default)


PLAIN: Mapping[str, TextFilter] = {"remove_whitespace": str.strip, "lowercase": str.lower, "uppercase": str.upper}
"""Functions without settings."""
SETTINGS = {"regex": ("regex_pattern", "group_select", "fallback"), "map": ("mapping_dict", "default_value")}
"""Function → its settings."""


def filter_pipelines(path: Path, filter_list: Any) -> tuple[FilterPipeline, ...]:
    """Returns the pipelines of ``filter_list`` of the task ``path``; None is one that changes nothing.

    Raises:
        ConfigError: naming a function or a value that is not read.
    """
    if filter_list is None:
        return NO_FILTER
    if not isinstance(filter_list, list) or not filter_list:
        raise refused(path, f"filter_list is {filter_list!r}", "give a list of pipelines")
    pipelines = tuple(_pipeline(path, entry) for entry in filter_list)
    if len({pipeline.name for pipeline in pipelines}) < len(pipelines):
        raise refused(path, "two pipelines of filter_list have one name", "rename one")
    return pipelines


def _pipeline(path: Path, entry: Any) -> FilterPipeline:
    if not isinstance(entry, Mapping) or entry.keys() != {"name", "filter"} or not isinstance(entry["filter"], list):
        raise refused(path, f"filter_list holds {entry!r}", "give each pipeline a name and a list, filter")
    steps = [step if isinstance(step, Mapping) else {} for step in entry["filter"]]
    names = [step.get("function") for step in steps]
    if TAKE_FIRST not in names or names.index(TAKE_FIRST) != len(names) - 1:
        problem = f"the pipeline {entry['name']!r} does not end with {TAKE_FIRST}"
        raise refused(path, problem, f"write function: {TAKE_FIRST} as its last function, and nowhere else")
    return FilterPipeline(str(entry["name"]), tuple(_function(path, step) for step in steps[:-1]))


def _function(path: Path, step: Mapping[str, Any]) -> TextFilter:
    name = step["function"]
    if name not in (*PLAIN, *SETTINGS):
        known = ", ".join((*PLAIN, *SETTINGS, TAKE_FIRST))
        raise refused(path, f"no filter {name!r} is read", f"take {known}, or run the task by evaluation.tasks")
    unknown = sorted(step.keys() - {"function", *SETTINGS.get(name, ())})
    if unknown:
        raise refused(path, f"the filter {name} has no setting {unknown[0]!r}", "remove it")
    if name in PLAIN:
        return PLAIN[name]
    return _regex(path, step) if name == "regex" else _mapping(path, step)


def _regex(path: Path, step: Mapping[str, Any]) -> RegexFilter:
    pattern, fallback = step.get("regex_pattern", PATTERN), step.get("fallback", INVALID)
    try:
        regex = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise refused(path, f"regex_pattern {pattern!r} is no regular expression ({error})", "correct it") from None
    select = step.get("group_select", 0)
    if select not in (0, -1) or not isinstance(fallback, str):
        problem = f"the filter regex has group_select {select!r} and fallback {fallback!r}"
        raise refused(path, problem, "take 0 or -1, which every match has, and a text")
    return RegexFilter(regex, select, fallback)


def _mapping(path: Path, step: Mapping[str, Any]) -> MappedTexts:
    texts, default = step.get("mapping_dict", {}), step.get("default_value")
    values = [*texts.values(), default] if isinstance(texts, Mapping) else [None]
    if not all(isinstance(value, str) for value in values):
        raise refused(path, "the filter map has a value that is no text", "give mapping_dict and default_value texts")
    return MappedTexts(texts, str(default))
