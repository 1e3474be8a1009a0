"""Chooses the worked examples of each question, as lm-evaluation-harness's samplers do (api/samplers.py).

    default    one generator, seed 1234, goes through the questions and draws for each
    first_n    the first records of the split: MMLU's own

The record that is asked about is left out where examples and questions are of one split, ``test_split``.
"""

import itertools
import random
from collections.abc import Iterator, Sequence

from headrace.train.evaluation.lm_eval.task_data import NamedRecord
from headrace.train.evaluation.lm_eval.task_file import TaskFile
from headrace.train.evaluation.prompt import too_many_shots

SEED = 1234
"""The harness's own (defaults.py, DEFAULT_OTHER_SEED)."""


def example_numbers(
    task: TaskFile, questions: Sequence[NamedRecord], pool: Sequence[NamedRecord], shots: int
) -> Iterator[list[int]]:
    """Yields for each of ``questions`` the indices of ``shots`` records of ``pool``.

    Raises:
        ConfigError: when the pool has too few records.
    """
    generator, excludes = random.Random(SEED), task.worked.split == task.test_split
    choose = _first if task.worked.sampler == "first_n" else _drawn
    for question in questions:
        numbers = choose(pool, question if excludes else None, shots, generator) if shots else []
        if len(numbers) < shots:
            raise too_many_shots(shots, len(pool))
        yield numbers


def _first(
    pool: Sequence[NamedRecord], excluded: NamedRecord | None, shots: int, generator: random.Random
) -> list[int]:
    return list(itertools.islice(_others(pool, range(len(pool)), excluded), shots))


def _drawn(
    pool: Sequence[NamedRecord], excluded: NamedRecord | None, shots: int, generator: random.Random
) -> list[int]:
    """Returns drawn numbers, or too few of them. With a record to leave out, one more is drawn; where copies of it take
    the place of too many, all are drawn again from the others."""
    draws = shots + (excluded is not None)
    if len(pool) < draws:
        return []
    drawn = generator.sample(range(len(pool)), draws)
    numbers = list(_others(pool, drawn, excluded))[:shots]
    if len(numbers) == shots:
        return numbers
    others = list(_others(pool, range(len(pool)), excluded))
    return generator.sample(others, shots) if len(others) >= shots else []


def _others(pool: Sequence[NamedRecord], numbers: Sequence[int], excluded: NamedRecord | None) -> Iterator[int]:
    """Yields those of ``numbers`` whose records do not equal ``excluded``."""
    return (number for number in numbers if excluded is None or pool[number].values != excluded.values)
