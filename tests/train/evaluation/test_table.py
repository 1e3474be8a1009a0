"""The table shows what scores.json holds."""

import dataclasses

from headrace.train.evaluation.score_rows import BenchmarkScores, Metric
from headrace.train.evaluation.table import markdown
from headrace.train.inference.queries import Tally

METRIC = Metric("acc", 0.5, 0.05, (0.4, 0.6), 0.25, 1234)
SCORES = BenchmarkScores("piqa", "multiple_choice", 5, 1234, Tally(2468, 9000, 3, 70, 0), None, (METRIC,))


def test_table():
    perplexity = Metric("perplexity", 12345.678, None, None, None, 1234)
    group = dataclasses.replace(METRIC, group="island")
    scores = dataclasses.replace(SCORES, metrics=(METRIC, perplexity, group))
    empty = BenchmarkScores("held_out_words")
    assert markdown([scores, empty]).splitlines() == [
        "| benchmark | shots | metric | value | 95 % interval | random | items | clean | dirty |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|",
        "| piqa | 5 | acc | 50.00 % ± 5.00 % | 40.00 % – 60.00 % | 25.00 % | 1,234 | – | – |",
        "| piqa | 5 | perplexity | 12,345.7 | – | – | 1,234 | – | – |",
        "| held_out_words | 0 | – | no items | – | – | 0 | – | – |",
        "",
        "By group:",
        "",
        "| benchmark | shots | metric | value | 95 % interval | random | items | clean | dirty |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|",
        "| piqa / island | 5 | acc | 50.00 % ± 5.00 % | 40.00 % – 60.00 % | 25.00 % | 1,234 | – | – |",
        "",
        "piqa: 3 of 2,468 contexts did not fit the window and lost 70 tokens on the left.",
    ]


def test_long_continuations_are_noted():
    assert markdown([dataclasses.replace(SCORES, tally=Tally(2468, 9000, 0, 0, 2))]).splitlines()[-1] == (
        "piqa: 2 continuations were longer than the window."
    )
