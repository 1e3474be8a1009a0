"""What ``headrace`` can do besides running: look at a run, explain it, and take documents out of it.

headrace why numpy:2                        the newest run below the default root
headrace why numpy:2 root=/data/runs        the newest run below another
headrace why numpy:2 experiment=demo        the run of these settings
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.pipeline.commands import (
    compare,
    evaluate,
    forget,
    generate,
    inspect,
    order,
    overlaps,
    similar,
    status,
    sync,
    trace,
    watch,
    why,
)
from headrace.pipeline.commands.plan import show_plan
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.core.terminal import terminal
from headrace.pipeline.report import facts
from headrace.pipeline.run import jobs
from headrace.pipeline.run.line import carry_out
from headrace.pipeline.run.planner import Run


def show_status(run: Run) -> None:
    """Print one row per stage, and a line for each that has a job."""
    job_states = jobs.states(run.steps)
    terminal().print(status.table(run.steps, job_states))
    for stage, state in job_states.items():
        print(f"{stage}: {state}")


def show_why(run: Run, word: str) -> None:
    """Print what became of a document: dropped by which rule, duplicate of what, its tokens and rows."""
    facts.show(why.explain(run.steps, run.config.source, word))


def show_trace(run: Run, shard: str, offset: str) -> None:
    """Print which document the token at OFFSET of token shard SHARD comes from."""
    facts.show(trace.explain(run.steps, shard, offset))


def show_order(run: Run, step: str, rank: str = "", ranks: str = "") -> None:
    """Print the rows, documents and URLs that training step STEP sees: all ranks, or RANK (from 0) of RANKS."""
    facts.show(order.explain(run, step, rank, ranks))


def show_inspection(run: Run, stage: str, *words: str) -> None:
    """Print documents of clean or unique side by side, kept and dropped by RULE, with the lines that they lost."""
    inspect.show(inspect.documents(run.steps, stage, *words))


def show_similar(run: Run, file: str) -> None:
    """Print which documents of clean are similar to the text in FILE."""
    facts.show(similar.explain(run.steps, file))


def show_overlaps(run: Run, word: str = "") -> None:
    """Print which items of the benchmarks are in which training documents: of all, of one benchmark, or one item."""
    facts.show(overlaps.explain(run.steps, word))


def show_forgetting(run: Run, file: str) -> None:
    """Print which tokens and rows hold the documents that FILE lists, by id or URL, and pack again without them."""
    fates = forget.find(run.steps, forget.read_words(file))
    facts.show(forget.explain(run.steps, fates))
    if not any(fate.is_in_tokens for fate in fates):
        facts.show([("forgotten", "nothing: no row holds any of them")])
        return
    without = forget.without(run, fates)
    carry_out(without)
    facts.show(forget.outcome(without, fates))


def show_sync(run: Run) -> None:
    """Make the training's wandb run anew from metrics.jsonl, with the artifacts before and behind it."""
    facts.show(sync.explain(run.steps))


def show_watch(run: Run, once: str = "") -> None:
    """Score the checkpoints of a training as they appear; --once: those that are there now."""
    watch.show(run, bool(once))


def show_folder_scores(config: RunConfig, folder: str, limit: str = "") -> None:
    """Print what the model in FOLDER (Hugging Face's format) scores on evaluation=…'s benchmarks; N: items of each."""
    evaluation = config.evaluation
    if limit:
        evaluation = dataclasses.replace(evaluation, limit=value_of(Positive, limit, "--limit"))
    evaluate.show(dataclasses.replace(config, evaluation=evaluation), folder)


def show_generation(
    config: RunConfig,
    prompt: str = "",
    prompts: str = "",
    model: str = "",
    max_tokens: str = "",
    temperature: str = "",
    top_k: str = "",
    top_p: str = "",
    seed: str = "",
    samples: str = "",
    stop: str = "",
) -> None:
    """Print what the newest weights, or the model in FOLDER, write after a prompt; greedily, unless T is given."""
    asked = generate.prompts_of(prompt, prompts, samples)
    sampling = generate.sampling_of(max_tokens, temperature, top_k, top_p, seed, stop)
    folder = Path(model) if model else generate.newest_weights(config.root)
    generate.show(config, asked, folder, sampling)


GENERATION_WORDS = (
    "[--prompt TEXT]",
    "[--prompts FILE]",
    "[--model FOLDER]",
    "[--max-tokens N]",
    "[--temperature T]",
    "[--top-k K]",
    "[--top-p P]",
    "[--seed N]",
    "[--samples N]",
    "[--stop TEXT]",
)


def show_comparison(config: RunConfig, page: str, *runs: str) -> None:
    """Print the scores of runs (ids or folders), differences from the first tested; FILE gets a page with figures."""
    compare.show(config, runs, Path(page) if page else None)


@dataclasses.dataclass(frozen=True)
class Command:
    """What a command shows of a run, and the words it takes, as its usage writes them: those in [brackets] may be left
    out, and the name of an option before a word may be left out while the words stand in their order; not where the
    last word stands for any number of them. An option with nothing behind it is a flag."""

    show: Callable[..., None]
    words: tuple[str, ...] = ()
    of_run: bool = True
    """Whether it is shown a run; else a configuration, and no raw file has to be there."""
    may_change: tuple[str, ...] = ()
    """Settings that do not choose a run, but change how the newest is looked at."""

    @property
    def options(self) -> dict[str, int]:
        """The option before a word → the word's place."""
        firsts = [word.strip("[]").partition(" ")[0] for word in self.words]
        return {first: place for place, first in enumerate(firsts) if first.startswith("--")}

    def is_flag(self, place: int) -> bool:
        return self.words[place].strip("[]") in self.options

    def needs(self, place: int) -> bool:
        return place < len(self.words) and not self.words[place].startswith("[")

    def free_places(self, words: int) -> list[int]:
        """The places of words that no option was given for, as many as ``words`` could take."""
        if not self.words or not self.words[-1].endswith(" ...]"):
            return [place for place in range(len(self.words)) if not self.is_flag(place)]
        named = self.options.values()
        return [place for place in range(max(words + len(named), len(self.words))) if place not in named]


COMMANDS = {
    "plan": Command(
        show_plan, ("[--gpus NUMBER]", "[--gpu NAME]", "[--mfu FRACTION]", "[--gpu-memory-gb GB]"), of_run=False
    ),
    "generate": Command(show_generation, GENERATION_WORDS, of_run=False),
    "evaluate": Command(show_folder_scores, ("FOLDER", "[--limit N]"), of_run=False),
    "compare": Command(show_comparison, ("[--page FILE]", "RUN", "RUN", "[RUN ...]"), of_run=False),
    "watch": Command(show_watch, ("[--once]",), may_change=("evaluation", "ranks")),
    "status": Command(show_status),
    "why": Command(show_why, ("DOCUMENT_ID|URL",)),
    "trace": Command(show_trace, ("SHARD", "OFFSET")),
    "order": Command(show_order, ("--step STEP", "[--rank RANK]", "[--ranks RANKS]")),
    "similar": Command(show_similar, ("FILE|-",)),
    "inspect": Command(show_inspection, ("STAGE", "[--rule RULE]", "[--sample NUMBER]")),
    "overlaps": Command(show_overlaps, ("[BENCHMARK|ITEM]",)),
    "forget": Command(show_forgetting, ("--ids FILE",)),
    "sync": Command(show_sync),
}


def split_words(name: str, arguments: Sequence[str], is_override: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """The words of the command ``name`` and the overrides behind them.

    A document id or URL may hold a ``=`` of its own, so a word that must be there is only taken for an override when
    ``is_override`` says that it names a setting.

    Raises:
        ConfigError: when there are too few words or too many.
    """
    command = COMMANDS[name]
    found, rest = _split_options(name, arguments)
    taken = 0
    free = [place for place in command.free_places(len(arguments)) if place not in found]
    for place, argument in zip(free, rest, strict=False):
        if is_override(argument) if command.needs(place) else "=" in argument:
            break
        found[place] = argument
        taken += 1
    overrides = rest[taken:]
    is_short = any(command.needs(place) and place not in found for place in range(len(command.words)))
    if command.words and (is_short or (overrides and "=" not in overrides[0])):
        got = " ".join(map(repr, [*found.values(), *(o for o in overrides[:1] if "=" not in o)])) or "nothing"
        raise ConfigError("command line", f"{name} does not go with {got}", _usage(name))
    return [found.get(place, "") for place in range(max(found, default=-1) + 1)], overrides


def _split_options(name: str, arguments: Sequence[str]) -> tuple[dict[int, str], list[str]]:
    """The words that stand behind options (``--rule RULE`` or ``--rule=RULE``), by their places, and all else."""
    options, found, rest = COMMANDS[name].options, dict[int, str](), list[str]()
    remaining = iter(arguments)
    for argument in remaining:
        option, equals, value = argument.partition("=")
        if not options or not argument.startswith("--"):
            rest.append(argument)
        elif option not in options:
            raise ConfigError("command line", f"{name} has no option {option!r}", suggestion(option, options))
        elif COMMANDS[name].is_flag(options[option]):
            if equals:
                raise ConfigError("command line", f"{option} takes no value", _usage(name))
            found[options[option]] = option
        else:
            word = value if equals else next(remaining, None)
            if word is None:
                raise ConfigError("command line", f"{option} has no value", _usage(name))
            found[options[option]] = word
    return found, rest


def _usage(name: str) -> str:
    return f"usage: {' '.join(['headrace', name, *COMMANDS[name].words, '[KEY=VALUE ...]'])}"
