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

from headrace.pipeline.core.kinds import Kinds
from headrace.train.finetune.files.examples import Format

FORMATS = Kinds(
    "format",
    Format,
    {
        "fields": "headrace.train.finetune.files.named_fields:NamedFields",
        "glue": "headrace.train.finetune.files.glue:Glue",
        "superglue": "headrace.train.finetune.files.superglue:SuperGlue",
        "squad": "headrace.train.finetune.files.squad:Squad",
        "conll": "headrace.train.finetune.files.conll:Conll",
        "conllu": "headrace.train.finetune.files.conll:ConllU",
        "tagged_words": "headrace.train.finetune.files.tagged_words:TaggedWords",
        "templates": "headrace.train.finetune.files.templates:TemplatePairs",
    },
)
AnyFormat = Annotated[Format, FORMATS]
"""All formats, distinguished by ``type``."""
