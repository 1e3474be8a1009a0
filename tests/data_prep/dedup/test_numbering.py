import numpy as np

from data_prep.dedup.numbering import look_up, numbers_of, rows_of, shards_of
from data_prep.dedup.shuffle import save
from pipeline.core.artifact import TaskOutput, finish


def test_numbers_hold_shard_and_row():
    numbers = numbers_of(70_000, np.array([0, 41, 2**32 - 1]))
    assert numbers.tolist() == [70_000 * 2**32, 70_000 * 2**32 + 41, 70_001 * 2**32 - 1]
    assert shards_of(numbers).tolist() == [70_000] * 3
    assert rows_of(numbers).tolist() == [0, 41, 2**32 - 1]


def test_look_up_keeps_the_order_asked_for(tmp_path):
    for shard, ids in enumerate([["a", "bbbb"], [], ["cc"]]):
        out = TaskOutput(tmp_path, "only", shard)
        with out.shard("ids", "npy") as path:
            save(path, np.array([one.encode() for one in ids], dtype="S4" if shard == 0 else "S2"))
        out.done({})
    artifact = finish(tmp_path, {"stage": "x", "settings": {}}, {"only": 3})
    numbers = np.concatenate([numbers_of(2, np.array([0])), numbers_of(0, np.array([1, 0, 1]))])
    assert look_up(artifact, "ids", numbers).tolist() == [b"cc", b"bbbb", b"a", b"bbbb"]
    assert look_up(artifact, "ids", numbers[:0]).tolist() == []
