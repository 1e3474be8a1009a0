"""What ``headrace`` can do besides running: look at a run, and explain it.

headrace why numpy:2                        the newest run below the default root
headrace why numpy:2 root=/data/runs        the newest run below another
headrace why numpy:2 experiment=demo        the run of these settings
"""

import dataclasses
from collections.abc import Callable, Sequence

from rich.console import Console

from data_prep.clean import Clean
from pipeline import facts, inspection, jobs, similar, status, trace, why
from pipeline.core.errors import ConfigError
from pipeline.runner import Step


def show_status(steps: Sequence[Step]) -> None:
    """Print one row per stage, and a line for each that has a job."""
    job_states = jobs.states(steps)
    Console(soft_wrap=True).print(status.table(steps, job_states))
    for stage, state in job_states.items():
        print(f"{stage}: {state}")


def show_why(steps: Sequence[Step], word: str) -> None:
    """Print what became of a document: dropped by which rule, duplicate of what, its tokens and rows."""
    (source,) = (step.stage.source for step in steps if isinstance(step.stage, Clean))
    facts.show(why.explain(steps, source, word))


def show_trace(steps: Sequence[Step], shard: str, offset: str) -> None:
    """Print which document the token at OFFSET of token shard SHARD comes from."""
    facts.show(trace.explain(steps, shard, offset))


def show_inspection(steps: Sequence[Step], stage: str, *words: str) -> None:
    """Print a few documents of clean or unique: kept ones, those that RULE dropped, or both."""
    facts.show(inspection.documents(steps, stage, *words))


def show_similar(steps: Sequence[Step], file: str) -> None:
    """Print which documents of clean are similar to the text in FILE."""
    facts.show(similar.explain(steps, file))


@dataclasses.dataclass(frozen=True)
class Command:
    """What a command shows of a run, and the words it takes; those in [brackets] may be left out."""

    show: Callable[..., None]
    words: tuple[str, ...] = ()

    @property
    def required(self) -> int:
        return sum(not word.startswith("[") for word in self.words)


COMMANDS = {
    "status": Command(show_status),
    "why": Command(show_why, ("DOCUMENT_ID|URL",)),
    "trace": Command(show_trace, ("SHARD", "OFFSET")),
    "similar": Command(show_similar, ("FILE|-",)),
    "inspect": Command(show_inspection, ("STAGE", "[RULE]", "[NUMBER]")),
}


def split_words(name: str, arguments: Sequence[str], is_override: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """The words of the command ``name`` and the overrides behind them.

    A document id or URL may hold a ``=`` of its own, so a word that must be there is only taken for an override when
    ``is_override`` says that it names a setting.

    Raises:
        ConfigError: when there are too few words or too many.
    """
    command, words = COMMANDS[name], list[str]()
    for argument in arguments[: len(command.words)]:
        if is_override(argument) if len(words) < command.required else "=" in argument:
            break
        words.append(argument)
    overrides = list(arguments[len(words) :])
    if command.words and (len(words) < command.required or (overrides and "=" not in overrides[0])):
        got = " ".join(map(repr, [*words, *(o for o in overrides[:1] if "=" not in o)])) or "nothing"
        usage = " ".join(["headrace", name, *command.words, "[KEY=VALUE ...]"])
        raise ConfigError("command line", f"{name} does not go with {got}", f"usage: {usage}")
    return words, overrides
