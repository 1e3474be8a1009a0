"""Fine-tuning: kinds of tasks, from labelled examples to scores over several seeds."""

from typing import Annotated

from pydantic import Field

from headrace.train.finetune.classification import Classification
from headrace.train.finetune.conversations import Conversations
from headrace.train.finetune.mixture import TaskMixture
from headrace.train.finetune.multiple_choice import MultipleChoiceTask
from headrace.train.finetune.regression import Regression
from headrace.train.finetune.span import Span
from headrace.train.finetune.text_to_text import TextToText

AnyTask = Annotated[
    Classification | Regression | MultipleChoiceTask | Span | TextToText | TaskMixture | Conversations,
    Field(discriminator="type"),
]
"""All kinds of tasks, distinguished by ``type``."""
