import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.dedup import shingle_sets
from headrace.data_prep.dedup.corpus import numbers_of
from headrace.data_prep.dedup.shingle_sets import GatheredSets, write_sets
from headrace.data_prep.shuffle.exchange import sorting_folder
from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.errors import RetryableError

SETS = st.lists(st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=9), max_size=8)


def stored(folder, shards):
    """Writes the sets of each shard. Returns document, start and size of all of them, in order, and the sets."""
    documents, starts, shingles, sets = [], [], [], []
    for shard, own in enumerate(shards):
        arrays = [np.array(sorted(one), np.uint64) for one in own]
        out = TaskOutput(folder, "sets", shard)
        places, sizes = write_sets(out, arrays)
        out.done({})
        documents.append(numbers_of(shard, np.arange(len(own))))
        starts.append(places)
        shingles.append(sizes)
        sets += [one.tolist() for one in arrays]
    return *(np.concatenate(columns) for columns in (documents, starts, shingles)), sets


@pytest.mark.parametrize("gap", [0, 3, 512])
@settings(max_examples=30)
@given(st.lists(SETS, min_size=1, max_size=4), st.data(), st.sampled_from([1, 100, 10**6]), st.integers(1, 5))
def test_sets_are_read_as_added(gap, shards, data, memory_bytes, blocks):
    """Adds some of the sets in blocks and reads some of these: with memory for one, for a few, for all."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shingle_sets, "GAP_HASHES", gap)
        documents, starts, shingles, sets = stored(Path(folder), shards)
        some = data.draw(st.lists(st.sampled_from(range(len(sets))), unique=True)) if sets else []
        added = np.array(sorted(some), np.int64)
        out = TaskOutput(Path(folder), "pairs", 0)
        with GatheredSets(out, memory_bytes) as gathered:
            places = [gathered.add(documents[own], starts[own], shingles[own]) for own in np.array_split(added, blocks)]
            read = data.draw(st.lists(st.sampled_from(range(len(some))), unique=True)) if some else []
            wanted = np.array(sorted(read), np.int64)
            bounds, hashes = gathered.read(np.concatenate(places)[wanted], shingles[added][wanted])
        assert [one.tolist() for one in np.split(hashes, bounds[1:-1])][: len(wanted)] == [
            sets[place] for place in added[wanted]
        ]
        assert bounds.size == len(wanted) + 1
        assert not list(sorting_folder(out).glob("*"))


def test_batches_hold_their_memory_and_one_more(tmp_path):
    shingles = np.array([3, 3, 3, 100, 1, 1, 1, 1, 9])
    with GatheredSets(TaskOutput(tmp_path, "pairs", 0), 8 * 10) as sets:
        batches = list(sets.batches(shingles))
    assert [shingles[start:end].tolist() for start, end in batches] == [[3, 3, 3], [100], [1, 1, 1, 1], [9]]


def test_a_truncated_file(tmp_path):
    documents, starts, shingles, _ = stored(tmp_path, [[{1, 2}, {3, 4, 5}]])
    path = tmp_path / "scratch/sets/sets/00000.u64"
    path.write_bytes(path.read_bytes()[:-12])
    message = f"{path}: is damaged or missing; run again: task 0 of phase 'sets' is repeated"
    with (
        GatheredSets(TaskOutput(tmp_path, "pairs", 0), 1000) as sets,
        pytest.raises(RetryableError, match=f"^{re.escape(message)}$"),
    ):
        sets.add(documents, starts, shingles)
