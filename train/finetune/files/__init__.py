"""Formats of examples: fields that a user names, and GLUE, SuperGLUE and SQuAD as they are published.

    {type: fields, texts: [question, passage], label: answer}      any TSV, CSV or JSON lines
    {type: glue, task: mrpc}
    {type: superglue, task: boolq}
    {type: squad}

A format reads one file into examples (``read``) and knows the classes in their order (``classes``), if there are any.
"""

from pathlib import Path
from typing import Annotated, Protocol

from pydantic import Field

from headrace.train.finetune.files.examples import Examples
from headrace.train.finetune.files.fields import Fields
from headrace.train.finetune.files.glue import Glue
from headrace.train.finetune.files.squad import Squad
from headrace.train.finetune.files.superglue import SuperGlue


class Format(Protocol):
    """The way that examples are written to a file."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Returns the classes, in the order of their numbers; none where only the files know them."""

    def read(self, path: Path, labelled: bool = True) -> Examples:
        """Returns the examples of ``path``; without ``labelled`` the results in it are not looked at.

        Raises:
            ArtifactError: when most of it holds no example, or it cannot be read.
        """


AnyFormat = Annotated[Fields | Glue | SuperGlue | Squad, Field(discriminator="type")]
"""All formats, distinguished by ``type``."""
