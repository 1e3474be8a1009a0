"""Schedules of mixtures: exact at every row, entered anywhere, each source in the order of its own epochs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.train.data.apportionment import MixedOrder, Stretch, cycle
from headrace.train.data.order import Order
from tests.train.resumption import LIVES, Life, Loading, seen

GPT_3 = (60, 22, 8, 8, 3)
"""Weights of GPT-3's table 2.2, whose sum is 101 %: Common Crawl, WebText2, Books1, Books2, Wikipedia."""

WEIGHTS = st.lists(st.integers(0, 60), min_size=1, max_size=9).filter(any).map(tuple)


def deviations(weights: tuple[int, ...], rows: int) -> np.ndarray:
    """(rows + 1, sources): what each source has given after 0, 1, 2 … rows, less its share; in units of 1 / cycle."""
    one = cycle(weights)
    sources = np.resize(one.sources, rows)
    given = np.concatenate([np.zeros((1, len(weights)), int), np.cumsum(np.eye(len(weights), dtype=int)[sources], 0)])
    return given * len(one) - np.arange(rows + 1)[:, None] * np.array(weights)


@given(weights=WEIGHTS)
def test_no_source_is_ever_a_row_ahead_or_behind(weights):
    found = deviations(weights, 3 * sum(weights))
    assert np.abs(found).max() < sum(weights)
    assert not found[:: sum(weights)].any()


def test_no_source_of_gpt_3_is_ever_a_row_ahead_or_behind():
    assert np.abs(deviations(GPT_3, 1010)).max() < 101
    assert cycle(GPT_3).given(300_000).tolist() == [178218, 65347, 23762, 23762, 8911]


def test_a_cycle_by_hand():
    one = cycle((3, 1, 1))
    assert one.sources.tolist() == [0, 0, 1, 0, 2]
    assert one.earlier.tolist() == [0, 1, 0, 2, 0]
    assert [one.given(rows).tolist() for rows in (0, 2, 5, 8)] == [[0, 0, 0], [2, 0, 0], [3, 1, 1], [5, 2, 1]]


def test_a_source_without_weight_has_no_row():
    assert set(cycle((0, 2, 1)).sources.tolist()) == {1, 2}


SOURCE_ROWS = (31, 7, 12)
CURRICULUM = (Stretch(0, (3, 1, 1)), Stretch(20, (1, 2, 0)), Stretch(20, (1, 1, 1)), Stretch(95, (1, 0, 9)))
"""The second stretch has no row at all; a source rests in the last."""
MIXED = MixedOrder(11, ("crawl", "books", "wiki"), SOURCE_ROWS, CURRICULUM)
FIRST_ROWS = (0, 31, 38)


def slow_batch(order: MixedOrder, rows_seen: int, batch_rows: int) -> list[int]:
    """Row by row from the very first one."""
    found: list[int] = []
    given = [0] * len(order.source_rows)
    for row in range(rows_seen + batch_rows):
        stretch = [stretch for stretch in order.stretches if stretch.first_row <= row][-1]
        one = cycle(stretch.weights)
        source = int(one.sources[(row - stretch.first_row) % len(one)])
        number = int(Order(order.seed, order.source_rows[source]).batch(given[source], 1)[0])
        found.append(sum(order.source_rows[:source]) + number)
        given[source] += 1
    return found[rows_seen:]


@settings(max_examples=30)
@given(rows_seen=st.integers(0, 200), batch_rows=st.integers(1, 60))
def test_any_position_is_reached_at_once(rows_seen, batch_rows):
    assert MIXED.batch(rows_seen, batch_rows).tolist() == slow_batch(MIXED, rows_seen, batch_rows)


def check_lives(loading: type[Loading], lives: list[Life]) -> None:
    """The rows of each source come in the order that they would have alone: each once per epoch."""
    found = np.array(seen(MIXED, loading, lives), dtype=np.int64)
    for source, (first, rows) in enumerate(zip(FIRST_ROWS, SOURCE_ROWS, strict=True)):
        own = found[(found >= first) & (found < first + rows)] - first
        assert len(own) == MIXED.given(len(found))[source]
        for begin in range(0, len(own) - rows + 1, rows):
            assert sorted(own[begin : begin + rows].tolist()) == list(range(rows))
        assert own.tolist() == Order(MIXED.seed, rows).batch(0, len(own)).tolist()


@settings(max_examples=40)
@given(lives=LIVES)
def test_kills_and_other_ranks_do_not_change_what_is_seen(lives):
    check_lives(Loading, lives)


def test_weights_change_without_a_row_too_much_or_too_few():
    """Counts against the sum of all weights so far, at every row of a curriculum."""
    ideal = np.zeros(3)
    for row in range(300):
        assert np.abs(MIXED.given(row) - ideal).max() < 1
        weights = np.array([stretch for stretch in CURRICULUM if stretch.first_row <= row][-1].weights)
        ideal += weights / weights.sum()


def test_a_mixture_of_one_source_is_that_source():
    alone = MixedOrder(5, ("own",), (40,), (Stretch(0, (1,)),))
    assert alone.batch(33, 100).tolist() == Order(5, 40).batch(33, 100).tolist()


def test_the_numbers_never_change():
    assert MIXED.batch(0, 12).tolist() == [16, 9, 31, 24, 38, 8, 0, 35, 3, 42, 15, 18]
    assert MIXED.batch(10**12, 8).tolist() == [49, 41, 38, 12, 40, 39, 42, 47]


def test_epochs_are_counted_for_each_source():
    assert MIXED.epochs(20) == {"epoch:crawl": 12 / 31, "epoch:books": 4 / 7, "epoch:wiki": 4 / 12}
    assert Order(5, 40).epochs(100) == {"epoch": 2.5}
