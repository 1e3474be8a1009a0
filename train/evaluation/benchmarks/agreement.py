"""104 minimal pairs on number agreement in English, made here from a small grammar; no file is needed.

    simple       The file is empty.             *The file are empty.
    attractor    The file in the folders is …   *The file in the folders are …
    determiner   We met these users …        *We met this users …
    existential  There are two keys …           *There is two keys …

Both sentences of a pair differ in one word only; singular and plural are right equally often, so neither "always
singular" nor "always plural" is better than chance. The words are common in prose and in documentation of software.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from headrace.pipeline.core.settings import settings
from headrace.train.evaluation.benchmarks.base import Benchmark, Item, Sources, of_groups
from headrace.train.evaluation.benchmarks.choices import PairScores, pair_item

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


SentencePairs = Iterator[tuple[str, str]]


def _simple() -> SentencePairs:
    for number in range(PER_PARADIGM):
        plural, verbs, subject = number % 2, PREDICATES[number % len(PREDICATES)], NOUNS[number // 2]
        yield _pair(f"The {subject[plural]} {{}} {verbs[2]}.", verbs, plural)


def _attractor() -> SentencePairs:
    for number in range(PER_PARADIGM):
        plural, verbs, subject = number % 2, PREDICATES[(number + 3) % len(PREDICATES)], NOUNS[number // 2]
        phrase, *other = PLACES[number % len(PLACES)]
        yield _pair(f"The {subject[plural]} {phrase.format(other[1 - plural])} {{}} {verbs[2]}.", verbs, plural)


def _determiner() -> SentencePairs:
    for number in range(PER_PARADIGM):
        plural, action, noun = number % 2, ACTIONS[number % len(ACTIONS)], NOUNS[number // 2]
        yield _pair(action.format("{}", noun[plural]) + ".", DETERMINERS[number // 2 % 2], plural)


def _existential() -> SentencePairs:
    for number in range(PER_PARADIGM):
        plural, count, noun = number % 2, COUNTS[number % len(COUNTS)], NOUNS[number // 2]
        verbs = (("is", "are"), ("was", "were"))[number // 2 % 2]
        yield _pair(f"There {{}} {count[plural]} {noun[plural]} {LOCATIONS[number % len(LOCATIONS)]}.", verbs, plural)


def _pair(frame: str, forms: Sequence[str], plural: int) -> tuple[str, str]:
    """Returns ``frame`` with the form (singular, plural) that agrees, and with the other form."""
    return frame.format(forms[plural]), frame.format(forms[1 - plural])


PARADIGMS = {"simple": _simple, "attractor": _attractor, "determiner": _determiner, "existential": _existential}
