"""Examples as a pair of texts, as T5 converts GLUE, SuperGLUE and SQuAD (Raffel et al. 2020, section 2.4, appendix D).

    sst2 sentence: a fine film                                      ->  positive
    stsb sentence1: A. sentence2: B.                                ->  3.8
    copa choice1: … choice2: … premise: … question: effect          ->  choice2
    question: Who ? context: The Normans were …                     ->  Normans
    wsc: Mark asked Pete whether *he* was ill.                      ->  Pete

The prefix is the name of the task, and each text follows its name, in the order of the names; MultiRC and WiC have
orders of their own. Source: google-research/text-to-text-transfer-transformer, t5/data: preprocessors, glue_utils.
"""

import re
import string
from collections.abc import Callable, Mapping

import numpy as np

from headrace.train.evaluation.question_files import RecordError
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.files.templates import PROMPT

ORDERS: Mapping[str, tuple[str, ...]] = {
    "multirc": ("question", "answer", "paragraph"),
    "wic": ("sentence1", "sentence2", "word"),
    "squad": ("question", "context"),
}
"""The orders of texts that are not those of their names."""
PUNCTUATION = re.compile(f"([{re.escape(string.punctuation)}])")
SPACES = re.compile(r"[\t\n\f\r ]+")
"""The white space of RE2, which T5 uses."""
AFTER_SENTENCE, HIGHLIGHT = re.compile(r"([.?!\"'])\n@highlight\n"), "\n@highlight\n"
NO_ANSWER = "no answer"
"""The text for a question of SQuAD 2.0 without an answer, which T5 does not convert."""


def inputs_of(example: Example, task: str, prefix: str) -> str:
    """Returns the text that the model reads.

    Args:
        example: the example.
        task: the benchmark's name of the task, which may have a conversion of its own; empty: none.
        prefix: the first word, the name of the task in T5; empty: none.

    Raises:
        RecordError: when a marked word is not where the example says.
    """
    if task in INPUTS:
        return INPUTS[task](example)
    if tuple(example.texts) == (PROMPT,):
        return " ".join([prefix, example.texts[PROMPT]] if prefix else [example.texts[PROMPT]])
    texts = dict(example.texts) | {f"choice{number}": text for number, text in enumerate(example.choices, 1)}
    parts = [f"{name}: {texts[name]}" for name in ORDERS.get(task, sorted(texts))]
    return " ".join([prefix, *parts] if prefix else parts)


def targets_of(example: Example, task: str) -> tuple[str, ...]:
    """Returns the right texts, of which any one is right; none of an example without a result.

    The first one is trained on; of ReCoRD, each of them (one row for each, as T5 does it).
    """
    if task == "wsc":
        return () if example.label is None else (example.texts["span1"],)
    if example.label is not None:
        return (example.label,)
    if example.value is not None:
        return (fifths(example.value) if task == "stsb" else f"{example.value:g}",)
    if example.gold is not None:
        return (f"choice{example.gold + 1}",)
    if example.answers is None:
        return ()
    texts = tuple(dict.fromkeys(answer.text for answer in example.answers)) or (NO_ANSWER,)
    return tuple(padded(text).strip() for text in texts) if task == "squad" else texts


def fifths(value: float) -> str:
    """Returns ``value`` rounded to the nearest 0.2 in fp32, half to even: one of 26 texts for 0 to 5."""
    return f"{float(np.round(np.float32(value) * np.float32(5)) / np.float32(5)):.1f}"


def padded(text: str) -> str:
    """Returns ``text`` with a space on both sides of each punctuation mark, and single spaces."""
    return SPACES.sub(" ", PUNCTUATION.sub(r" \1 ", text))


def _squad(example: Example) -> str:
    question, context = (padded(example.texts[name]) for name in ORDERS["squad"])
    return SPACES.sub(" ", f"question: {question} context: {context}").strip()


def _multirc(example: Example) -> str:
    text = " ".join(f"{name}: {example.texts[name]}" for name in ORDERS["multirc"])
    return f"multirc {re.sub('</?b>', '', text.replace('<br>', ' '))}"


def _record(example: Example) -> str:
    passage = AFTER_SENTENCE.sub(r"\1 ", example.texts["passage"]).replace(HIGHLIGHT, ". ")
    return f"record query: {example.texts['query']} entities: {', '.join(example.choices)} passage: {passage}"


def _wsc(example: Example) -> str:
    """Returns the text with the pronoun between stars.

    The pronoun is the word at its index, or the nearest one: WSC has a text whose index is that of the word before, and
    one where a comma follows without a space.
    """
    words, pronoun, index = example.texts["text"].split(" "), example.texts["span2"], example.numbers["span2"]
    indices = [at for at, word in enumerate(words) if re.match(rf"{re.escape(pronoun)}(?!\w)", word)]
    if not indices:
        raise RecordError("no_pronoun")
    nearest = min(indices, key=lambda other: abs(other - index))
    rest = words[nearest][len(pronoun) :]
    marked = f"*{pronoun}*" + (f" {rest}" if rest else "")
    return f"wsc: {' '.join([*words[:nearest], marked, *words[nearest + 1 :]]).strip()}"


INPUTS: Mapping[str, Callable[[Example], str]] = {
    "squad": _squad,
    "multirc": _multirc,
    "record": _record,
    "wsc": _wsc,
}
"""The tasks whose inputs have a form of their own."""

DETERMINERS = set(
    "a an few her his each every many much my our some that the their these this those which whose your".split()  # noqa: SIM905
)
"""Words that do not distinguish referents (postprocessors.py, ``wsc_simple``)."""


def is_referent(written: str, referent: str) -> bool | None:
    """Whether the text ``written`` names ``referent``: the words of one are among those of the other. None: no words.

    Case and determiners do not count, and "Bob" is not "Bob's hat" (postprocessors.py, ``wsc_simple``).
    """
    written_words, referent_words = (_bare_words(text) for text in (written, referent))
    if not written_words:
        return None
    if ("'" in " ".join(written_words)) != ("'" in " ".join(referent_words)):
        return False
    return set(written_words) <= set(referent_words) or set(referent_words) <= set(written_words)


def _bare_words(text: str) -> list[str]:
    return [word for word in text.strip().lower().split(" ") if word and word not in DETERMINERS]
