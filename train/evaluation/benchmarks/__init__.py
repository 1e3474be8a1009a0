"""The union of benchmarks."""

from typing import Annotated

from pydantic import Field

from headrace.train.evaluation.benchmarks.agreement import Agreement
from headrace.train.evaluation.benchmarks.baselines import LstmBaseline, Ngram
from headrace.train.evaluation.benchmarks.canary_extraction import Extraction
from headrace.train.evaluation.benchmarks.cbt import ChildrensBooks
from headrace.train.evaluation.benchmarks.completion import Completion
from headrace.train.evaluation.benchmarks.continuations import Continuations
from headrace.train.evaluation.benchmarks.copying import Copying
from headrace.train.evaluation.benchmarks.extrapolation import Extrapolation
from headrace.train.evaluation.benchmarks.field_choice import FieldChoice
from headrace.train.evaluation.benchmarks.generation import ShortAnswers, WordProblems
from headrace.train.evaluation.benchmarks.held_out import HeldOutOrder, HeldOutSentences, HeldOutWords
from headrace.train.evaluation.benchmarks.in_context import InContext
from headrace.train.evaluation.benchmarks.induction import Induction
from headrace.train.evaluation.benchmarks.lambada import Lambada
from headrace.train.evaluation.benchmarks.language_modelling import LanguageModelling
from headrace.train.evaluation.benchmarks.minimal_pairs import MinimalPairs
from headrace.train.evaluation.benchmarks.multiple_choice import MultipleChoice
from headrace.train.evaluation.benchmarks.schema import Schema
from headrace.train.evaluation.benchmarks.validation_loss import Validation
from headrace.train.evaluation.benchmarks.written_answers import WrittenAnswers

AnyBenchmark = Annotated[
    Validation
    | Lambada
    | LanguageModelling
    | MultipleChoice
    | FieldChoice
    | Schema
    | ShortAnswers
    | WordProblems
    | WrittenAnswers
    | Completion
    | ChildrensBooks
    | MinimalPairs
    | HeldOutWords
    | HeldOutSentences
    | HeldOutOrder
    | InContext
    | Induction
    | Extrapolation
    | Copying
    | Extraction
    | Ngram
    | LstmBaseline
    | Agreement
    | Continuations,
    Field(discriminator="type"),
]
"""All kinds of benchmarks, distinguished by ``type``."""
