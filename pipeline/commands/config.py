"""``headrace config``: the composed configuration as YAML, with the source of each value.

headrace config experiment=demo optimizer.beta1=0.8    what these arguments would run
headrace config                                        what headrace run would run
headrace config small                                  what the run of this name, id or path was started with
headrace config experiment=demo --json                 one JSON object: config, and sources in the same shape

    optimizer:
      type: adamw              # optimizer=adamw
      learning_rate: 0.002     # experiment=demo
      beta1: 0.8               # command line
      beta2: 0.95              # optimizer=adamw

A source is an option of a group (with its file when it is your own), ``command line``, ``seed`` (that of the run), or
``default``: a value that no file and no override gives. The values are checked as before a run; nothing is started. For
a run that was started they are those of its run.json, below the command that started it.
"""

import dataclasses
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from headrace.pipeline.command_line.choice import chosen_run
from headrace.pipeline.command_line.config_sources import leaves, source_at, sources_of
from headrace.pipeline.command_line.declaration import command, run_argument
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.yaml_values import yaml_text
from headrace.pipeline.core.kinds import TAG
from headrace.pipeline.core.secrets import without_secrets
from headrace.pipeline.run.planner import stages_up_to
from headrace.pipeline.run.saved_run import RUN_JSON

WIDEST = 60
"""Comments begin at most in this column, unless the value is longer."""

CommentedLine = tuple[str, str]
"""A line of YAML and its comment."""


@command
@run_argument
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the values and their sources.")
def config(overrides: Sequence[str], run: str, as_json: bool) -> None:
    """Prints the settings of a run before it is started, or of RUN, with the source of each value."""
    saved = chosen_run(overrides, run) if run else None
    if saved:
        values: Mapping[str, Any] = saved.values["config"]
        sources: Mapping[str, Any] = dict.fromkeys(values, RUN_JSON)
    else:
        values, sources = composed(overrides)
    shown = without_secrets(values)
    if as_json:
        print(json.dumps({"config": shown, "sources": sources}, ensure_ascii=False))
        return
    if saved:
        print(f"# {shlex.join(['headrace', *saved.values['overrides']])}")
    lines = list(yaml_lines(shown, sources))
    column = min(max(len(text) for text, _ in lines) + 2, WIDEST)
    for text, comment in lines:
        print(f"{text:<{column - 2}}  # {comment}" if comment else text)


def composed(overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the values that ``overrides`` lead to, with the defaults of the classes, and their sources.

    Raises:
        ConfigError: when they are no settings that could run.
    """
    checked = decoded(compose(overrides))
    stages_up_to(checked)
    return json.loads(json.dumps(dataclasses.asdict(checked), default=str)), sources_of(overrides)


def yaml_lines(values: Mapping[str, Any], sources: Any, indent: str = "") -> Iterator[CommentedLine]:
    """Yields ``values`` as lines of YAML, each with the source of its value; a ``type`` comes first."""
    for key, value in sorted(values.items(), key=lambda item: indent != "" and item[0] != TAG):
        source = source_at(sources, key)
        if isinstance(value, dict) and value:
            yield f"{indent}{_flow(key)}:", ""
            yield from yaml_lines(value, source, indent + "  ")
        elif isinstance(value, list) and value and all(isinstance(entry, dict) and entry for entry in value):
            yield f"{indent}{_flow(key)}:", ""
            for number, entry in enumerate(value):
                first, *others = yaml_lines(entry, source_at(source, number), indent + "    ")
                yield f"{indent}  - {first[0].lstrip()}", first[1]
                yield from others
        else:
            yield f"{indent}{_flow(key)}: {_flow(value)}", ", ".join(dict.fromkeys(leaves(source)))


def _flow(value: Any) -> str:
    """Returns ``value`` in one line of YAML."""
    return yaml_text(value, default_flow_style=True).rstrip().removesuffix("...").rstrip()
