"""Formats of examples: fields and templates that a user names; GLUE and SQuAD as published.

    {type: fields, texts: [question, passage], label: answer}      any TSV, CSV or JSON lines
    {type: glue, task: mrpc}
    {type: squad}
    {type: templates, prompt: "summarize: {article}", answer: "{highlights}"}

A format reads one file into examples (``read``) and knows the classes in their order (``classes``), if there are any.
"""

from typing import Annotated

from headrace.pipeline.core.kinds import Kinds
from headrace.train.finetune.files.examples import Format

FORMATS = Kinds(
    "format",
    Format,
    {
        "fields": "headrace.train.finetune.files.examples:NamedFields",
        "glue": "headrace.train.finetune.files.published:Glue",
        "squad": "headrace.train.finetune.files.published:Squad",
        "templates": "headrace.train.finetune.files.examples:TemplatePairs",
    },
)
AnyFormat = Annotated[Format, FORMATS]
"""All formats, distinguished by ``type``."""
