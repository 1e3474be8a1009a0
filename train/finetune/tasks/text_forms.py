"""The texts of an example in a text-to-text task: what the model reads, what it writes, and what is right.

    {text: a fine film} -> tone          tone text: a fine film     ->  tone        the prefix, each text after its name
    {prompt: …, answer: …}               the prompt                 ->  the answer  templates

A package that words the examples of another format in a way of its own has a subclass of ``TextForm``, with the entry
point ``text_form.FORMAT``.
"""

from typing import Literal

from headrace.pipeline.core.kinds import Kinds
from headrace.train.evaluation.metrics import CorpusMetric, RougeMetric
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.files.templates import PROMPT

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
