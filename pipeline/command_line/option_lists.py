"""Lists the options of a group for help, with a line about each.

Options (optimizer=NAME; headrace help optimizer=NAME shows its values):
  adamw (default)  AdamW with the moments and the decay of GPT-3 (Brown et al. 2020, appendix B).
"""

from headrace.pipeline.command_line.help_text import paragraph, rows
from headrace.pipeline.configuration.option_values import option_values, yaml_values
from headrace.pipeline.configuration.options import CONF, EXPERIMENT, about, groups, option_file
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.secrets import redacted


def default_option(group: str) -> str:
    """Returns the option of ``group`` in conf/config.yaml."""
    defaults = yaml_values((CONF / "config.yaml").read_text(encoding="utf-8"))["defaults"]
    return next(str(entry[group]) for entry in defaults if isinstance(entry, dict) and group in entry)


SMALL = "two CPU cores"
"""The comment of an experiment that needs no more names them."""


def options_text(group: str) -> list[str]:
    """Returns the options of ``group``, with a line for each: its description, or what is wrong with its file.

    Experiments for two CPU cores come first.
    """
    described_options = {name: _description(group, name) for name in groups()[group]}
    shown = paragraph(f"Options ({group}=NAME; headrace help {group}=NAME shows its values):")
    if group == EXPERIMENT:
        small = [name for name, text in described_options.items() if SMALL in text]
        others = [name for name in described_options if name not in small]
        parts = [(f"For {SMALL}:", small), ("Others; those of published models need GPUs:", others)]
        lists = [(paragraph(title), rows((name, described_options[name]) for name in names)) for title, names in parts]
        return [shown, *(line for text in lists for line in ("", *text))]
    chosen = default_option(group)
    marked = ((f"{name} (default)" if name == chosen else name, text) for name, text in described_options.items())
    return [shown, rows(marked)]


def _description(group: str, option: str) -> str:
    try:
        option_values(group, option)
    except ConfigError as error:
        return f"Broken: {error}."
    return redacted(about(option_file(group, option)))
