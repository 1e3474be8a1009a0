"""Tags of words: parts of speech, entities (Devlin et al. 2019, section 5.3).

    words     Jim    Henson        was  a   puppeteer
    tokens    Jim    Hen    ##son  was  a   puppet     ##eer
    tag of    B-PER  I-PER  –      O    O   O          –          the first token of each word; the others have no loss

The words are encoded as one text with spaces between them, and offsets say where each begins. A tokenizer whose tokens
cross words encodes the words one by one. A word without a token of its own (the row is full, or the tokenizer drops its
characters) is predicted as O, so it counts. run_ner.py of ``transformers`` leaves such words out of its scores.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import settings
from headrace.train.data.batches import IGNORED, Arrays, Tensors
from headrace.train.evaluation.metrics import share_equal
from headrace.train.families.task_heads import TaskKind
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.tasks.sequences import Form, Ids
from headrace.train.finetune.tasks.task import FileTask, Fitted, Prediction, Row, padded_sequences, task_outputs
from headrace.train.parts import StackName
from headrace_courses.entity_metrics import OUTSIDE, TagScheme, entity_scores

if TYPE_CHECKING:
    from torch import Tensor, nn

TagMetric = Literal["f1", "precision", "recall", "accuracy"]
MOST_UNKNOWN = 0.5
"""The share of the words of validation with tags that training lacks above which the files are refused."""
ABSENT = -1
"""The place of a word without a token of its own."""


@settings
class TokenClassification(FileTask):
    """Predicts a tag of each word."""

    type: Literal["token_classification"] = "token_classification"
    metrics: Annotated[tuple[TagMetric, ...], Field(min_length=1)] = ("f1", "precision", "recall", "accuracy")
    """The metrics; checkpoints and seeds are compared by the first one. accuracy is that of tags; f1, precision and
    recall are those of entities."""
    scheme: TagScheme = "lenient"
    """The spelling of entities: lenient accepts all prefixes in any order, as conlleval; iob2 and iobes count only
    entities that are written in that scheme."""
    stacks: ClassVar[tuple[StackName, ...]] = ("encoder", "discriminator", "decoder")
    labels: ClassVar[tuple[str, str]] = ("tags", "tags of words")

    @property
    def metric(self) -> str:
        return self.metrics[0]

    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        super().check(training, validation)
        known = set(self.format.classes).union(*(example.tags or () for example in training))
        if len(known) < 2:
            problem = f"all words of {len(training)} examples have the tag {', '.join(known)!r}"
            raise ConfigError("finetune.train", problem, "give examples of at least two tags")
        tags = Counter(tag for example in validation for tag in example.tags or ())
        unknown = {tag: number for tag, number in tags.items() if tag not in known}
        if sum(unknown.values()) > MOST_UNKNOWN * tags.total():
            most = max(unknown, key=lambda tag: unknown[tag])
            problem = (
                f"{sum(unknown.values())} of its {tags.total()} words have tags that training lacks: {most!r}, say"
            )
            raise ConfigError("finetune.validation", problem, "give files with the same column of tags")

    def fitted(self, training: Sequence[Example], form: Form) -> "WordTags":
        tags = sorted({tag for example in training for tag in example.tags or ()})
        return WordTags(form=form, task=self, classes=self.format.classes or tuple(tags))


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordTags(Fitted):
    """A classification of words with its tags, in the order of the outputs. A tag that training lacks is never
    predicted."""

    task: TokenClassification
    classes: tuple[str, ...]
    kind: ClassVar[TaskKind | None] = "token_classification"

    @property
    def outputs_per_position(self) -> int:
        return len(self.classes)

    @property
    def hf_fields(self) -> Mapping[str, Any]:
        numbered = dict(enumerate(self.classes))
        return {
            "id2label": {str(number): name for number, name in numbered.items()},
            "label2id": {name: number for number, name in numbered.items()},
        }

    def rows(self, examples: Sequence[Example], is_training: bool) -> list[Row]:
        numbers = {name: number for number, name in enumerate(self.classes)}
        rows = []
        for index, example in enumerate(examples):
            ids, firsts = word_tokens(self.form.encoder, example.words)
            sequence = self.form.framed([ids])
            kept, begin = len(ids) - sequence.cut_tokens, sequence.starts[0]
            places = np.array([begin + first if ABSENT < first < kept else ABSENT for first in firsts], np.int64)
            labels = np.full(len(sequence.tokens), IGNORED, np.int64)
            for place, tag in zip(places, example.tags or (), strict=example.tags is not None):
                if place != ABSENT:
                    labels[place] = numbers.get(tag, IGNORED)
            unread = int((places == ABSENT).sum())
            rows.append(Row(index, (sequence,), {"labels": labels}, {"places": places}, unread))
        return rows

    def arrays(self, rows: Sequence[Row], length: int | None = None) -> dict[str, NDArray[Any]]:
        """Returns the arrays of a batch; ``labels`` are (B, T), of the first token of each word."""
        arrays = padded_sequences(self.form, rows, length)
        labels = np.full((len(rows), arrays["inputs"].shape[-1]), IGNORED, np.int64)
        for number, row in enumerate(rows):
            labels[number, : len(row.targets["labels"])] = row.targets["labels"]
        return arrays | {"labels": labels}

    def counts(self, batch: Arrays) -> dict[str, int]:
        return {self.term: int((batch["labels"] != IGNORED).sum())}

    def outputs(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        """Returns logits_BTO."""
        return task_outputs(self.form, model, batch, everywhere=True)[:, 0]

    def sums(self, outputs: "Tensor", batch: Tensors) -> "dict[str, Tensor]":
        from torch.nn import functional

        logits_BOT = outputs.transpose(1, 2)
        return {self.term: functional.cross_entropy(logits_BOT, batch["labels"], ignore_index=IGNORED, reduction="sum")}

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[NDArray[Any]]
    ) -> list[Prediction]:
        return [
            {
                "id": example.id,
                "prediction": [
                    OUTSIDE if place == ABSENT else self.classes[int(logits[place].argmax())]
                    for place in row.facts["places"].tolist()
                ],
                **({} if example.tags is None else {"label": list(example.tags)}),
            }
            for example, row, logits in zip(examples, rows, outputs, strict=True)
        ]

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        truth = [list(example.tags or ()) for example in examples]
        predicted = [prediction["prediction"] for prediction in predictions]
        computed = entity_scores(truth, predicted, self.task.scheme)
        computed["accuracy"] = share_equal(
            [tag for tags in truth for tag in tags], [tag for tags in predicted for tag in tags]
        )
        return {name: computed[name] for name in self.task.metrics}


def word_tokens(encoder: Encoder, words: Sequence[str]) -> tuple[Ids, list[int]]:
    """Returns the tokens of ``words`` with spaces between them, and the index of the first token of each word, or
    ``ABSENT``."""
    bounds, start = [], 0
    for word in words:
        bounds.append((start, start + len(word)))
        start += len(word) + 1
    ids, offsets = encoder.encode_with_offsets(" ".join(words))
    firsts = first_tokens(offsets, bounds)
    if firsts is not None:
        return ids, firsts
    pieces, listed, total = list[Ids](), list[int](), 0
    for number, word in enumerate(words):
        space = " " if number else ""
        piece, offsets = encoder.encode_with_offsets(space + word)
        (first,) = first_tokens(offsets, [(len(space), len(space) + len(word))]) or (ABSENT,)
        listed.append(first if first == ABSENT else total + first)
        pieces.append(piece)
        total += len(piece)
    return np.concatenate(pieces), listed


def first_tokens(offsets: Sequence[tuple[int, int]], bounds: Sequence[tuple[int, int]]) -> list[int] | None:
    """Returns the index of the first token with characters of each word, or ``ABSENT``.

    None: a token has characters of two words.

    Args:
        offsets: the first character of each token, and the one after its last.
        bounds: the same of each word, in the order of the text.
    """
    firsts, word = [ABSENT] * len(bounds), 0
    for token, (start, end) in enumerate(offsets):
        while word < len(bounds) and bounds[word][1] <= start:
            word += 1
        if word == len(bounds):
            break
        if end > bounds[word][0] and firsts[word] == ABSENT:
            firsts[word] = token
        if word + 1 < len(bounds) and end > bounds[word + 1][0]:
            return None
    return firsts
