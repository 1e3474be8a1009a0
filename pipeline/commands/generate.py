"""``headrace generate``: the text that a model writes after a prompt, or in the masked positions of a text.

headrace generate --prompt "The mill"                          your newest weights below the root, greedily
headrace generate --prompt "The mill" --run small              the weights of a run
headrace generate --prompt "The mill" --model path/to/gpt2     any causal model in Hugging Face's format
headrace generate --prompt "The mill" --temperature 0.8 --top-p 0.95 --seed 3 --samples 4
headrace generate --prompt "The mill" --beams 4 --length-penalty 0.6
headrace generate --prompts prompts.txt --stop '\\n' > texts.jsonl
headrace generate --prompt "The mill" > text.txt               for headrace why text.txt --as text
headrace generate --prompt "The mill" --alternatives 3         each token with its probability, and 3 others
headrace generate --fill "Paris is the [MASK] of France."      an encoder: tokens of each position, others masked

Without --temperature, --top-k and --top-p, generation_config.json of the model decides, and a line says so; a model
without this file, or without do_sample in it, writes greedily.

A single text is printed while it is generated. Several are printed as JSON lines, in the order of the prompts:

    {"prompt": "The mill", "text": " wheel turns.", "ending": "stop", "tokens": 5, "lost_prompt_tokens": 0}

Probabilities are the model's own, before temperature, top k, top p and beams change the choice. With several texts they
are in the field "choices":

    token   p       -ln p  instead
    ␣wheel  0.4120  0.887  ␣stone 0.2010 (1.604), ␣river 0.0713 (2.641), ␣stands 0.0488 (3.020)

Of a filled text each candidate has a line: the number of the position, the probability p, -ln p, the token.

    1  0.4120  0.887  capital
"""

import dataclasses
import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.pipeline.command_line.declaration import command, run_option, sampling_options
from headrace.pipeline.command_line.model_options import file_lines, given_sampling, model_folder, sampling_of
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.environment import let_threads_sleep
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.output.terminal import show_rows, to_file, to_terminal
from headrace.pipeline.report.formatting import token_name, visible
from headrace.train.inference.language_model import GeneratedTexts
from headrace.train.inference.language_model import fill as filled
from headrace.train.inference.language_model import generate as generated
from headrace.train.inference.queries import LikelyText
from headrace.train.inference.settings import Sampling

if TYPE_CHECKING:
    from headrace.train.inference.generator import TokenChoice

CANDIDATES = 5
"""The candidates of a masked position without --alternatives."""


@command
@click.option("--prompt", metavar="TEXT", default=None, help="The text to go on from; '' is the beginning of one.")
@click.option("--prompts", metavar="FILE", default="", type=click.Path(), help="A file of prompts, one a line.")
@click.option("--fill", "masked", metavar="TEXT", default="", help="A text with masks, such as [MASK], to fill.")
@click.option("--model", metavar="FOLDER", default="", type=click.Path(), help="A model in Hugging Face's format.")
@click.option("--beams", metavar="N", default="", help="Find the most likely text by beam search with N texts.")
@click.option("--length-penalty", metavar="A", default="", help="How much beam search favours longer texts; 0: not.")
@sampling_options
@click.option("--samples", metavar="N", default="", help="Texts for each prompt.")
@click.option("--alternatives", metavar="K", default="", help="Print each token's probability, and K others.")
@run_option
def generate(
    overrides: Sequence[str],
    prompt: str | None,
    prompts: str,
    masked: str,
    model: str,
    samples: str,
    alternatives: str,
    run: str,
    **sampling: str,
) -> None:
    """Prints what the weights of a run, or the model in FOLDER, write after a prompt, or in masked positions."""
    config = config_of(overrides)
    others = value_of(Positive, alternatives, "--alternatives") if alternatives else 0
    if masked:
        if prompt is not None or prompts or samples or any(sampling.values()):
            raise ConfigError("--fill", "is given with options of a prompt", "give --alternatives, --model or --run")
        show_filled(config, model_folder(config.root, model, run), masked, others or CANDIDATES)
        return
    asked, given = prompts_of(prompt, prompts, samples), given_sampling(sampling)
    folder = model_folder(config.root, model, run)
    show(config, asked, folder, sampling_of(given, folder), others)


def show_filled(config: RunConfig, folder: Path, text: str, candidates: int) -> None:
    """Prints the most likely tokens of each masked position of ``text``."""
    let_threads_sleep()
    for number, predictions in enumerate(filled(folder, config.evaluation, text, candidates), start=1):
        print_candidates(number, predictions)


def print_candidates(number: int, candidates: Iterable[LikelyText]) -> None:
    """Prints a line for each of the ``candidates`` of the masked position of this ``number``."""
    for candidate in candidates:
        shown = visible(candidate.text, len(candidate.text))
        print(f"{number}  {candidate.probability:.4f}  {-candidate.log_probability:.3f}  {shown}")


def show(config: RunConfig, prompts: Sequence[str], folder: Path, sampling: Sampling, alternatives: int) -> None:
    """Prints a text for each of ``prompts``, and time and memory to the standard error.

    With ``alternatives`` each token has its probability and those of this many others.
    """
    let_threads_sleep()
    is_one = len(prompts) == 1
    shown = to_terminal if sys.stdout.isatty() else to_file
    begin = time.perf_counter()
    written = generated(
        folder, config.evaluation, prompts, sampling, shown if is_one else lambda *_: None, alternatives
    )
    seconds = time.perf_counter() - begin
    if is_one:
        print(flush=True)
        for choices in written.choices:
            print(flush=True)
            show_rows(("token", "p", "-ln p", "instead"), [_row(choice) for choice in choices])
    else:
        for number, generation in enumerate(written.generations):
            values: dict[str, object] = {
                "prompt": generation.prompt,
                "text": generation.text,
                "ending": generation.ending,
                "tokens": len(generation.tokens),
                "lost_prompt_tokens": generation.lost_tokens,
            }
            if written.choices:
                values["choices"] = [dataclasses.asdict(choice) for choice in written.choices[number]]
            print(json.dumps(values, ensure_ascii=False))
    for line in summary(written, seconds):
        print(line, file=sys.stderr)


def _row(choice: "TokenChoice") -> tuple[str, str, str, str]:
    """Returns the cells of a token: itself, its probability p, -ln p in nats, and the others with theirs."""
    written, *others = (
        (token_name(token.text), f"{token.probability:.4f}", f"{-token.log_probability:.3f}")
        for token in (choice.written, *choice.others)
    )
    return (*written, ", ".join(f"{name} {p} ({nats})" for name, p, nats in others))


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
