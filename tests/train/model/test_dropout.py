"""Dropout is a function of seed, row, place and index: fair, independent, and the same in any division of the work."""

import itertools

import numpy as np
import pytest
import torch

from headrace.train.model.dropout import MIXED, WEIGHTS, Dropping, hashed, of_sequences, row_keys

CPU = torch.device("cpu")


def kept(seed: int = 0, rows: range = range(4), layer: int = 1, place: int = MIXED, p: float = 0.1, shape=(64, 96)):
    """1 where a value of ones is kept."""
    drop = Dropping(p, row_keys(seed, rows, CPU)).in_layer(layer)
    return (drop.of(torch.ones(len(rows), *shape), place) > 0).double()


@pytest.mark.parametrize("p", [0.02, 0.1, 0.5, 0.9])
def test_the_share_of_dropped_values_is_the_probability(p):
    """By row, position and channel: within 5 standard errors of so many fair draws."""
    values = kept(rows=range(32), p=p, shape=(128, 128))
    for dimensions in ((0, 1, 2), (1, 2), (0, 2), (0, 1)):
        means = values.mean(dimensions)
        error = np.sqrt(p * (1 - p) * means.numel() / values.numel())
        assert (means - (1 - p)).abs().max() < 5 * error


def test_what_is_dropped_is_divided_by_the_probability_of_being_kept():
    values = Dropping(0.25, row_keys(0, range(2), CPU)).of(torch.full((2, 50, 40), 3.0), MIXED)
    assert set(values.unique().tolist()) == {0.0, 4.0}


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"rows": range(4, 8)}, {"rows": range(1, 5)}, {"layer": 2}, {"place": WEIGHTS}]
)
def test_seeds_rows_layers_and_places_drop_independently(other):
    """The correlation is that of independent draws; the same for neighbours along positions and channels."""
    values, others = kept(), kept(**other)
    bound = 5 / np.sqrt(values.numel())
    for first, second in [(values, others), (values[:, 1:], values[:, :-1]), (values[..., 1:], values[..., :-1])]:
        both = torch.stack((first.flatten(), second.flatten()))
        assert abs(torch.corrcoef(both)[0, 1]) < bound * 1.1


def test_micro_batches_padding_and_parts_of_rows_drop_the_same():
    whole = kept(rows=range(8), shape=(16, 24, 32))
    for size in (1, 2, 4):
        parts = [kept(rows=range(start, start + size), shape=(16, 24, 32)) for start in range(0, 8, size)]
        assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(kept(rows=range(8), shape=(16, 40, 32))[:, :, :24], whole)
    drop = Dropping(0.1, row_keys(0, range(8), CPU), first=4).in_layer(1)
    assert torch.equal((drop.of(torch.ones(8, 12, 24, 32), MIXED) > 0).double(), whole[:, 4:])


def test_the_sequences_of_a_row_have_keys_of_their_own():
    keys = row_keys(3, range(6), CPU)
    of_all = of_sequences(keys, 24)
    assert len(set(of_all.tolist())) == 24
    assert torch.equal(torch.cat([of_sequences(part, 8) for part in keys.split(2)]), of_all)


def test_the_hash_is_the_published_one_in_int32():
    """lowbias32 of Wellons, computed with Python's whole numbers."""

    def expected(key: int, index: int) -> int:
        x = (key + index * 0x9E3779B9) % (1 << 32)
        x = (x ^ (x >> 16)) * 0x21F0AAAD % (1 << 32)
        x = (x ^ (x >> 15)) * 0xD35A2D97 % (1 << 32)
        x ^= x >> 15
        return x - (x >> 31 << 32)

    keys, indices = [0, 1, -1, 2**31 - 1, -(2**31), 123456789], [0, 1, 7, 65535, 2**31 - 1]
    found = hashed(torch.tensor(keys, dtype=torch.int32)[:, None], torch.tensor(indices, dtype=torch.int32))
    assert found.flatten().tolist() == [expected(*pair) for pair in itertools.product(keys, indices)]
