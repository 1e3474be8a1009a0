"""``headrace chat``: a conversation with a model in the terminal.

headrace chat                              your newest weights below the root
headrace chat small                        the weights of a run; if it learned conversations, the model that did
headrace chat path/to/model                any causal model or encoder–decoder in Hugging Face's format
headrace chat small --temperature 0.8 --top-p 0.95 --seed 3 --system "Answer in one sentence."
echo "Who are you?" | headrace chat small  one line in, one answer out

The model reads all messages, in the chat template of its tokenizer_config.json. A model without one gets lines that
begin with "User:" and "Assistant:". Its generation_config.json decides how tokens are drawn, unless --temperature,
--top-k or --top-p does; without it they are the most likely ones. When the messages do not fit the model's window, the
oldest ones are removed.

    /reset    begins a new conversation
    /quit     ends the command, as does Ctrl-D
    Ctrl-C    ends the answer, not the command
"""

import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import command, run_argument, sampling_options
from headrace.pipeline.command_line.model_options import chat_model_of, given_sampling, sampling_of
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.core.environment import let_threads_sleep
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.signals import Stop
from headrace.pipeline.output.terminal import to_file, to_terminal
from headrace.train.inference.language_model import Chat

COMMANDS = "/reset begins a new conversation, /quit ends; Ctrl-C ends an answer"


@command
@click.option("--system", metavar="TEXT", default="", help="The first message, which says how to answer.")
@sampling_options
@run_argument
def chat(overrides: Sequence[str], run: str, system: str, **sampling: str) -> None:
    """Talks to the model of a run, or in a folder: history, chat template, streamed answers."""
    config, given = config_of(overrides), given_sampling(sampling)
    is_folder = bool(run) and (Path(run) / "config.json").is_file()
    folder = Path(run) if is_folder else chat_model_of(config.root, run)
    choice = sampling_of(given, folder)
    let_threads_sleep()
    conversation = Chat.open(folder, config.evaluation, choice, system)
    if not conversation.has_own_template:
        print(f'{folder} has no chat template: lines "User: …" and "Assistant: …" are used', file=sys.stderr)
    talk(conversation)


def talk(conversation: Chat) -> None:
    """Answers each line of the standard input, until it ends or is /quit."""
    if sys.stdin.isatty():
        print(COMMANDS, file=sys.stderr)
    for line in messages():
        if line == "/quit":
            return
        if line == "/reset":
            conversation.reset()
        elif line.startswith("/") and line[1:].isalpha():
            print(f"{line} is no command: {COMMANDS}", file=sys.stderr)
        else:
            answer(conversation, line)


def messages() -> Iterator[str]:
    """Yields the lines of the standard input that are not blank. Ctrl-C drops what was typed of a line."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            line = input(prompt).strip()
        except EOFError:
            return
        except Stop as stop:
            interrupted(stop)
            continue
        if line:
            yield line


def answer(conversation: Chat, line: str) -> None:
    """Prints the answer to ``line`` while it is generated; an error of one message does not end the conversation."""
    shown = to_terminal if sys.stdout.isatty() else to_file
    is_begun = False

    def show(part: str) -> None:
        nonlocal is_begun
        part = part if is_begun else part.lstrip()
        is_begun = is_begun or bool(part)
        shown(0, part)

    try:
        conversation.answer(line, show)
    except Stop as stop:
        interrupted(stop)
    except ConfigError as error:
        print(f"headrace: {error}", file=sys.stderr)
    print(flush=True)


def interrupted(stop: Stop) -> None:
    """Ends a line after Ctrl-C.

    Raises:
        Stop: when another signal came, which ends the command.
    """
    if stop.number != signal.SIGINT:
        raise stop
    print(file=sys.stderr)
