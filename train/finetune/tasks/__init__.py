"""Kinds of tasks to fine-tune, from labelled examples to predictions and scores."""

from typing import Annotated

from headrace.pipeline.core.kinds import Kinds
from headrace.train.finetune.tasks.task import Task

TASKS = Kinds(
    "task",
    Task,
    {
        "classification": "headrace.train.finetune.tasks.labels:Classification",
        "regression": "headrace.train.finetune.tasks.labels:Regression",
        "multiple_choice": "headrace.train.finetune.tasks.labels:MultipleChoiceTask",
        "span": "headrace.train.finetune.tasks.span:SpanTask",
        "text_to_text": "headrace.train.finetune.tasks.text_to_text:TextToText",
        "conversations": "headrace.train.finetune.tasks.conversations:Conversations",
    },
)
AnyTask = Annotated[Task, TASKS]
"""All kinds of tasks, distinguished by ``type``."""
