"""``headrace help``: explains a command, a group of settings, an option of a group, or one setting.

headrace help                          all commands, groups and settings
headrace help optimizer                a group: its options and every setting, with type, default and meaning
headrace help source=warc              an option of a group, with its values
headrace help training.steps           one setting, with its value in each option of the group
headrace help cleaning.filters         the types of filters, one line each
headrace help c4_lines                 the settings of one filter
headrace help runs                     a command: its options, examples and output; also headrace runs --help

    optimizer: The optimizer of the weights.

    Options (optimizer=NAME; headrace help optimizer=NAME shows its values):
      adamw (default)  AdamW with the moments and the decay of GPT-3 (Brown et al. 2020, appendix B).

    Settings (optimizer.KEY=VALUE):
      learning_rate  number from 0 to 10; default 0.0006
                     The peak; the schedule scales it.
"""

from collections.abc import Sequence

import click

from headrace.pipeline.command_line import setting_help
from headrace.pipeline.command_line.declaration import command
from headrace.pipeline.command_line.group import COMMANDS, obey
from headrace.pipeline.core.errors import ConfigError


@command
@click.argument("topic", metavar="[COMMAND|GROUP|GROUP=OPTION|SETTING]", required=False, default="")
def help(overrides: Sequence[str], topic: str) -> None:
    """Explains a command, a group, an option of a group, or a setting: type, default, bounds and meaning."""
    topics = [word for word in (topic, *overrides) if word]
    if len(topics) > 1:
        raise ConfigError("help", f"explains one thing, not {len(topics)} ({', '.join(topics)})", "ask for one")
    if not topics:
        obey(["--help"])
    elif topics[0] in COMMANDS:
        obey([topics[0], "--help"])
    else:
        print(setting_help.explanation(topics[0]))
