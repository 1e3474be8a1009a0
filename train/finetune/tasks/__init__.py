"""Kinds of tasks to fine-tune, from labelled examples to predictions and scores."""

from typing import Annotated

from pydantic import Field

from headrace.train.finetune.tasks.classification import Classification
from headrace.train.finetune.tasks.cloze import Cloze
from headrace.train.finetune.tasks.conversations import Conversations
from headrace.train.finetune.tasks.multiple_choice import MultipleChoiceTask
from headrace.train.finetune.tasks.regression import Regression
from headrace.train.finetune.tasks.span import SpanTask
from headrace.train.finetune.tasks.task_mixture import TaskMixture
from headrace.train.finetune.tasks.text_to_text import TextToText
from headrace.train.finetune.tasks.token_classification import TokenClassification

AnyTask = Annotated[
    Classification
    | Regression
    | MultipleChoiceTask
    | Cloze
    | SpanTask
    | TokenClassification
    | TextToText
    | TaskMixture
    | Conversations,
    Field(discriminator="type"),
]
"""All kinds of tasks, distinguished by ``type``."""
