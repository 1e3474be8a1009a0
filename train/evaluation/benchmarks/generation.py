"""Text that the model writes: answers to questions, and continuations to be read.

**Answers**: TriviaQA and GSM8K as in lm-evaluation-harness's triviaqa and gsm8k.

    {"context": "Question: Who …?\\nAnswer:", "aliases": ["Onion", "Allium cepa", …]}                    short_answer
    {"context": "Janet’s ducks lay …", "chain_of_thought": "… <<16-3-4=9>>9 …", "answer": "18"}          word_problem

    context     <worked examples><context, rewritten><query suffix>
    written     greedily, up to the first of ``stops``, at most ``max_tokens`` tokens

Each text is judged in two or three ways, from strict to lenient; samples show the texts. A metric has the harness's
name, with the harness's filter in brackets.

**Continuations**: text after a few beginnings.

    beginning of a held-out document ── greedily, and sampled with a fixed seed ──> two texts; the document's own text
    prompt                           ── greedily, and sampled with a fixed seed ──> two texts

The one number is the share of word 4-grams that a text repeats: seq-rep-4 of Welleck et al. 2020 ("Neural Text
Generation with Unlikelihood Training"), with words in place of tokens, so that models with different tokenizers
compare. Greedy text of a small model often repeats one phrase to its end.
"""

import dataclasses
import re
import string
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.pipeline.core.settings import AnyText, Natural, Positive, PositiveNumber, Seed, TextList, settings
from headrace.train.evaluation.benchmarks.base import Benchmark, FewShotBenchmark, Item, Outcome, Sources, column
from headrace.train.evaluation.benchmarks.choices import without_form
from headrace.train.evaluation.file_records import BenchmarkRecord, FieldValues
from headrace.train.evaluation.held_out_documents import HeldOutDocument
from headrace.train.evaluation.metrics import accuracy, f1_of_words, mean, within_shares
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.growing_text import UNKNOWN
from headrace.train.inference.queries import Generate, TextEncoder, Written
from headrace.train.inference.settings import Sampling

LENIENT = "exact_match (remove_whitespace)"
STRICT = "exact_match (strict-match)"
FLEXIBLE = "exact_match (flexible-extract)"
MARKED = re.compile(r"#### (-?[0-9.,]+)")
NUMBER = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")
PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, ""))
SPACED_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "‘’´`", " "))


@dataclasses.dataclass(frozen=True)
class Asked:
    """A question that the model answers in writing."""

    question: str
    right: tuple[str, ...]
    """The texts that the written answer is compared with."""
    worked: str
    """The answer as a worked example has it."""
    record: FieldValues = dataclasses.field(default_factory=dict)
    """The record that it comes from, where its prompt may have to be cut."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GenerationBenchmark(FewShotBenchmark[Asked]):
    """Questions that the model answers in writing."""

    revision: ClassVar[int] = 1
    """1 since special tokens are no part of what is written."""
    query_suffix: AnyText = ""
    """The text after each question."""
    stops: TextList = ()
    """The answer ends before the first of these."""
    max_tokens: Positive = 256
    """The most tokens of an answer; a model whose window is not longer writes half a window at most."""

    @property
    def sampling(self) -> Sampling:
        """The way in which answers are written: greedily."""
        return Sampling(max_tokens=self.max_tokens, stops=self.stops)

    def fitting(self, asked: Asked, sources: Sources) -> Asked:
        """Returns ``asked`` with a question that fits the model's window; one that does not loses its beginning."""
        return asked

    def items(self, sources: Sources) -> list[Item]:
        records = [(name, self.fitting(asked, sources)) for name, asked in self.read(sources.data)]
        questions = [self.rewritten(asked.question) + self.query_suffix for _, asked in records]
        contexts = self.contexts(questions, [asked.worked for _, asked in records], sources.form)
        return [
            Item(name, (Generate(context, self.sampling),), asked.right)
            for (name, asked), context in zip(records[: self.limit], contexts, strict=False)
        ]

    def texts(self, parsed: Sequence[Asked]) -> list[tuple[str, ...]]:
        questions = without_form([asked.question for asked in parsed])
        return [(f"{question} {asked.worked}",) for question, asked in zip(questions, parsed, strict=True)]


@settings
class ShortAnswers(GenerationBenchmark):
    """Answers of a few words; several may be right."""

    type: Literal["short_answer"] = "short_answer"
    sentence: ClassVar[str] = "Questions that the model answers in a few words of its own."
    stops: TextList = ("\n", ".", ",")
    """The answer ends before the first of these (lm-evaluation-harness's triviaqa)."""

    def parse(self, record: BenchmarkRecord) -> Asked:
        right = record.texts("aliases", least=1)
        return Asked(record.query("context"), right, right[0])

    def outcome(self, item: Item, answers: Sequence[Written]) -> Outcome:
        """Returns ``exact_match`` without case and punctuation, and ``em`` and ``f1`` of TriviaQA's own evaluation,
        which also ignores articles (Joshi et al. 2017; evaluation/triviaqa_evaluation.py); each by the best of the
        right answers."""
        (written,) = answers
        bare = _bare(written.text.strip())
        words = normalized(written.text)
        rights = [normalized(right) for right in item.choices]
        return {
            LENIENT: float(any(_bare(right) == bare for right in item.choices)),
            "em": float(words in rights),
            "f1": max(f1_of_words(words, right) for right in rights),
        }

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the three scores; guessing gives 0."""
        exact = [accuracy(name, column(outcomes, name), 0.0) for name in (LENIENT, "em")]
        return [*exact, mean("f1", column(outcomes, "f1"), 0.0)]


@settings
class WordProblems(GenerationBenchmark):
    """A number after some reasoning."""

    type: Literal["word_problem"] = "word_problem"
    sentence: ClassVar[str] = "Problems that the model solves in writing; only the number at the end counts."
    stops: TextList = ("Question:", "</s>", "<|im_end|>")
    """The answer ends before the first of these (lm-evaluation-harness's gsm8k)."""

    def parse(self, record: BenchmarkRecord) -> Asked:
        """Returns a worked answer as in GSM8K (Cobbe et al. 2021): the number comes after four hash marks."""
        question, thought, answer = record.query("context"), record.text("chain_of_thought"), record.text("answer")
        return Asked(question, (answer,), f"{thought}\n#### {answer}")

    def outcome(self, item: Item, answers: Sequence[Written]) -> Outcome:
        """Compares the first number after four hash marks (``strict-match``), and the last number
        (``flexible-extract``). Both ignore dollar signs, commas, and a period at the end."""
        ((written,), (right,)) = answers, item.choices
        marked, numbers = MARKED.search(written.text), NUMBER.findall(written.text)
        return {
            STRICT: float(marked is not None and _number(marked[1]) == _number(right)),
            FLEXIBLE: float(bool(numbers) and _number(numbers[-1]) == _number(right)),
        }

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns both scores; guessing gives 0."""
        return [accuracy(name, column(outcomes, name), 0.0) for name in (STRICT, FLEXIBLE)]


def _bare(text: str) -> str:
    return text.lower().translate(PUNCTUATION)


def _number(text: str) -> str:
    return text.replace(",", "").replace("$", "").removesuffix(".").lower()


def normalized(answer: str) -> list[str]:
    """Returns the words of ``answer`` in lower case, without punctuation and articles."""
    return re.sub(r"\b(a|an|the)\b", " ", answer.lower().translate(SPACED_PUNCTUATION)).split()


GREEDY, SAMPLED = "repeated_4grams (greedy)", "repeated_4grams (sampled)"
NGRAM_WORDS = 4


@settings
class Continuations(Benchmark):
    """Text that the model writes after held-out beginnings and plain prompts."""

    revision: ClassVar[int] = 1
    """1 since special tokens are no part of what is written."""
    type: Literal["continuations"] = "continuations"
    sentence: ClassVar[str] = (
        "Text that the model writes: the share of its sequences of four words that repeat an earlier one."
    )
    documents: Natural = 4
    """Beginnings of this many held-out documents; a model that no run made gets the prompts only."""
    beginning_tokens: Positive = 40
    """The model reads this many tokens of a document at most, up to the end of a word."""
    prompts: TextList = ("Once upon a time", "The most important")
    """Texts of one's own to continue."""
    max_tokens: Positive = 40
    """The most tokens of a text that the model writes."""
    temperature: PositiveNumber = 0.8
    """Divides the logits of the sampled text."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    """The sampled text takes only the fewest tokens whose probabilities sum to at least this."""
    seed: Seed = 0
    """Decides the sampled text: ``headrace generate --seed`` with the same prompt and settings writes the same text."""

    def items(self, sources: Sources) -> list[Item]:
        documents = [
            self._item(document, sources.text_encoder) for document in self._long_enough(sources)[: self.documents]
        ]
        prompts = [Item(f"prompt:{number}", self._queries(text)) for number, text in enumerate(self.prompts, 1)]
        return [*documents, *prompts][: self.limit]

    def _long_enough(self, sources: Sources) -> list[HeldOutDocument]:
        """Returns the held-out documents that have a beginning and as much text after it as the model writes."""
        least = self.beginning_tokens + self.max_tokens
        documents = sources.held_out.documents if sources.held_out else []
        return sorted(
            (document for document in documents if len(document.tokens) >= least + 2), key=lambda document: document.key
        )

    def _item(self, document: HeldOutDocument, encoder: TextEncoder) -> Item:
        """Returns the item of ``document``. Its only choice is the document's own text, of the model's length."""
        text, read = document.text, document.encoder.decode(document.tokens[1 : 1 + self.beginning_tokens])
        words = re.match(r"(.*\S)\s", read, re.DOTALL)
        beginning = words[1] if words else read.rstrip(UNKNOWN)
        ids = encoder.encode([text[len(beginning) :]])[0][: self.max_tokens].tolist()
        return Item(document.name, self._queries(beginning), (encoder.decode(ids).rstrip(UNKNOWN),))

    def _queries(self, beginning: str) -> tuple[Generate, Generate]:
        greedy = Sampling(max_tokens=self.max_tokens)
        sampled = dataclasses.replace(greedy, temperature=self.temperature, top_p=self.top_p, seed=self.seed)
        return Generate(beginning, greedy), Generate(beginning, sampled)

    def outcome(self, item: Item, answers: Sequence[Written]) -> Outcome:
        greedy, sampled = answers
        return {GREEDY: repeated_share(greedy.text), SAMPLED: repeated_share(sampled.text)}

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the mean share of repeated 4-grams of greedy and of sampled texts."""
        shares = {name: column(outcomes, name) for name in (GREEDY, SAMPLED)}
        return [within_shares(mean(name, values, None)) for name, values in shares.items()]


def repeated_share(text: str) -> float:
    """Returns the share of the word 4-grams of ``text`` that came earlier in it; 0 for a text of fewer words."""
    words = text.split()
    ngrams = [tuple(words[start : start + NGRAM_WORDS]) for start in range(len(words) - NGRAM_WORDS + 1)]
    return 1 - len(set(ngrams)) / len(ngrams) if ngrams else 0.0
