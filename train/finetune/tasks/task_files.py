"""The files of a task: reading of all of them, and the checks and settings that most tasks share. Free of torch."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import TextList, settings
from headrace.pipeline.core.text_files import stored_path
from headrace.train.finetune.files import AnyFormat
from headrace.train.finetune.files.examples import Example, Examples, Format
from headrace.train.finetune.files.named_fields import NamedFields
from headrace.train.finetune.files.templates import TemplatePairs
from headrace.train.finetune.tasks.task import Task


@settings
class FileTask(Task):
    """Base of the tasks whose examples come from files of one format."""

    format: AnyFormat
    """The format of the files: fields (TSV, CSV, JSON lines), glue, superglue, squad, conll, conllu or
    tagged_words."""
    texts: TextList = ()
    """The texts that the model reads, by their names in the format, in order: the first one, and after the separator
    the others, with a space between them; empty: all of them."""

    result: ClassVar[str] = ""
    """The setting of ``NamedFields`` that names the field with the task's results; empty: there is none."""

    def read(self, paths: Sequence[str], labelled: bool = True) -> tuple[list[Example], dict[str, int]]:
        if labelled and self.result and isinstance(self.format, NamedFields):
            self.format.check_named(self.result, stored_path(Path(paths[0])))
        examples, dropped = read_files(self.format, paths, labelled)
        if examples and (unknown := [name for name in self.texts if name not in examples[0].texts]):
            names = ", ".join(examples[0].texts)
            raise ConfigError("finetune.task.texts", f"the format has no text {unknown[0]!r}", f"give some of: {names}")
        return examples, dropped

    def texts_of(self, example: Example) -> list[str]:
        """Returns the one text or the two that the model reads of ``example``."""
        texts = [example.texts[name] for name in self.texts or example.texts]
        return [texts[0], " ".join(texts[1:])] if len(texts) > 1 else texts


def read_files(form: Format, paths: Sequence[str], labelled: bool) -> tuple[list[Example], dict[str, int]]:
    """Returns the examples of all ``paths``, and the number of dropped lines by reason."""
    stored = [stored_path(Path(path)) for path in paths]
    if isinstance(form, TemplatePairs):
        return merged(form.read_together(files, labelled) for files in form.sets(stored))
    return merged(form.read(path, labelled) for path in stored)


def merged(files: Iterable[Examples]) -> tuple[list[Example], dict[str, int]]:
    """Returns the examples of all ``files``, and the number of dropped lines by reason."""
    examples, dropped = list[Example](), Counter[str]()
    for file in files:
        examples += file.examples
        dropped.update(file.dropped)
    return examples, dict(dropped)


def check_labelled(examples: Sequence[Example], field: str, what: str, split: str) -> None:
    """Checks that every one of ``examples`` has its result in ``field``.

    Raises:
        ConfigError: naming the first example without.
    """
    for example in examples:
        if getattr(example, field) is None:
            problem = f"example {example.id} has no {what}"
            remedy = "give files with results, or the task type that they are of"
            raise ConfigError(f"finetune.{split}", problem, remedy)
