import numpy as np

from headrace.data_prep.dedup.numbering import look_up, numbers_of, rows_of, shards_of


def test_numbers_hold_shard_and_row():
    numbers = numbers_of(70_000, np.array([0, 41, 2**32 - 1]))
    assert numbers.tolist() == [70_000 * 2**32, 70_000 * 2**32 + 41, 70_001 * 2**32 - 1]
    assert shards_of(numbers).tolist() == [70_000] * 3
    assert rows_of(numbers).tolist() == [0, 41, 2**32 - 1]


def test_look_up_keeps_the_order_asked_for():
    shards = [np.array([b"a", b"bbbb"], "S4"), np.array([], "S2"), np.array([b"cc"], "S2")]
    numbers = np.concatenate([numbers_of(2, np.array([0])), numbers_of(0, np.array([1, 0, 1]))])
    assert look_up(shards.__getitem__, numbers).tolist() == [b"cc", b"bbbb", b"a", b"bbbb"]
    assert look_up(shards.__getitem__, numbers[:0]).tolist() == []
