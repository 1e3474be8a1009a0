"""``headrace generate``: the text that a model writes after a prompt.

headrace generate --prompt "The mill"                          your newest weights below the root, greedily
headrace generate --prompt "The mill" --run small              the weights of a run
headrace generate --prompt "The mill" --model path/to/gpt2     any causal model in Hugging Face's format
headrace generate --prompt "The mill" --temperature 0.8 --top-p 0.95 --seed 3 --samples 4
headrace generate --prompt "The mill" --beams 4 --length-penalty 0.6
headrace generate --prompts prompts.txt --stop '\\n' > texts.jsonl
headrace generate --prompt "The mill" > text.txt               for headrace why text.txt --as text
headrace generate --prompt "The mill" --alternatives 3         each token with its probability, and 3 others

Without --temperature, --top-k and --top-p, generation_config.json of the model decides, and a line says so; a model
without this file, or without do_sample in it, writes greedily.

A single text is printed while it is generated. Several are printed as JSON lines, in the order of the prompts:

    {"prompt": "The mill", "text": " wheel turns.", "ending": "stop", "tokens": 5, "lost_prompt_tokens": 0}

Probabilities are the model's own, before temperature, top k, top p and beams change the choice. With several texts they
are in the field "choices":

    token   p       -ln p  instead
    ␣wheel  0.4120  0.887  ␣stone 0.2010 (1.604), ␣river 0.0713 (2.641), ␣stands 0.0488 (3.020)
"""

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.model_options import file_lines, given_sampling, model_folder, sampling_of
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.environment import let_threads_sleep
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.output.terminal import show_rows, to_file, to_terminal
from headrace.pipeline.report.formatting import token_name
from headrace.train.inference.generator import TokenChoice
from headrace.train.inference.language_model import GeneratedTexts
from headrace.train.inference.language_model import generate as generated
from headrace.train.inference.settings import Sampling


@command
@click.option("--prompt", metavar="TEXT", default=None, help="The text to go on from; '' is the beginning of one.")
@click.option("--prompts", metavar="FILE", default="", type=click.Path(), help="A file of prompts, one a line.")
@click.option("--model", metavar="FOLDER", default="", type=click.Path(), help="A model in Hugging Face's format.")
@click.option("--max-tokens", metavar="N", default="", help="The most tokens of a text.")
@click.option("--temperature", metavar="T", default="", help="Sample at this temperature; 0 is greedy.")
@click.option("--top-k", metavar="K", default="", help="Sample from the K most probable tokens.")
@click.option("--top-p", metavar="P", default="", help="Sample from the fewest tokens whose probabilities reach P.")
@click.option("--beams", metavar="N", default="", help="Find the most likely text by beam search with N texts.")
@click.option("--length-penalty", metavar="A", default="", help="How much beam search favours longer texts; 0: not.")
@click.option("--seed", metavar="N", default="", help="The seed of the sampling.")
@click.option("--samples", metavar="N", default="", help="Texts for each prompt.")
@click.option("--stop", metavar="TEXT", default="", help="End a text before TEXT; a JSON list gives several.")
@click.option("--alternatives", metavar="K", default="", help="Print each token's probability, and K others instead.")
@run_option
def generate(
    overrides: Sequence[str],
    prompt: str | None,
    prompts: str,
    model: str,
    max_tokens: str,
    temperature: str,
    top_k: str,
    top_p: str,
    beams: str,
    length_penalty: str,
    seed: str,
    samples: str,
    stop: str,
    alternatives: str,
    run: str,
) -> None:
    """Prints what the weights of a run, or the model in FOLDER, write after a prompt."""
    config = config_of(overrides)
    asked = prompts_of(prompt, prompts, samples)
    numbers = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "beams": beams,
        "length_penalty": length_penalty,
        "seed": seed,
    }
    given = given_sampling(numbers, stop)
    others = value_of(Positive, alternatives, "--alternatives") if alternatives else 0
    folder = model_folder(config.root, model, run)
    show(config, asked, folder, sampling_of(given, folder), others)


def show(config: RunConfig, prompts: Sequence[str], folder: Path, sampling: Sampling, alternatives: int) -> None:
    """Prints a text for each of ``prompts``, and time and memory to the standard error.

    With ``alternatives`` each token has its probability and those of this many others.
    """
    let_threads_sleep()
    is_one = len(prompts) == 1
    shown = to_terminal if sys.stdout.isatty() else to_file
    begin = time.perf_counter()
    written = generated(folder, config.evaluation, prompts, sampling, shown if is_one else _nowhere, alternatives)
    seconds = time.perf_counter() - begin
    if is_one:
        print(flush=True)
        for choices in written.choices:
            print(flush=True)
            show_rows(("token", "p", "-ln p", "instead"), [_row(choice) for choice in choices])
    else:
        _print_lines(written)
    for line in summary(written, seconds):
        print(line, file=sys.stderr)


def _nowhere(number: int, text: str) -> None:
    pass


def _row(choice: TokenChoice) -> tuple[str, str, str, str]:
    """Returns the cells of a token: itself, its probability p, -ln p in nats, and the others with theirs."""
    own, *others = (
        (token_name(token.text), f"{token.probability:.4f}", f"{-token.log_probability:.3f}")
        for token in (choice.written, *choice.others)
    )
    return (*own, ", ".join(f"{name} {p} ({nats})" for name, p, nats in others))


def _print_lines(written: GeneratedTexts) -> None:
    for number, generation in enumerate(written.generations):
        choices = written.choices[number] if written.choices else ()
        values = {
            "prompt": generation.prompt,
            "text": generation.text,
            "ending": generation.ending,
            "tokens": len(generation.tokens),
            "lost_prompt_tokens": generation.lost_tokens,
            **({"choices": [dataclasses.asdict(choice) for choice in choices]} if choices else {}),
        }
        print(json.dumps(values, ensure_ascii=False))


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
