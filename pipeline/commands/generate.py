"""``headrace generate``: the text that a model writes after a prompt, or in a conversation.

headrace generate --prompt "The mill"                          your newest weights below the root, greedily
headrace generate --prompt "The mill" --run small              the weights of a run
headrace generate --prompt "The mill" --model path/to/gpt2     any causal model in Hugging Face's format
headrace generate --prompt "The mill" --temperature 0.8 --top-p 0.95 --seed 3 --samples 4
headrace generate --prompt "The mill" --beams 4 --length-penalty 0.6
headrace generate --prompts prompts.txt --stop '\\n' > texts.jsonl
headrace generate --prompt "The mill" > text.txt               for headrace why text.txt --as text
headrace generate --chat --run small --system "Answer in one sentence."    a conversation in the terminal
echo "Who are you?" | headrace generate --chat --run small     one line in, one answer out

Without --temperature, --top-k and --top-p, generation_config.json of the model decides, and a line says so; a model
without this file, or without do_sample in it, writes greedily.

A single text is printed while it is generated. Several are printed as JSON lines, in the order of the prompts:

    {"prompt": "The mill", "text": " wheel turns.", "ending": "stop", "tokens": 5, "lost_prompt_tokens": 0}

A conversation is with the model of a run that learned conversations, else with its weights. The model reads all
messages, in the chat template of its tokenizer_config.json. A model without one gets lines that begin with "User:" and
"Assistant:". When the messages do not fit the model's window, the oldest ones are removed.

    /reset    begins a new conversation
    /quit     ends the command, as does Ctrl-D
    Ctrl-C    ends the answer, not the command
"""

import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import command, run_option, sampling_options
from headrace.pipeline.command_line.model_options import (
    chat_model_of,
    file_lines,
    given_sampling,
    model_folder,
    sampling_of,
)
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.environment import let_threads_sleep
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.core.signals import Stop
from headrace.pipeline.output.terminal import to_file, to_terminal
from headrace.train.inference.language_model import Chat, GeneratedTexts
from headrace.train.inference.language_model import generate as generated
from headrace.train.inference.settings import Sampling

OF_CHATS = "/reset begins a new conversation, /quit ends; Ctrl-C ends an answer"


@command
@click.option("--prompt", metavar="TEXT", default=None, help="The text to go on from; '' is the beginning of one.")
@click.option("--prompts", metavar="FILE", default="", type=click.Path(), help="A file of prompts, one a line.")
@click.option("--chat", "talks", is_flag=True, help="Talk to the model: each line of the input gets an answer.")
@click.option("--system", metavar="TEXT", default="", help="With --chat: the first message, which says how to answer.")
@click.option("--model", metavar="FOLDER", default="", type=click.Path(), help="A model in Hugging Face's format.")
@click.option("--beams", metavar="N", default="", help="Find the most likely text by beam search with N texts.")
@click.option("--length-penalty", metavar="A", default="", help="How much beam search favours longer texts; 0: not.")
@sampling_options
@click.option("--samples", metavar="N", default="", help="Texts for each prompt.")
@run_option
def generate(
    overrides: Sequence[str],
    prompt: str | None,
    prompts: str,
    talks: bool,
    system: str,
    model: str,
    samples: str,
    run: str,
    **sampling: str,
) -> None:
    """Prints what the weights of a run, or the model in FOLDER, write after a prompt, or in a chat."""
    if talks and (prompt is not None or prompts or samples):
        problem, remedy = "is given with options of a prompt", "leave out --prompt, --prompts and --samples"
        raise ConfigError("--chat", problem, remedy)
    if system and not talks:
        raise ConfigError("--system", "is given without --chat", "give both")
    config = config_of(overrides)
    asked, given = [] if talks else prompts_of(prompt, prompts, samples), given_sampling(sampling)
    folder = chat_model_of(config.root, run) if talks and not model else model_folder(config.root, model, run)
    choice = sampling_of(given, folder)
    let_threads_sleep()
    if talks:
        talk(Chat.open(folder, config.evaluation, choice, system), folder)
    else:
        show(config, asked, folder, choice)


def show(config: RunConfig, prompts: Sequence[str], folder: Path, sampling: Sampling) -> None:
    """Prints a text for each of ``prompts``, and time and memory to the standard error."""
    is_one = len(prompts) == 1
    shown = to_terminal if sys.stdout.isatty() else to_file
    begin = time.perf_counter()
    written = generated(folder, config.evaluation, prompts, sampling, shown if is_one else lambda *_: None)
    seconds = time.perf_counter() - begin
    if is_one:
        print(flush=True)
    for generation in () if is_one else written.generations:
        values = {
            "prompt": generation.prompt,
            "text": generation.text,
            "ending": generation.ending,
            "tokens": len(generation.tokens),
            "lost_prompt_tokens": generation.lost_tokens,
        }
        print(json.dumps(values, ensure_ascii=False))
    print(*summary(written, seconds), sep="\n", file=sys.stderr)


def summary(written: GeneratedTexts, seconds: float) -> list[str]:
    """Returns the lines about tokens, endings, prompts that did not fit, and the memory of the cache."""
    tokens = sum(len(generation.tokens) for generation in written.generations)
    endings = [generation.ending for generation in written.generations]
    counts = ", ".join(f"{endings.count(ending)} by {ending}" for ending in sorted(set(endings)))
    lines = [f"{tokens:,} tokens in {seconds:.1f} s with loading the model; texts ended: {counts}"]
    if written.cache_formula:
        lines += [f"cache: {written.cache_formula}; {written.cache_bytes:,} bytes for the longest sequence"]
    if lost := sum(generation.lost_tokens > 0 for generation in written.generations):
        lines += [f"cut on the left, to fit the window with the new tokens: {lost} prompts"]
    return lines


def prompts_of(prompt: str | None, file: str, samples: str) -> list[str]:
    """Returns the prompts: one text, or the lines of a file (of a .jsonl: their field ``prompt``).

    Raises:
        ConfigError: when there is none, or the file cannot be read, naming its line.
    """
    if (prompt is not None) == bool(file):
        problem = "both --prompt and --prompts are given" if file else "no prompt is given"
        raise ConfigError("--prompt", problem, "give --prompt TEXT, or --prompts FILE with one a line")
    copies = value_of(Positive, samples or "1", "--samples")
    prompts = file_lines(Path(file), "--prompts", "prompt") if prompt is None else [prompt]
    return [text for text in prompts for _ in range(copies)]


def talk(conversation: Chat, folder: Path) -> None:
    """Answers each line of the standard input with the model in ``folder``, until it ends or is /quit."""
    if not conversation.has_own_template:
        print(f'{folder} has no chat template: lines "User: …" and "Assistant: …" are used', file=sys.stderr)
    if sys.stdin.isatty():
        print(OF_CHATS, file=sys.stderr)
    for line in messages():
        if line == "/quit":
            return
        if line == "/reset":
            conversation.reset()
        elif line.startswith("/") and line[1:].isalpha():
            print(f"{line} is no command: {OF_CHATS}", file=sys.stderr)
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

    def show_part(part: str) -> None:
        nonlocal is_begun
        part = part if is_begun else part.lstrip()
        is_begun = is_begun or bool(part)
        shown(0, part)

    try:
        conversation.answer(line, show_part)
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
