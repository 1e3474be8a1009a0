"""The table of benchmarks."""

from typing import Annotated

from headrace.pipeline.core.kinds import Kinds
from headrace.train.evaluation.benchmarks.base import Benchmark

BENCHMARKS = Kinds(
    "benchmark",
    Benchmark,
    {
        "validation": "headrace.train.evaluation.benchmarks.language_modelling:Validation",
        "lambada": "headrace.train.evaluation.benchmarks.choices:Lambada",
        "language_modelling": "headrace.train.evaluation.benchmarks.language_modelling:LanguageModelling",
        "multiple_choice": "headrace.train.evaluation.benchmarks.choices:MultipleChoice",
        "field_choice": "headrace.train.evaluation.benchmarks.field_choice:FieldChoice",
        "schema": "headrace.train.evaluation.benchmarks.choices:Schema",
        "short_answer": "headrace.train.evaluation.benchmarks.generation:ShortAnswers",
        "word_problem": "headrace.train.evaluation.benchmarks.generation:WordProblems",
        "written_answers": "headrace.train.evaluation.benchmarks.written_answers:WrittenAnswers",
        "completion": "headrace.train.evaluation.benchmarks.choices:Completion",
        "minimal_pairs": "headrace.train.evaluation.benchmarks.minimal_pairs:MinimalPairs",
        "held_out_words": "headrace.train.evaluation.benchmarks.held_out:HeldOutWords",
        "held_out_sentences": "headrace.train.evaluation.benchmarks.held_out:HeldOutSentences",
        "held_out_order": "headrace.train.evaluation.benchmarks.held_out:HeldOutOrder",
        "agreement": "headrace.train.evaluation.benchmarks.minimal_pairs:Agreement",
        "continuations": "headrace.train.evaluation.benchmarks.generation:Continuations",
    },
)
AnyBenchmark = Annotated[Benchmark, BENCHMARKS]
"""All kinds of benchmarks, distinguished by ``type``."""
