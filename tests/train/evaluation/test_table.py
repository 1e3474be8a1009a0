"""The table says what scores.json says."""

from headrace.train.evaluation.table import markdown

METRIC = {"name": "acc", "value": 0.5, "standard_error": 0.05, "interval": [0.4, 0.6], "random": 0.25, "items": 1234,
          "group": "", "clean": None, "dirty": None}  # fmt: skip
ENTRY = {"name": "piqa", "shots": 5, "items": 1234, "queries": 2468, "truncated_contexts": 3, "truncated_tokens": 70,
         "split_continuations": 0, "overlap": None, "metrics": [METRIC]}  # fmt: skip


def test_table():
    perplexity = METRIC | {"name": "perplexity", "value": 12345.678, "standard_error": None, "interval": None,
                           "random": None}  # fmt: skip
    entry = ENTRY | {"metrics": [METRIC, perplexity, METRIC | {"group": "island"}]}
    empty = ENTRY | {"name": "held_out_words", "items": 0, "metrics": [], "truncated_contexts": 0, "shots": 0}
    assert markdown([entry, empty]).splitlines() == [
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


def test_long_continuations_are_told():
    assert markdown([ENTRY | {"truncated_contexts": 0, "split_continuations": 2}]).splitlines()[-1] == (
        "piqa: 2 continuations were longer than the window."
    )
