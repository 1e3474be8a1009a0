"""Fine-tuning: kinds of tasks, from labelled examples to scores over several seeds."""

from typing import Annotated

from pydantic import Field

from headrace.train.finetune.classification import Classification
from headrace.train.finetune.multiple_choice import MultipleChoiceTask
from headrace.train.finetune.regression import Regression
from headrace.train.finetune.span import Span

AnyTask = Annotated[Classification | Regression | MultipleChoiceTask | Span, Field(discriminator="type")]
"""All kinds of tasks, distinguished by ``type``."""
