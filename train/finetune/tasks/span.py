"""Answers that are a part of a text: SQuAD 1.1 and 2.0 (Devlin et al. 2019, sections 4.2 and 4.3; google-research/bert,
run_squad.py).

    [CLS] question [SEP] window of the context [SEP] ── start and end logits of each position

A context that does not fit is read in windows, each ``stride`` tokens after the one before. A window that does not hold
the first right answer has the answer [CLS]. The best span has the highest sum of both logits, of the ``n_best`` starts
and ends of each window; a token counts in the window where it has the most context. With questions that have no answer,
the answer is empty where [CLS] has the higher sum in every window. The loss of a validation question whose answer the
context does not hold is that of [CLS]; its score compares texts all the same.

Padding has no probability here. The classes of ``transformers`` give it some.
"""

import bisect
import dataclasses
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, settings
from headrace.train.data.batches import Arrays, Tensors
from headrace.train.evaluation.metrics import squad_scores
from headrace.train.families.task_heads import TaskKind
from headrace.train.finetune.files import AnyFormat
from headrace.train.finetune.files.examples import AnswerSpan, Example
from headrace.train.finetune.files.published import Squad
from headrace.train.finetune.tasks.sequences import Form, frame_tokens
from headrace.train.finetune.tasks.task import FileTask, Fitted, Prediction, Row, task_outputs
from headrace.train.parts import StackName

if TYPE_CHECKING:
    from torch import Tensor, nn

NEAR = 16
"""The most characters between the place that a file gives and that of an answer that is meant."""
TokenWindow = tuple[int, int]
"""The first token of a window in the context, and the number of its tokens."""


@settings
class SpanTask(FileTask):
    """Finds the answer to a question in a text: the first text is the question, the second one the context."""

    type: Literal["span"] = "span"
    format: AnyFormat = Squad()
    """The format of the files."""
    stride: Positive = 128
    """Tokens from the beginning of a window to that of the next one."""
    question_tokens: Positive = 64
    """The most tokens of a question."""
    answer_tokens: Positive = 30
    """The most tokens of an answer."""
    n_best: Positive = 20
    """The number of starts and of ends of a window that are combined."""
    stacks: ClassVar[tuple[StackName, ...]] = ("encoder", "discriminator")
    revision: ClassVar[int] = 1
    """1 since validation has questions whose answer is not where the file says, and training those where it is near."""
    result: ClassVar[str] = "answer"
    labels: ClassVar[tuple[str, str]] = ("answers", "answers")

    @property
    def metric(self) -> str:
        return "f1"

    def read(self, paths: Sequence[str], labelled: bool = True) -> tuple[list[Example], dict[str, int]]:
        """Reads the files. Each answer gets the offset at which it stands in the context, see ``offset_in``; an empty
        one means that there is no answer."""
        examples, dropped = super().read(paths, labelled)
        if examples and len(self.texts or examples[0].texts) < 2:
            problem = "the question needs a second text to find its answer in, and the format has one text"
            raise ConfigError("finetune.task.texts", problem, "name the fields of the question and of that text")
        return [located(example, self.texts_of(example)[1]) for example in examples], dropped

    def trainable(self, examples: Sequence[Example]) -> tuple[list[Example], dict[str, int]]:
        """Leaves out examples none of whose answers has an offset: ``answer_elsewhere``. Validation has them: as in the
        official evaluation, its score compares texts."""
        answerable = [example for example in examples if not example.answers or first_located(example) is not None]
        elsewhere = len(examples) - len(answerable)
        return answerable, {"answer_elsewhere": elsewhere} if elsewhere else {}

    def fitted(self, training: Sequence[Example], form: Form) -> "Spans":
        return Spans(form=form, task=self, may_be_empty=any(not example.answers for example in training))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spans(Fitted):
    """Answers in a text."""

    task: SpanTask
    may_be_empty: bool
    """Whether some questions have no answer."""
    kind: ClassVar[TaskKind | None] = "span"
    term: ClassVar[str] = "nll"

    @property
    def outputs_per_position(self) -> int:
        return 2

    def rows(self, examples: Sequence[Example], is_training: bool) -> list[Row]:
        return [row for index, example in enumerate(examples) for row in self._windows(index, example)]

    def _windows(self, index: int, example: Example) -> list[Row]:
        question, context = self.task.texts_of(example)
        (asked,) = self.form.ids([question])
        ids, offsets = self.form.encoder.encode_with_offsets(context)
        frame, cut = self.form.frame(2), max(0, len(asked) - self.task.question_tokens)
        asked = asked[: self.task.question_tokens]
        capacity = max(1, self.form.context - frame_tokens(frame) - len(asked))
        windows = windows_of(len(ids), capacity, self.task.stride)
        answer = answer_tokens(example, offsets)
        rows = []
        for number, (first, length) in enumerate(windows):
            sequence = self.form.joined(frame, [asked, ids[first : first + length]], cut)
            begin, bounds = sequence.starts[1], np.zeros(2, np.int64)
            if answer is not None and first <= answer[0] and answer[1] < first + length:
                bounds = np.array([begin + token - first for token in answer], np.int64)
            facts = {"windows": windows, "number": number, "begin": begin, "offsets": offsets}
            rows.append(Row(index, (sequence,), {"answers": bounds}, facts))
        return rows

    def counts(self, batch: Arrays) -> dict[str, int]:
        return {self.term: len(batch["answers"])}

    def outputs(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        """Returns logits_BT2, -inf in padding."""
        is_padding_BT = batch["documents"][:, 0] < 0
        logits_BT2 = task_outputs(self.form, model, batch, everywhere=True)[:, 0]
        return logits_BT2.masked_fill(is_padding_BT[:, :, None], float("-inf"))

    def sums(self, outputs: "Tensor", batch: Tensors) -> "dict[str, Tensor]":
        """Returns half of the sum of -ln p of starts and ends."""
        from torch.nn import functional

        return {self.term: functional.cross_entropy(outputs, batch["answers"], reduction="sum") / 2}

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[NDArray[Any]]
    ) -> list[Prediction]:
        best: list[tuple[float, str]] = [(-np.inf, "")] * len(examples)
        empty = np.full(len(examples), np.inf)
        for row, logits in zip(rows, outputs, strict=True):
            empty[row.example] = min(empty[row.example], float(logits[0].sum()))
            candidate = self._best(row, logits)
            if candidate is not None and candidate[0] > best[row.example][0]:
                start, end = row.facts["offsets"][candidate[1]][0], row.facts["offsets"][candidate[2]][1]
                best[row.example] = candidate[0], self.task.texts_of(examples[row.example])[1][start:end]
        return [
            {
                "id": example.id,
                "prediction": "" if self.may_be_empty and empty[index] >= score else text,
                **({} if example.answers is None else {"label": [answer.text for answer in example.answers]}),
                "score": score if np.isfinite(score) else None,
            }
            for index, (example, (score, text)) in enumerate(zip(examples, best, strict=True))
        ]

    def _best(self, row: Row, logits_T2: NDArray[Any]) -> tuple[float, int, int] | None:
        """Returns score, first and last token in the context of the best answer of a window; None: there is none."""
        facts: Mapping[str, Any] = row.facts
        windows, number, begin = facts["windows"], facts["number"], facts["begin"]
        first, length = windows[number]
        inner = logits_T2[begin : begin + length]
        starts, ends = (np.argsort(-inner[:, side], kind="stable")[: self.task.n_best] for side in (0, 1))
        best: tuple[float, int, int] | None = None
        for start in starts.tolist():
            if widest_window(windows, first + start) != number:
                continue
            for end in ends.tolist():
                score = float(inner[start, 0] + inner[end, 1])
                if start <= end < start + self.task.answer_tokens and (best is None or score > best[0]):
                    best = score, first + start, first + end
        return best

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        answers = [[answer.text for answer in example.answers or ()] or [""] for example in examples]
        scores = squad_scores(answers, [prediction["prediction"] for prediction in predictions])
        return {"f1": scores["f1"], "exact_match": scores["exact_match"]}


def located(example: Example, context: str) -> Example:
    """Returns ``example`` with answers that have the offset at which they stand in ``context``, or None."""
    if not example.answers:
        return example
    answers = filter(operator.attrgetter("text"), example.answers)
    placed = tuple(AnswerSpan(answer.text, offset_in(context, answer)) for answer in answers)
    return dataclasses.replace(example, answers=placed)


def offset_in(context: str, answer: AnswerSpan) -> int | None:
    """Returns where ``answer`` stands in ``context``: where it says or, if it does not say, at its first occurrence.

    If it is not where it says, it is at its one occurrence, or at the nearest one, if that is at most NEAR characters
    away: a space was removed at the beginning, say, or bytes were counted. None: there is no such occurrence.
    """
    if answer.start is None or context.startswith(answer.text, answer.start):
        position = context.find(answer.text) if answer.start is None else answer.start
        return None if position < 0 else position
    places, place = list[int](), context.find(answer.text)
    while place >= 0:
        places.append(place)
        place = context.find(answer.text, place + 1)
    start = answer.start
    nearest = min(places, key=lambda place: abs(place - start), default=None)
    return nearest if nearest is not None and (len(places) == 1 or abs(nearest - start) <= NEAR) else None


def first_located(example: Example) -> AnswerSpan | None:
    """Returns the first answer of ``example`` that has an offset; None where there is none."""
    return next((answer for answer in example.answers or () if answer.start is not None), None)


def windows_of(tokens: int, capacity: int, stride: int) -> list[TokenWindow]:
    """Splits a context of ``tokens`` tokens into windows of at most ``capacity`` tokens, ``stride`` tokens apart."""
    windows, first = [], 0
    while True:
        length = min(capacity, tokens - first)
        windows.append((first, length))
        if first + length >= tokens:
            return windows
        first += min(length, stride)


def widest_window(windows: Sequence[TokenWindow], token: int) -> int:
    """Returns the number of the window in which ``token`` has the most tokens on its poorer side (run_squad.py,
    ``_check_is_max_context``); of equal ones, the longest, then the first. It is in one of the windows at least."""

    def context(number: int) -> float:
        first, length = windows[number]
        return min(token - first, first + length - 1 - token) + 0.01 * length

    first = bisect.bisect_right(windows, token, key=sum)
    end = bisect.bisect_right(windows, token, key=operator.itemgetter(0))
    return max(range(first, end), key=context)


def answer_tokens(example: Example, offsets: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Returns the first and the last token of the first right answer that has an offset; None where there is none."""
    answer = first_located(example)
    if answer is None or answer.start is None:
        return None
    start, end = answer.start, answer.start + len(answer.text)
    inside = [number for number, (first, last) in enumerate(offsets) if first < end and last > start]
    return (inside[0], inside[-1]) if inside else None
