"""A benchmark: which of two spellings a model holds for more likely."""

from typing import Literal

from headrace.pipeline.core.settings import settings
from headrace.train.evaluation.benchmarks.minimal_pairs import MinimalPairs, SentencePair
from headrace.train.evaluation.file_records import BenchmarkRecord


@settings
class Spelling(MinimalPairs):
    """The choice of the right spelling, in lines such as {"right": "receive", "wrong": "recieve"}."""

    type: Literal["spelling"] = "spelling"  # type: ignore[assignment]

    def parse(self, record: BenchmarkRecord) -> SentencePair:
        return record.text("right"), record.text("wrong"), ""
