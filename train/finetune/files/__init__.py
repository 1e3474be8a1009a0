"""Formats of examples: fields and templates that a user names; GLUE, SuperGLUE, SQuAD and tagged words as published.

    {type: fields, texts: [question, passage], label: answer}      any TSV, CSV or JSON lines
    {type: glue, task: mrpc}
    {type: superglue, task: boolq}
    {type: squad}
    {type: conll, word: 0, label: 3}                               also conllu, tagged_words (JSON lines)
    {type: templates, prompt: "summarize: {article}", answer: "{highlights}"}

A format reads one file into examples (``read``) and knows the classes in their order (``classes``), if there are any.
"""

from typing import Annotated

from pydantic import Field

from headrace.train.finetune.files.conll import Conll, ConllU
from headrace.train.finetune.files.glue import Glue
from headrace.train.finetune.files.named_fields import NamedFields
from headrace.train.finetune.files.squad import Squad
from headrace.train.finetune.files.superglue import SuperGlue
from headrace.train.finetune.files.tagged_words import TaggedWords
from headrace.train.finetune.files.templates import TemplatePairs

AnyFormat = Annotated[
    NamedFields | Glue | SuperGlue | Squad | Conll | ConllU | TaggedWords | TemplatePairs, Field(discriminator="type")
]
"""All formats, distinguished by ``type``."""
