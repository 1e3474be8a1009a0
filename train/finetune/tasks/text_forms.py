"""The texts of an example in a text-to-text task: what the model reads, what it writes, and what is right.

    {text: a fine film} -> tone          tone text: a fine film     ->  tone        the prefix, each text after its name
    {prompt: …, answer: …}               the prompt                 ->  the answer  templates

A package that words the examples of another format in a way of its own has a subclass of ``TextForm``, with the entry
point ``text_form.FORMAT``.

The scores compare the written text with the words for classes, numbers or answers. A text that is none of the words
counts as wrong, as in T5 (Raffel et al. 2020, section 2.4). For F1 of two classes it is the class that is wrong, and as
a number it is -1.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from headrace.pipeline.core.kinds import Kinds
from headrace.train.evaluation.metrics import (
    ROUGE,
    Comparison,
    CorpusMetric,
    RougeMetric,
    exact_groups,
    f1_macro,
    f1_with_invalid,
    matthews,
    pearson,
    share_equal,
    spearman,
    squad_scores,
)
from headrace.train.finetune.files.examples import PROMPT, Example

TextMetric = (
    Literal["accuracy", "f1", "macro_f1", "matthews", "pearson", "spearman", "exact_match", "word_f1", "f1a"]
    | CorpusMetric
    | RougeMetric
)
NO_ANSWER = "no answer"
"""The text for a question without an answer."""


class TextForm:
    """The texts of examples with named fields, or of templates."""

    revision = 1
    """1 since special tokens are no part of written answers."""

    def __init__(self, task: str = "") -> None:
        """``task``: the name of the benchmark's task, if the format has one."""
        self.task = task

    @property
    def metrics(self) -> tuple[TextMetric, ...]:
        """The metrics of the task; none: they follow from the format."""
        return ()

    @property
    def classes(self) -> tuple[str, ...]:
        """The words for classes, where they are not those of the format."""
        return ()

    @property
    def prefix(self) -> str:
        """The first word of what the model reads, unless the settings give another."""
        return self.task

    def inputs(self, example: Example, prefix: str) -> str:
        """Returns the text that the model reads.

        Raises:
            RecordError: when it cannot be made.
        """
        if tuple(example.texts) == (PROMPT,):
            return " ".join(filter(None, [prefix, example.texts[PROMPT]]))
        texts = dict(example.texts) | {f"choice{number}": text for number, text in enumerate(example.choices, 1)}
        return " ".join(filter(None, [prefix, *(f"{name}: {texts[name]}" for name in sorted(texts))]))

    def targets(self, example: Example) -> tuple[str, ...]:
        """Returns the right texts, of which any one is right; none of an example without a result."""
        if example.label is not None:
            return (example.label,)
        if example.value is not None:
            return (f"{example.value:g}",)
        if example.gold is not None:
            return (f"choice{example.gold + 1}",)
        if example.answers is None:
            return ()
        return tuple(dict.fromkeys(answer.text for answer in example.answers)) or (NO_ANSWER,)

    def taught(self, example: Example) -> tuple[str, ...] | None:
        """Returns the texts that are trained on, a row for each; None: the example is not trained on."""
        return self.targets(example)[:1]

    def truth(self, example: Example) -> str:
        """Returns the right result, which ``judged`` is compared with."""
        return self.targets(example)[0]

    def judged(self, example: Example, written: str) -> str:
        """Returns the result that the ``written`` text means."""
        return written


PLACE = "headrace.train.finetune.tasks.text_forms:TextForm"
TEXT_FORMS = Kinds("text_form", TextForm, {"fields": PLACE, "templates": PLACE})
"""The forms by the type of the format."""


NO_NUMBER = -1.0


def text_scores(
    form: TextForm,
    metrics: Sequence[TextMetric],
    classes: Sequence[str],
    examples: Sequence[Example],
    written: Sequence[str],
    comparison: Comparison,
) -> dict[str, float]:
    """Returns each of ``metrics`` for the texts ``written`` for labelled ``examples``.

    Args:
        form: the way in which examples become texts.
        metrics: their names.
        classes: the words for the classes, the positive one last.
        examples: the examples.
        written: the text that the model wrote for each of them.
        comparison: the settings of BLEU, chrF and ROUGE.
    """
    texts = [form.judged(example, text) for example, text in zip(examples, written, strict=True)]
    right = [form.targets(example) for example in examples]
    truth = [form.truth(example) for example in examples]
    valid = [text if text in (*classes, *truth) else "" for text in texts]

    def of_answers(name: str) -> float:
        return squad_scores(right, written)[name]

    def of_numbers(correlation: Callable[[Sequence[float], Sequence[float]], float]) -> float:
        return correlation([number_of(text) for text in truth], [number_of(text) for text in texts])

    def f1_of_two() -> float:
        return f1_with_invalid(truth, valid, (classes[0], classes[1]))

    def exact_match() -> float:
        groups = [example.group for example in examples]
        return exact_groups(truth, valid, groups) if all(groups) else of_answers("exact_match")

    rouge_metrics = [name for name in metrics if name in ROUGE]
    rouge = comparison.rouge(rouge_metrics, written, right) if rouge_metrics else {}
    computed: Mapping[TextMetric, Callable[[], float]] = {
        "accuracy": lambda: share_equal(truth, valid),
        "f1": f1_of_two,
        "f1a": f1_of_two,
        "macro_f1": lambda: f1_macro(truth, valid, classes),
        "matthews": lambda: matthews(truth, valid),
        "pearson": lambda: of_numbers(pearson),
        "spearman": lambda: of_numbers(spearman),
        "exact_match": exact_match,
        "word_f1": lambda: of_answers("f1"),
        "bleu": lambda: comparison.corpus("bleu", written, right).value,
        "chrf": lambda: comparison.corpus("chrf", written, right).value,
    }
    means = {name: math.fsum(values) / len(values) for name, values in rouge.items()}
    return {name: means[name] if name in means else computed[name]() for name in metrics}


def number_of(text: str) -> float:
    """Returns the number that ``text`` is; -1 for another text."""
    try:
        return float(text)
    except ValueError:
        return NO_NUMBER
