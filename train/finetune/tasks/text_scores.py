"""Scores of answers that a model writes: the written text is compared with the words for classes, numbers or answers.

A text that is none of the words counts as wrong, as in T5 (Raffel et al. 2020, section 2.4). For F1 of two classes it
is the class that is wrong, and as a number it is -1.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from headrace.train.evaluation.metrics import (
    CORPUS,
    ROUGE,
    Comparison,
    exact_groups,
    f1_macro,
    f1_with_invalid,
    matthews,
    pearson,
    share_equal,
    spearman,
    squad_scores,
)
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.tasks.text_forms import TextForm, TextMetric

NO_NUMBER = -1.0
HUNDRED = 100.0


def as_share(metric: str, value: float) -> float:
    """Returns the ``value`` of a metric, of which 1 is the best: BLEU and chrF go up to 100."""
    return value / HUNDRED if metric in CORPUS else value


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
