"""Minimal pairs of sentences, of which one is grammatical: files of them, and 104 pairs made here.

**Minimal pairs**: BLiMP (Warstadt et al., TACL 2020).

    {"sentence_good": "…", "sentence_bad": "…", "UID": "adjunct_island"}

    context       empty: the end-of-text token
    continuation  <delimiter><sentence>

The sentence's log-likelihood is compared unnormalized, as in BLiMP and in lm-evaluation-harness, whose requests have a
space before the sentence (its target_delimiter): ``delimiter: " "``. A tie is half right, so a model that finds all
sentences equally likely is at chance (the harness would count it as right: the good sentence comes first).

**Agreement**: pairs on number agreement in English, from a small grammar; no file is needed.

    simple       The file is empty.             *The file are empty.
    attractor    The file in the folders is …   *The file in the folders are …
    determiner   We met these users …        *We met this users …
    existential  There are two keys …           *There is two keys …

Both sentences of a pair differ in one word only; singular and plural are right equally often, so neither "always
singular" nor "always plural" is better than chance. The words are common in prose and in documentation of software.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from headrace.pipeline.core.settings import AnyText, Positive, settings
from headrace.train.evaluation.benchmarks.base import (
    Benchmark,
    Item,
    Outcome,
    RecordBenchmark,
    Sources,
    by_group,
    column,
    of_groups,
)
from headrace.train.evaluation.file_records import BenchmarkRecord
from headrace.train.evaluation.metrics import mean_over_groups
from headrace.train.evaluation.prompt import Turns
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, Text
from headrace.train.parts import StackName


class PairScores:
    """The scores of a benchmark whose items are a good and a bad sentence."""

    stacks: ClassVar[tuple[StackName, ...]] = ("decoder", "encoder", "discriminator", "encoder_decoder")

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        """Returns acc: 1 when the good sentence is more likely, 0 when the bad one is, 0.5 when neither is."""
        good, bad = (answer.log_likelihood for answer in answers)
        return {"acc": 0.5 if good == bad else float(good > bad)}

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the mean accuracy over paradigms, then each paradigm's; guessing gives 0.5."""
        return mean_over_groups("acc", by_group(items, column(outcomes, "acc")), 0.5)


SentencePair = tuple[str, str, str]
"""The good sentence, the bad one, the paradigm."""


@settings
class MinimalPairs(PairScores, RecordBenchmark[SentencePair]):
    """The choice of the grammatical sentence, by paradigm."""

    type: Literal["minimal_pairs"] = "minimal_pairs"
    sentence: ClassVar[str] = "The grammatical sentence of each pair."
    delimiter: AnyText = " "
    """The text before each sentence."""
    limit_per_group: Positive | None = None
    """At most this many pairs of each paradigm; None takes all."""

    def parse(self, record: BenchmarkRecord) -> SentencePair:
        paradigm = record.text("UID") if "UID" in record.values else ""
        return record.text("sentence_good"), record.text("sentence_bad"), paradigm

    def texts(self, parsed: Sequence[SentencePair]) -> list[tuple[str, ...]]:
        return [(good, bad) for good, bad, _ in parsed]

    def items(self, sources: Sources) -> list[Item]:
        groups: dict[str, list[Item]] = defaultdict(list)
        context = sources.form.context(Turns(""))
        for name, pair in self.read(sources.data):
            groups[pair[2]].append(pair_item(name, pair, sources.form.delimiter(self.delimiter), context))
        return of_groups((group[: self.limit_per_group] for group in groups.values()), self.limit)


def pair_item(name: str, pair: SentencePair, delimiter: str, context: str = "") -> Item:
    """Returns the item of a ``pair``, whose paradigm is its group."""
    good, bad, paradigm = pair
    return Item(name, (Text(context, delimiter + good), Text(context, delimiter + bad)), (good, bad), 0, paradigm)


PER_PARADIGM = 26
NOUNS = (
    ("file", "files"),
    ("user", "users"),
    ("test", "tests"),
    ("child", "children"),
    ("function", "functions"),
    ("woman", "women"),
    ("key", "keys"),
    ("program", "programs"),
    ("letter", "letters"),
    ("server", "servers"),
    ("teacher", "teachers"),
    ("value", "values"),
    ("book", "books"),
)
PREDICATES = (
    ("is", "are", "ready for the next step"),
    ("was", "were", "changed last week"),
    ("has", "have", "a new name"),
    ("does", "do", "not work today"),
    ("needs", "need", "more time"),
    ("seems", "seem", "to be missing"),
    ("looks", "look", "different now"),
)
PLACES = (
    ("in the {}", "folder", "folders"),
    ("near the {}", "house", "houses"),
    ("behind the {}", "door", "doors"),
    ("from the {}", "list", "lists"),
    ("next to the {}", "window", "windows"),
)
ACTIONS = ("We met {} {} before lunch", "Nobody wants {} {} now", "She kept {} {} on the first page")
"""No verb that a clause with "that" may follow: "that users" must be wrong."""
DETERMINERS = (("this", "these"), ("that", "those"))
LOCATIONS = ("in the first room", "on the second page", "at the end of the street")
COUNTS = (("a", "two"), ("one", "many"), ("only one", "several"))


@settings
class Agreement(PairScores, Benchmark):
    """The choice of the sentence whose numbers agree, by paradigm."""

    type: Literal["agreement"] = "agreement"
    sentence: ClassVar[str] = "The sentence whose subject and verb agree in number, of two."

    def items(self, sources: Sources) -> list[Item]:
        groups = (
            [pair_item(f"{name}:{number}", (*pair, name), "") for number, pair in enumerate(pairs(), start=1)]
            for name, pairs in PARADIGMS.items()
        )
        return of_groups(groups, self.limit)


def _simple() -> Iterator[tuple[str, str]]:
    for number in range(PER_PARADIGM):
        plural, verbs, subject = number % 2, PREDICATES[number % len(PREDICATES)], NOUNS[number // 2]
        yield _pair(f"The {subject[plural]} {{}} {verbs[2]}.", verbs, plural)


def _attractor() -> Iterator[tuple[str, str]]:
    for number in range(PER_PARADIGM):
        plural, verbs, subject = number % 2, PREDICATES[(number + 3) % len(PREDICATES)], NOUNS[number // 2]
        phrase, *other = PLACES[number % len(PLACES)]
        yield _pair(f"The {subject[plural]} {phrase.format(other[1 - plural])} {{}} {verbs[2]}.", verbs, plural)


def _determiner() -> Iterator[tuple[str, str]]:
    for number in range(PER_PARADIGM):
        plural, action, noun = number % 2, ACTIONS[number % len(ACTIONS)], NOUNS[number // 2]
        yield _pair(action.format("{}", noun[plural]) + ".", DETERMINERS[number // 2 % 2], plural)


def _existential() -> Iterator[tuple[str, str]]:
    for number in range(PER_PARADIGM):
        plural, count, noun = number % 2, COUNTS[number % len(COUNTS)], NOUNS[number // 2]
        verbs = (("is", "are"), ("was", "were"))[number // 2 % 2]
        yield _pair(f"There {{}} {count[plural]} {noun[plural]} {LOCATIONS[number % len(LOCATIONS)]}.", verbs, plural)


def _pair(frame: str, forms: Sequence[str], plural: int) -> tuple[str, str]:
    """Returns ``frame`` with the form (singular, plural) that agrees, and with the other form."""
    return frame.format(forms[plural]), frame.format(forms[1 - plural])


PARADIGMS = {"simple": _simple, "attractor": _attractor, "determiner": _determiner, "existential": _existential}
