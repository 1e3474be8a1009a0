"""Mistakes in the arguments of the command line, as errors of ours: one line, exit status 2."""

import contextlib
from collections.abc import Iterator

import click

from headrace.pipeline.core.errors import ConfigError, suggestion

WHERE = "command line"


@contextlib.contextmanager
def plain_errors(ctx: click.Context) -> Iterator[None]:
    """Turns what click finds wrong with the arguments of ``ctx`` into an error of ours.

    Raises:
        ConfigError: instead of a click.UsageError.
    """
    try:
        yield
    except click.NoSuchOption as error:
        known = [name for param in ctx.command.get_params(ctx) for name in param.opts if name.startswith("--")]
        wrong = f"{ctx.info_name} has no option {error.option_name!r}"
        raise ConfigError(WHERE, wrong, suggestion(error.option_name, known)) from None
    except click.MissingParameter as error:
        raise ConfigError(WHERE, f"{ctx.info_name} needs {_needed(ctx, error.param)}", _usage(ctx)) from None
    except click.UsageError as error:
        raise ConfigError(WHERE, error.format_message().rstrip("."), _usage(ctx)) from None


def _needed(ctx: click.Context, param: click.Parameter | None) -> str | None:
    """Returns the name of the missing ``param``; ``two runs`` for one of two arguments that are both called RUN."""
    if not isinstance(param, click.Argument):
        return None if param is None else param.opts[-1]
    required = [one.metavar for one in ctx.command.params if isinstance(one, click.Argument) and one.required]
    return f"two {str(param.metavar).lower()}s" if required.count(param.metavar) == 2 else param.metavar


def _usage(ctx: click.Context) -> str:
    return f"usage: {ctx.command_path} {' '.join(ctx.command.collect_usage_pieces(ctx))}"
