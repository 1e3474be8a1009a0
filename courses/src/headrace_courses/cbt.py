"""The Children's Book Test: the missing word of the sentence after twenty of a book (Hill et al., ICLR 2016).

    1 Once there was a miller .                                        20 such lines, then
    21 `` I saw the XXXXX , '' he said .<TAB>mill<TAB><TAB>mill|river|…     question, answer, nothing, candidates

    context       the twenty sentences and the question up to the gap, de-tokenized
    continuation  <candidate> and the rest of the question

The candidate with the most likely continuation is chosen: "the probability of each choice and the rest of the sentence
conditioned on this choice" (Radford et al. 2019, §3.2, who also removed the marks of tokenization from the text, and
took the validation files of common nouns, CBT-CN, and of named entities, CBT-NE). It is not known whether they
separated the question from the sentences; here all are one text, with a space between two.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.settings import settings
from headrace.train.evaluation.benchmarks.base import FileBenchmark, Item, Outcome, Sources, column
from headrace.train.evaluation.benchmarks.choices import chance, first_best
from headrace.train.evaluation.file_records import read_text
from headrace.train.evaluation.metrics import accuracy
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, Text
from headrace_courses.detokenizers import TREEBANK_TEXT

GAP = "XXXXX"
LINES = 21
REMEDY = f"give {LINES} lines that begin with their number and a space"


@dataclasses.dataclass(frozen=True)
class Question:
    """A passage, de-tokenized, with a gap in its last sentence."""

    passage: str
    candidates: tuple[str, ...]
    gold: int

    def parts(self, candidate: str) -> tuple[str, str]:
        """Returns the text before the gap, and the text from the gap on, filled with ``candidate``."""
        before, after = self.passage.split(GAP, 1)
        return before, candidate + after.replace(GAP, candidate)


@settings
class ChildrensBooks(FileBenchmark[Question]):
    """The choice of the missing word."""

    type: Literal["cbt"] = "cbt"
    sentence: ClassVar[str] = "The missing word of a sentence from a children's book, of ten."

    def read(self, data: Path) -> list[tuple[str, Question]]:
        return [question for path in self.files(data) for question in questions(path)]

    def texts(self, parsed: Sequence[Question]) -> list[tuple[str, ...]]:
        """Returns each passage with its right word; wrong ones differ by a word."""
        return [("".join(question.parts(question.candidates[question.gold])),) for question in parsed]

    def items(self, sources: Sources) -> list[Item]:
        return [
            Item(
                name,
                tuple(Text(*asked.parts(candidate)) for candidate in asked.candidates),
                asked.candidates,
                asked.gold,
            )
            for name, asked in self.read(sources.data)[: self.limit]
        ]

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        """Returns acc: 1 when the right candidate is the most likely; of equal ones the first wins."""
        scores = [answer.log_likelihood for answer in answers]
        return {"acc": first_best(scores, item.gold)}

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        return [accuracy("acc", column(outcomes, "acc"), chance(items))]


def questions(path: Path) -> Iterator[tuple[str, Question]]:
    """Yields (``<file>:<line of the question>``, question) of a file in its published format.

    Raises:
        ArtifactError: naming the line that has another format.
    """
    sentences: list[str] = []
    number = 0
    for number, line in enumerate(read_text(path).removesuffix("\n").split("\n"), start=1):
        if not line.strip() and not sentences:
            continue
        match = re.fullmatch(rf"{len(sentences) + 1} (.*\S.*)", line)
        if not match:
            problem = f"{line[:40]!r} is not line {len(sentences) + 1} of a question"
            raise ArtifactError(f"{path}:{number}", problem, REMEDY)
        sentences.append(match[1])
        if len(sentences) == LINES:
            yield f"{path.name}:{number}", _question(sentences, f"{path}:{number}")
            sentences = []
    if sentences:
        problem = f"ends after {len(sentences)} lines of a question"
        raise ArtifactError(f"{path}:{number}", problem, REMEDY)


def _question(sentences: Sequence[str], where: str) -> Question:
    parts = sentences[-1].split("\t")
    if len(parts) != 4:
        problem = f"has {len(parts)} parts between tabs"
        raise ArtifactError(where, problem, "give four: question, answer, nothing, candidates with | between them")
    question, answer, _, listed = (part.strip() for part in parts)
    candidates = tuple(candidate for candidate in listed.split("|") if candidate.strip())
    if GAP not in question:
        raise ArtifactError(where, f"has no {GAP}", "mark with it where the word is missing")
    if len(candidates) < 2:
        raise ArtifactError(where, f"has the candidates {listed!r}", "give two or more with | between them")
    if answer not in candidates:
        raise ArtifactError(where, f"has the answer {answer!r}, which is no candidate", f"give one of {listed}")
    passage = " ".join(map(TREEBANK_TEXT.detokenize, [*sentences[:-1], question]))
    return Question(passage, candidates, candidates.index(answer))
