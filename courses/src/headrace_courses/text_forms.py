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

from headrace.train.evaluation.file_records import RecordError
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.tasks.text_forms import TextForm, TextMetric

METRICS: Mapping[str, tuple[TextMetric, ...]] = {
    "cola": ("matthews",),
    "mrpc": ("f1", "accuracy"),
    "qqp": ("f1", "accuracy"),
    "stsb": ("pearson", "spearman"),
    "cb": ("macro_f1", "accuracy"),
    "multirc": ("f1a", "exact_match"),
    "record": ("word_f1", "exact_match"),
}
"""The metrics of the benchmarks; accuracy for the other tasks."""
ANSWERED: tuple[TextMetric, ...] = ("word_f1", "exact_match")
CHOICES = ("choice1", "choice2")
ORDERS: Mapping[str, tuple[str, ...]] = {
    "multirc": ("question", "answer", "paragraph"),
    "wic": ("sentence1", "sentence2", "word"),
}
"""The orders of texts that are not those of their names."""
PUNCTUATION = re.compile(f"([{re.escape(string.punctuation)}])")
SPACES = re.compile(r"[\t\n\f\r ]+")
"""The white space of RE2, which T5 uses."""
AFTER_SENTENCE, HIGHLIGHT = re.compile(r"([.?!\"'])\n@highlight\n"), "\n@highlight\n"


def fifths(value: float) -> str:
    """Returns ``value`` rounded to the nearest 0.2 in fp32, half to even: one of 26 texts for 0 to 5."""
    return f"{float(np.round(np.float32(value) * np.float32(5)) / np.float32(5)):.1f}"


def padded(text: str) -> str:
    """Returns ``text`` with a space on both sides of each punctuation mark, and single spaces."""
    return SPACES.sub(" ", PUNCTUATION.sub(r" \1 ", text))


def _squad(example: Example) -> str:
    question, context = (padded(example.texts[name]) for name in ("question", "context"))
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


class OfGlue(TextForm):
    """The texts of GLUE."""

    @property
    def metrics(self) -> tuple[TextMetric, ...]:
        return METRICS.get(self.task, ())

    def targets(self, example: Example) -> tuple[str, ...]:
        is_number = self.task == "stsb" and example.value is not None
        return (fifths(example.value),) if is_number and example.value is not None else super().targets(example)


class OfSquad(TextForm):
    """The texts of SQuAD; an answer of 2.0 without a text is "no answer", which T5 does not convert."""

    revision = 2
    """2 since answers with places need not be right."""

    @property
    def metrics(self) -> tuple[TextMetric, ...]:
        return ANSWERED

    def inputs(self, example: Example, prefix: str) -> str:
        return _squad(example)

    def targets(self, example: Example) -> tuple[str, ...]:
        return tuple(padded(text).strip() for text in super().targets(example))


class OfSuperGlue(TextForm):
    """The texts of SuperGLUE."""

    @property
    def revision(self) -> int:  # type: ignore[override]
        """2 where files give answers with places, which need not be right since."""
        return 1 + (self.task == "record")

    @property
    def metrics(self) -> tuple[TextMetric, ...]:
        return METRICS.get(self.task, ())

    @property
    def classes(self) -> tuple[str, ...]:
        return CHOICES if self.task == "copa" else ()

    def inputs(self, example: Example, prefix: str) -> str:
        if self.task in INPUTS:
            return INPUTS[self.task](example)
        if self.task in ORDERS:
            return " ".join(filter(None, [prefix, *(f"{name}: {example.texts[name]}" for name in ORDERS[self.task])]))
        return super().inputs(example, prefix)

    def targets(self, example: Example) -> tuple[str, ...]:
        if self.task == "wsc":
            return () if example.label is None else (example.texts["span1"],)
        return super().targets(example)

    def taught(self, example: Example) -> tuple[str, ...] | None:
        """Returns each of the answers of ReCoRD, and the examples of WSC that are true, as T5 does it."""
        if self.task == "wsc" and example.label != "True":
            return None
        return self.targets(example) if self.task == "record" else super().taught(example)

    def truth(self, example: Example) -> str:
        return str(example.label) if self.task == "wsc" else super().truth(example)

    def judged(self, example: Example, written: str) -> str:
        """Returns the text; of WSC the class, whether it names the first span."""
        if self.task != "wsc":
            return written
        same = is_referent(written, example.texts["span1"])
        return "" if same is None else str(same)
