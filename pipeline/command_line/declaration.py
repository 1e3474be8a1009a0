"""The declaration of a command: one module of pipeline/commands/, with a function of its name.

    @command
    @click.argument("document", metavar="DOCUMENT_ID|URL")
    def why(overrides: Sequence[str], document: str) -> None:
        ...

The function takes the overrides of settings (``KEY=VALUE``), then what its decorators declare. The first line of its
docstring is its line in ``headrace --help``; the docstring of the module stands below the options in
``headrace why --help``. Decorators use ``click`` and the decorators of this module only, so that help and completion
can read them without the libraries that the command works with.

A command about a run as a whole takes it as its first argument (``run_argument``), every other one as ``--run RUN``
(``run_option``).
"""

import __future__

import ast
import contextlib
import importlib.util
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from headrace.pipeline.command_line.help_text import docstring
from headrace.pipeline.configuration.options import completions, names_setting
from headrace.pipeline.core.errors import ConfigError, local_path, suggestion
from headrace.pipeline.core.extras import loading

OVERRIDES = "[KEY=VALUE ...]"
PIPES = ("text", "clean", "unique", "tokens", "ready")
"""The commands that work on standard input: one module."""
ROOT = "root="
WHERE = "command line"
"""The place of a mistake in the arguments."""


def load(module: str) -> Any:
    """Imports ``module``, one of ours, when it is needed: the only import of ours that is not at the top of a file."""
    with loading():
        return importlib.import_module(f"headrace.pipeline.{module}")


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
        problem = f"{ctx.info_name} has no option {error.option_name!r}"
        arguments = {param.name for param in ctx.command.params if isinstance(param, click.Argument)}
        is_argument = error.option_name.lstrip("-") in arguments
        named = f"headrace {ctx.info_name} {error.option_name}"
        remedy = _usage_line(ctx) if is_argument else suggestion(error.option_name, known, named)
        raise ConfigError(WHERE, problem, remedy) from None
    except click.MissingParameter as error:
        raise ConfigError(WHERE, f"{ctx.info_name} needs {_needed(error.param)}", _usage_line(ctx)) from None
    except click.UsageError as error:
        raise ConfigError(WHERE, error.format_message().rstrip("."), _usage_line(ctx)) from None


def _needed(param: click.Parameter | None) -> str | None:
    """Returns the name of the missing ``param``."""
    if isinstance(param, click.Argument):
        return param.metavar
    return None if param is None else param.opts[-1]


def _usage_line(ctx: click.Context) -> str:
    return f"usage: {ctx.command_path} {' '.join(ctx.command.collect_usage_pieces(ctx))}"


class Command(click.Command):
    """A command whose arguments may be followed by overrides, and whose module is imported when it is invoked."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        return super().make_context(*arguments, **{"allow_extra_args": True, **extra})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, overrides = self.split(args)
        with plain_errors(ctx):
            left = super().parse_args(ctx, [*own])  # click empties its list
            if left and "--" in own and not ctx.resilient_parsing:
                raise click.UsageError(f"too many arguments: {' '.join(left)}")
        ctx.args = [*overrides, *left]
        return ctx.args

    def split(self, args: list[str]) -> tuple[list[str], list[str]]:
        """Splits ``args`` into arguments of the command and overrides.

        A document id, a URL or a path may hold ``=``. So an argument with ``=`` is an override when it names a
        setting, or when the arguments that the command requires are there already, as is ``~KEY``; not with ``/``
        before the ``=``. Where arguments are ``Existing``, the path of what exists is none. After ``--`` none is one.
        """
        options = [param for param in self.params if isinstance(param, click.Option) and not param.is_flag]
        takes_value = {name for option in options for name in option.opts}
        takes_paths = any(isinstance(param.type, Existing) for param in self.params)
        required = sum(isinstance(param, click.Argument) and param.required for param in self.params)
        end = args.index("--") if "--" in args else len(args)
        own, overrides, n_arguments = list[str](), list[str](), 0
        for before, argument in itertools.pairwise(["", *args[:end]]):
            is_text = before not in takes_value and not (argument.startswith("-") and argument != "-")
            is_key = "/" not in argument.partition("=")[0]
            is_override = is_key and ("=" in argument or argument.startswith("~")) and n_arguments >= required
            is_path = takes_paths and os.path.exists(argument)
            if is_text and not is_path and (is_override or names_setting(argument)):
                overrides.append(argument)
            else:
                own.append(argument)
                n_arguments += is_text
        return own + args[end:], overrides

    def invoke(self, ctx: click.Context) -> None:
        command = getattr(load(f"commands.{module_of(str(self.name))}"), str(self.name).replace("-", "_"))
        if self.name in PIPES and ctx.args:
            raise ConfigError(WHERE, f"{ctx.args[0]!r} sets nothing in {self.name}", "leave it out")
        is_short = any("=" in argument and not names_setting(argument) for argument in ctx.args)
        overrides = load("configuration.composition").with_full_names(ctx.args) if is_short else ctx.args
        ctx.invoke(command.callback, overrides, **ctx.params)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*(_usage(param, ctx) for param in self.params), *([] if self.name in PIPES else [OVERRIDES])]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\n{docstring(self.epilog or '')}\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return super().shell_complete(ctx, incomplete) + override_items(incomplete)


def override_items(incomplete: str) -> list[CompletionItem]:
    """Returns the overrides that begin with ``incomplete``, for completion."""
    return [CompletionItem(override) for override in completions(incomplete)]


def _usage(param: click.Parameter, ctx: click.Context) -> str:
    """Returns ``FILE``, ``--ids FILE`` or ``[--once]``."""
    if isinstance(param, click.Argument):
        return param.make_metavar(ctx)
    is_flag = isinstance(param, click.Option) and param.is_flag
    text = param.opts[-1] if is_flag else f"{param.opts[-1]} {param.make_metavar(ctx)}"
    return text if param.required else f"[{text}]"


def command(function: Callable[..., None]) -> Command:
    """Declares ``function`` as the command of its name, with hyphens for underscores."""
    return click.command(function.__name__.replace("_", "-"), cls=Command)(function)


def module_of(name: str) -> str:
    """Returns the name of the module of the command ``name``, which is that of its function, unless it is a pipe."""
    return "pipes" if name in PIPES else name.replace("-", "_")


class NewFile(click.Path):
    """The path of a file that the command writes when it has its results. It is checked before the command begins."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Returns ``value`` as a path.

        Raises:
            ConfigError: when no file can be written there.
        """
        path = local_path(str(value), param.opts[0] if param else "file")
        if path.is_dir():
            problem = f"{str(path)!r} is a folder"
        elif not path.parent.is_dir():
            problem = f"there is no folder {str(path.parent)!r}"
        elif not os.access(path.parent, os.W_OK | os.X_OK):
            problem = f"the folder {str(path.parent)!r} cannot be written to"
        else:
            return path
        raise ConfigError(param.opts[0] if param else "file", problem, "name another file")


class Existing(click.Path):
    """A path that may exist, such as a folder: the name of one that does may hold ``=``."""


def run_items(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the names of runs, or their ids, that begin with ``incomplete``, for completion."""
    roots = [argument.removeprefix(ROOT) for argument in ctx.args if argument.startswith(ROOT)]
    saved_run = load("run.saved_run")
    names = saved_run.labels(Path(roots[-1] if roots else saved_run.DEFAULT_ROOT))
    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(incomplete)]


def run_argument(function: Callable[..., None]) -> Callable[..., None]:
    """Declares the run as the first argument. Overrides complete in its place, too."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return run_items(ctx, param, incomplete) + override_items(incomplete)

    return click.argument("run", metavar="[RUN]", required=False, default="", shell_complete=complete)(function)


def run_option(function: Callable[..., None]) -> Callable[..., None]:
    """Declares the option ``--run``."""
    text = "A run's name, id (or the beginning of one) or path; your newest run without it."
    return click.option("--run", metavar="RUN", default="", help=text, shell_complete=run_items)(function)


SAMPLING = {
    "--max-tokens": ("N", "The most tokens of a text."),
    "--temperature": ("T", "Sample at this temperature; 0 is greedy."),
    "--top-k": ("K", "Sample from the K most probable tokens."),
    "--top-p": ("P", "Sample from the fewest tokens whose probabilities reach P."),
    "--seed": ("N", "The seed of the sampling."),
    "--stop": ("TEXT", "End a text before TEXT; a JSON list gives several."),
}


def sampling_options(function: Callable[..., None]) -> Callable[..., None]:
    """Declares the options that say how a model draws tokens; model_options.py reads them."""
    for name, (metavar, text) in reversed(SAMPLING.items()):
        function = click.option(name, metavar=metavar, default="", help=text)(function)
    return function


DECORATORS: dict[str, Any] = {
    "click": click,
    "Existing": Existing,
    "NewFile": NewFile,
    "command": command,
    "run_argument": run_argument,
    "run_option": run_option,
    "sampling_options": sampling_options,
}
"""The names that the declaration of a command may use."""


def read(name: str) -> Command:
    """Reads the declaration of the command ``name`` from the source of its module, without its imports."""
    module = module_of(name)
    spec = importlib.util.find_spec(f"headrace.pipeline.commands.{module}")
    source = str(spec and spec.origin)
    tree = ast.parse(Path(source).read_text(encoding="utf-8"))
    named = name.replace("-", "_")
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == named)
    function.body = function.body[:1]  # the docstring
    names = dict(DECORATORS)
    flags = __future__.annotations.compiler_flag  # annotations name what is not imported
    exec(compile(ast.Module([function], []), source, "exec", flags), names)
    declared: Command = names[named]
    declared.epilog = ast.get_docstring(tree)
    return declared
