"""Formats of examples: fields and templates that a user names, and GLUE, SuperGLUE and SQuAD as they are published.

    {type: fields, texts: [question, passage], label: answer}      any TSV, CSV or JSON lines
    {type: glue, task: mrpc}
    {type: superglue, task: boolq}
    {type: squad}
    {type: templates, prompt: "summarize: {article}", answer: "{highlights}"}

A format reads one file into examples (``read``) and knows the classes in their order (``classes``), if there are any.
"""

from typing import Annotated

from pydantic import Field

from headrace.train.finetune.files.glue import Glue
from headrace.train.finetune.files.named_fields import NamedFields
from headrace.train.finetune.files.squad import Squad
from headrace.train.finetune.files.superglue import SuperGlue
from headrace.train.finetune.files.templates import TemplatePairs

AnyFormat = Annotated[NamedFields | Glue | SuperGlue | Squad | TemplatePairs, Field(discriminator="type")]
"""All formats, distinguished by ``type``."""
