"""The choice of the grammatical sentence of a pair: BLiMP (Warstadt et al., TACL 2020).

    {"sentence_good": "…", "sentence_bad": "…", "UID": "adjunct_island"}

    context       empty: the end-of-text token
    continuation  <delimiter><sentence>

The sentence's log-likelihood is compared unnormalized, as in BLiMP and in lm-evaluation-harness, whose requests have a
space before the sentence (its target_delimiter): ``delimiter: " "``. A tie is half right, so a model that finds all
sentences equally likely is at chance (the harness would count it as right: the good sentence comes first).
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar, Literal

from headrace.pipeline.core.settings import AnyText, Positive, settings
from headrace.train.evaluation.benchmarks.base import Item, Outcome, RecordBenchmark, Sources, of_groups
from headrace.train.evaluation.metrics import mean_over_groups
from headrace.train.evaluation.prompt import Turns
from headrace.train.evaluation.question_files import BenchmarkRecord
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, Text
from headrace.train.parts import StackName

SentencePair = tuple[str, str, str]
"""The good sentence, the bad one, the paradigm."""


@settings
class MinimalPairs(RecordBenchmark[SentencePair]):
    """The choice of the grammatical sentence, by paradigm."""

    stacks: ClassVar[tuple[StackName, ...]] = ("decoder", "encoder", "discriminator", "encoder_decoder")

    type: Literal["minimal_pairs"] = "minimal_pairs"
    delimiter: AnyText = " "
    """The text before each sentence."""
    limit_per_group: Positive | None = None
    """At most this many pairs of each paradigm; None takes all."""

    def parse(self, record: BenchmarkRecord) -> SentencePair:
        paradigm = record.text("UID") if "UID" in record.values else ""
        return record.text("sentence_good"), record.text("sentence_bad"), paradigm

    def texts(self, parsed: Sequence[SentencePair]) -> list[tuple[str, ...]]:
        return [(good, bad) for good, bad, _ in parsed]

    def items(self, sources: Sources) -> list[Item]:
        groups: dict[str, list[Item]] = defaultdict(list)
        context = sources.form.context(Turns(""))
        for name, pair in self.read(sources.data):
            groups[pair[2]].append(pair_item(name, pair, sources.form.delimiter(self.delimiter), context))
        return of_groups((group[: self.limit_per_group] for group in groups.values()), self.limit)

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        return pair_outcome(answers)

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        return pair_metrics(items, outcomes)


def pair_item(name: str, pair: SentencePair, delimiter: str, context: str = "") -> Item:
    good, bad, paradigm = pair
    return Item(name, (Text(context, delimiter + good), Text(context, delimiter + bad)), (good, bad), 0, paradigm)


def pair_outcome(answers: Sequence[Answer]) -> Outcome:
    """Returns acc: 1 when the good sentence is more likely, 0 when the bad one is, 0.5 when neither is."""
    good, bad = (answer.log_likelihood for answer in answers)
    return {"acc": 0.5 if good == bad else float(good > bad)}


def pair_metrics(items: Sequence[Item], outcomes: Sequence[Outcome]) -> list[Metric]:
    """Returns the mean accuracy over paradigms, then each paradigm's; guessing gives 0.5."""
    groups: dict[str, list[float]] = defaultdict(list)
    for item, outcome in zip(items, outcomes, strict=True):
        groups[item.group].append(outcome["acc"])
    return mean_over_groups("acc", groups, 0.5)
