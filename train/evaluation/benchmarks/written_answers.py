"""Texts that the model writes in full, compared with right ones: translation, summaries, answers about a text.

    {"en": "Good morning.", "de": "Guten Morgen."}         "{en} =", "{de}"                                  bleu, chrf
    {"article": "…", "highlights": "…"}                    "{article}\\nTL;DR:", "{highlights}"              rouge1, …
    {"context": "…", "question": "Who?", "answers": […]}   "{context}\\nQ: {question}\\nA:", "{answers}"     f1, …

    context     <worked examples><prompt><query suffix>
    written     greedily, sampled or by beam search, up to the first of ``stops``; of this, the first ``sentences``

Translation with worked examples and TL;DR are tests of GPT-2 (Radford et al. 2019, sections 3.6 and 3.7).
"""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import AnyText, NaturalNumber, Positive, Seed, TextList, settings
from headrace.pipeline.core.stage import RawFile
from headrace.pipeline.core.statistics import Z95
from headrace.train.evaluation.benchmarks.base import Item, Outcome, Sources, column
from headrace.train.evaluation.benchmarks.generation import Asked, GenerationBenchmark
from headrace.train.evaluation.benchmarks.held_out import SENTENCE_END
from headrace.train.evaluation.file_records import (
    BenchmarkRecord,
    benchmark_records,
    text_of,
)
from headrace.train.evaluation.metrics import (
    CORPUS,
    ROUGE,
    Comparison,
    CorpusMetric,
    RougeMetric,
    accuracy,
    best_match,
    mean,
    require_packages,
)
from headrace.train.evaluation.prompt import Template
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Written
from headrace.train.inference.settings import Beams, Sampling

WHERE = "evaluation.benchmarks"
RESAMPLES = 1000
"""Draws of the items for the interval of BLEU and chrF: the default of sacrebleu's command."""
SPARE_TOKENS = 8
"""Positions that a cut document leaves free, for special tokens and for tokens that differ at the cut."""

AnswerMetric = CorpusMetric | RougeMetric | Literal["f1", "exact_match"]


@settings
class WrittenAnswers(GenerationBenchmark):
    """Texts written in full."""

    type: Literal["written_answers"] = "written_answers"
    sentence: ClassVar[str] = "Texts that the model writes in full, compared with right ones."
    prompt: str
    """The text before the answer, with names of fields in braces: "{en} =". Files are TSV, CSV or JSON lines."""
    answer: str
    """The right answer: "{de}". If the field holds a list, each of its texts is right."""
    lines: TextList = ()
    """The names of the lines of plain files that are read together, one sentence a line: [en, de] for paths
    [test.en, test.de]; empty: files of fields."""
    scores: Annotated[tuple[AnswerMetric, ...], Field(min_length=1)] = ("f1", "exact_match")
    """The metrics, the main one first: bleu, chrf; rouge1, rouge2, rougeL, rougeLsum; f1 and exact_match of SQuAD."""
    comparison: Comparison = dataclasses.field(default_factory=Comparison)
    """The way in which BLEU, chrF and ROUGE compare texts."""
    temperature: NaturalNumber = 0.0
    """Divides the logits; 0 takes the most likely token."""
    top_k: Positive | None = None
    """Only this many of the most likely tokens; null: all."""
    seed: Seed = 0
    """Decides every drawn token, together with the prompt."""
    beams: Beams = 1
    """Texts that beam search keeps at each token; 1: no search."""
    length_penalty: NaturalNumber = 0.0
    """Beam search divides ln p by ((5 + tokens) / 6) to the power of this."""
    sentences: Positive | None = None
    """Only the first sentences of what is written count, as lines; null: all of it."""
    document: AnyText = ""
    """The field whose end is cut where the prompt does not fit the window; empty: the prompt loses its beginning."""

    def __post_init__(self) -> None:
        super().__post_init__()
        fields = {*self.prompt_template.fields, *self.answer_template.fields}
        if self.lines and (unknown := sorted(fields - {*self.lines})):
            problem = f"prompt or answer names {unknown[0]!r}, and the lines are {', '.join(self.lines)}"
            raise ConfigError(WHERE, problem, "name some of these")
        if self.document and self.document not in self.prompt_template.fields:
            problem = f"document is {self.document!r}, and the prompt names {', '.join(self.prompt_template.fields)}"
            raise ConfigError(WHERE, problem, "name one of these fields")
        _ = self.sampling  # refuses settings that contradict each other

    @property
    def prompt_template(self) -> Template:
        return Template.parsed(self.prompt, f"{WHERE}: prompt")

    @property
    def answer_template(self) -> Template:
        return Template.parsed(self.answer, f"{WHERE}: answer")

    @property
    def sampling(self) -> Sampling:
        return Sampling(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_k=self.top_k,
            seed=self.seed,
            stops=self.stops,
            beams=self.beams,
            length_penalty=self.length_penalty,
        )

    @property
    def reading(self) -> str:
        return "|".join((self.type, self.prompt, self.answer, *self.lines))

    def raw_files(self, data: Path) -> tuple[RawFile, ...]:
        require_packages(WHERE, self.scores)
        return super().raw_files(data)

    def records(self, data: Path) -> list[BenchmarkRecord]:
        return benchmark_records(self.files(data), self.lines)

    def parse(self, record: BenchmarkRecord) -> Asked:
        values, right = record.values, self.answer_template.texts(record.values)
        return Asked(self.prompt_template.text(values), right, right[0], values)

    def fitting(self, asked: Asked, sources: Sources) -> Asked:
        """Returns ``asked`` with a prompt whose document is cut to fit the model's window."""
        encoder = sources.tokenizer
        if not self.document or encoder is None:
            return asked
        most = sources.window_tokens - min(self.max_tokens, sources.window_tokens // 2) - SPARE_TOKENS
        document = text_of(asked.record, self.document)
        question = self.turns(self.rewritten(asked.question) + self.query_suffix, (), self.description)
        whole, ids = encoder.encode([sources.form.context(question), document])
        if len(whole) <= most:
            return asked
        cut = encoder.decode(ids[: max(1, len(ids) - (len(whole) - most))].tolist())
        prompt = self.prompt_template.text({**asked.record, self.document: cut})
        return dataclasses.replace(asked, question=prompt)

    def outcome(self, item: Item, answers: Sequence[Written]) -> Outcome:
        """Returns the scores of one text; BLEU and chrF are of all texts together."""
        text = self.shown(item.written[0] if item.written else answers[0].text)
        exact, f1 = best_match(item.choices, text)
        rouge_scores = [name for name in self.scores if name in ROUGE]
        rouge = self.comparison.rouge(rouge_scores, [text], [item.choices]) if rouge_scores else {}
        values = {"exact_match": exact, "f1": f1} | {name: value for name, (value,) in rouge.items()}
        return {name: values[name] for name in self.scores if name in values}

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the scores of the texts; those of guessing are 0 where they are known."""
        return [
            self._corpus(name, items) if name in CORPUS else _of_items(name, column(outcomes, name))
            for name in self.scores
        ]

    def _corpus(self, name: str, items: Sequence[Item]) -> Metric:
        written = [self.shown(item.written[0]) for item in items]
        return corpus_metric(self.comparison, name, written, [item.choices for item in items])

    def shown(self, text: str) -> str:
        """Returns the part of a written ``text`` that counts."""
        return text.strip() if self.sentences is None else first_sentences(text, self.sentences)


def corpus_metric(comparison: Comparison, name: str, written: Sequence[str], right: Sequence[Sequence[str]]) -> Metric:
    """Returns BLEU or chrF of all ``written`` texts, with the interval of resampled ones."""
    score = comparison.corpus(name, written, right, RESAMPLES)
    half, error, interval = score.half_width, None, None
    if half is not None:
        error, interval = half / Z95, (max(0.0, score.value - half), min(100.0, score.value + half))
    return Metric(name, score.value, error, interval, None, len(written), signature=score.signature)


def first_sentences(text: str, number: int) -> str:
    """Returns the first sentences of ``text`` as lines; a sentence ends with a mark before a capital, or its line."""
    sentences = itertools.islice(filter(None, map(str.strip, _sentences(text))), number)
    return "\n".join(re.sub(r"\s+", " ", sentence) for sentence in sentences)


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for match in SENTENCE_END.finditer(text):
        yield text[start : match.end()]
        start = match.end()
    yield text[start:]


def _of_items(name: str, values: Sequence[float]) -> Metric:
    return accuracy(name, values, 0.0) if name == "exact_match" else mean(name, values, 0.0)
