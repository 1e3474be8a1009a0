"""The order of rows: each once per epoch, for every batch, number of ranks and start."""

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.train.data.order import Order, share
from tests.train.resumption import (
    LIVES,
    AccumulationNotCounted,
    Life,
    Loading,
    OffsetInEveryEpoch,
    RanksNotCounted,
    seen,
)

SEEDS = st.integers(0, 2**63 - 1)


@given(seed=SEEDS, rows=st.integers(1, 3_000), epoch=st.integers(0, 10**6))
def test_an_epoch_has_each_row_once(seed, rows, epoch):
    batch = Order(seed, rows).batch(epoch * rows, rows)
    assert sorted(batch.tolist()) == list(range(rows))


@settings(max_examples=20)
@given(
    seed=SEEDS,
    rows=st.integers(1, 50),
    first=st.integers(0, 200),
    batches=st.lists(st.integers(1, 120), min_size=1, max_size=5),
)
def test_batches_of_any_size_continue_one_sequence_across_epochs(seed, rows, first, batches):
    order = Order(seed, rows)
    seen, pieces = first, []
    for batch_rows in batches:
        pieces.append(order.batch(seen, batch_rows))
        seen += batch_rows
    one_by_one = [order.batch(position, 1)[0] for position in range(first, seen)]
    assert np.concatenate(pieces).tolist() == one_by_one


def check_lives(loading: type[Loading], rows: int, lives: list[Life]) -> None:
    """Each epoch has each row once, in the order of its seed, after kills, losses and changes of ranks."""
    order = Order(7, rows)
    found = seen(order, loading, lives)
    for begin in range(0, len(found) - rows + 1, rows):
        assert sorted(found[begin : begin + rows]) == list(range(rows))
    assert found == order.batch(0, len(found)).tolist()


@settings(max_examples=40)
@given(rows=st.integers(1, 150), lives=LIVES)
def test_kills_and_other_ranks_do_not_change_what_is_seen(rows, lives):
    check_lives(Loading, rows, lives)


@pytest.mark.parametrize("mistake", [OffsetInEveryEpoch, RanksNotCounted, AccumulationNotCounted])
def test_the_mistakes_of_others_would_be_found(mistake):
    @settings(phases=[Phase.generate])
    @given(rows=st.integers(1, 150), lives=LIVES)
    def check(rows, lives):
        check_lives(mistake, rows, lives)

    with pytest.raises(AssertionError):
        check()


@given(ranks=st.sampled_from([1, 2, 3, 4, 6, 12]), seen=st.integers(0, 500))
def test_ranks_share_the_same_global_batch(ranks, seen):
    batch = Order(3, 100).batch(seen, 24)
    parts = [share(batch, rank, ranks) for rank in range(ranks)]
    assert {len(part) for part in parts} == {24 // ranks}
    assert np.concatenate(parts).tolist() == batch.tolist()


def test_a_batch_that_ranks_cannot_share_is_refused():
    with pytest.raises(ValueError, match="a batch of 10 rows over 3 ranks"):
        share(np.arange(10), 0, 3)
    with pytest.raises(ValueError, match="an order of 0 rows"):
        Order(1, 0)


def slow_order(seed: int, rows: int, position: int) -> int:
    """The definition in whole numbers of any size, one position at a time."""

    def mixed(number: int) -> int:
        number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        number = (number ^ (number >> 27)) * 0x94D049BB133111EB % 2**64
        return number ^ (number >> 31)

    epoch, number = divmod(position, rows)
    keys = hashlib.shake_256(f"headrace order\0{seed}\0{epoch}".encode()).digest(64)
    half = next(2**bits for bits in itertools.count(1) if 4**bits >= rows)
    while True:
        left, right = divmod(number, half)
        for begin in range(0, 64, 8):
            key = int.from_bytes(keys[begin : begin + 8], "little")
            left, right = right, left ^ mixed((right + key) % 2**64) % half
        number = left * half + right
        if number < rows:
            return number


@given(seed=SEEDS, rows=st.integers(1, 2**40), seen=st.integers(0, 2**50))
def test_the_numbers_are_those_of_the_definition(seed, rows, seen):
    assert Order(seed, rows).batch(seen, 3).tolist() == [slow_order(seed, rows, seen + i) for i in range(3)]


def test_the_numbers_never_change():
    epochs = Order(0, 10).batch(0, 20).tolist()
    assert epochs == [1, 8, 0, 3, 4, 7, 6, 2, 9, 5, 6, 4, 1, 5, 0, 9, 8, 2, 3, 7]
    far = Order(1234, 10**12).batch(5 * 10**12 - 2, 4).tolist()
    assert far == [348589567181, 888535586920, 717866964835, 101694891452]


def test_epochs_and_seeds_differ():
    orders = [Order(seed, 1_000).batch(epoch * 1_000, 1_000) for seed in range(4) for epoch in range(4)]
    for a in range(16):
        for b in range(a):
            assert (orders[a] == orders[b]).sum() < 10


@pytest.mark.parametrize("rows", [5, 37])
def test_every_row_is_equally_likely_at_every_place(rows):
    """Pearson's chi-square of row numbers at the first position over seeds stays within 5 standard deviations."""
    draws = 40 * rows
    first = [Order(seed, rows).batch(0, 1)[0] for seed in range(draws)]
    counts = np.bincount(first, minlength=rows)
    chi_square = ((counts - 40) ** 2 / 40).sum()
    assert abs(chi_square - (rows - 1)) < 5 * np.sqrt(2 * (rows - 1))


def test_neighbours_do_not_stay_together():
    steps = np.diff(Order(5, 100_000).batch(0, 100_000))
    assert abs(np.corrcoef(steps[:-1], steps[1:])[0, 1] + 0.5) < 0.02
    assert (np.abs(steps) < 10).mean() < 0.001
