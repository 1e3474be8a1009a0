"""Examples of a prompt and a text to write, by templates over fields (train/evaluation/prompt.py).

{type: templates, prompt: "translate English to German: {en}", answer: "{de}"}                    TSV, CSV, JSON lines
{type: templates, lines: [en, de], prompt: "translate English to German: {en}", answer: "{de}"}   train.en, train.de
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import TextList, settings
from headrace.train.evaluation.file_records import FieldValues, RecordError, pair_records
from headrace.train.evaluation.prompt import Template
from headrace.train.finetune.files.examples import AnswerSpan, Collection, Example, Examples

PROMPT = ""
"""The name of the only text of these examples, which no field has."""


@settings
class TemplatePairs:
    """Files of texts to read and to write: by names of fields, or aligned line by line."""

    type: Literal["templates"] = "templates"
    prompt: str
    """The text that the model reads, with names of fields in braces: "summarize: {article}"."""
    answer: str
    """The text that it writes: "{highlights}". If the field holds a list, each of its texts is right, and the first one
    is trained on."""
    lines: TextList = ()
    """The names of the lines of plain files that are read together, one sentence a line: [en, de] for train.en and
    train.de; empty: files of fields (TSV, CSV, JSON lines)."""
    header: bool = True
    """Whether the first line of TSV and CSV names the fields; without it they are "0", "1", …."""

    def __post_init__(self) -> None:
        for setting, template in (("prompt", self.prompt_template), ("answer", self.answer_template)):
            unknown = [field for field in template.fields if self.lines and field not in self.lines]
            if unknown:
                problem = f"names {unknown[0]!r}, and the lines are {', '.join(self.lines)}"
                raise ConfigError(f"finetune.task.format.{setting}", problem, "name some of these")

    @property
    def prompt_template(self) -> Template:
        return Template.parsed(self.prompt, "finetune.task.format.prompt")

    @property
    def answer_template(self) -> Template:
        return Template.parsed(self.answer, "finetune.task.format.answer")

    @property
    def classes(self) -> tuple[str, ...]:
        return ()

    @property
    def files_together(self) -> int:
        """The number of files that one set of examples is in."""
        return len(self.lines) or 1

    def sets(self, paths: Sequence[Path]) -> list[Sequence[Path]]:
        """Returns ``paths`` in sets of files that are read together; a set that lacks files is refused when read."""
        return [paths[start : start + self.files_together] for start in range(0, len(paths), self.files_together)]

    def read(self, path: Path, labelled: bool = True) -> Examples:
        return self.read_together([path], labelled)

    def read_together(self, paths: Sequence[Path], labelled: bool = True) -> Examples:
        """Returns the examples of one set of files; see ``Format.read``."""
        collection = Collection(paths[0])
        prompt, answer = self.prompt_template, self.answer_template

        def examples_of(name: str, record: FieldValues) -> Iterator[Example]:
            answers = tuple(map(AnswerSpan, answer.texts(record))) if labelled else None
            yield Example(id=name, texts={PROMPT: prompt.text(record)}, answers=answers)

        for name, record in pair_records(paths, self.lines, self.header):
            if isinstance(record, RecordError):
                collection.drop(record)
            else:
                collection.add(examples_of(name, record), record)
        return collection.close()
