"""A corpus of many shards is read with few files open; the keys of documents never change."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from headrace.data_prep.tokenization.packing import SPAN
from headrace.data_prep.tokenization.shards import OpenFiles, key_of
from headrace.pipeline.core.artifact import FORMAT
from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import write_sealed

ROOT = Path(__file__).parents[3]


def test_no_more_files_are_open_than_allowed(tmp_path: Path) -> None:
    files, paths = OpenFiles(4), [tmp_path / str(number) for number in range(9)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes(range(number, number + 20)))
    wrong: list[tuple[int, int]] = []

    def read_all(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for number, offset in generator.integers(0, 9, (2000, 2)).tolist():
            if files.read(paths[number], offset, 5) != bytes(range(number + offset, number + offset + 5)):
                wrong.append((number, offset))

    threads = [threading.Thread(target=read_all, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sum(link.resolve().parent == tmp_path for link in Path("/proc/self/fd").iterdir()) == 4


def test_a_file_that_ends_too_early_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "00007.bin"
    path.write_bytes(b"0123")
    assert OpenFiles(1).read(path, 1, 3) == b"123"
    with pytest.raises(ArtifactError) as error:
        OpenFiles(1).read(path, 2, 4)
    assert str(error.value) == (f"{path}: ends at byte 4, before byte 6; remove its artifact's folder and run again")


def stored(folder: Path, values: dict, files: dict[str, np.ndarray]) -> None:
    """An artifact with these ``files``, written without the waits for the disk that a stage makes."""
    for kind in {name.partition("/")[0] for name in files}:
        (folder / kind).mkdir(parents=True, exist_ok=True)
    records = {}
    for name, array in files.items():
        if name.endswith(".npy"):
            np.save(folder / name, array)
        else:
            array.tofile(folder / name)
        record = FileRecord.of(folder / name)
        records[name] = {"bytes": record.bytes, "sha256": record.sha256}
    write_sealed(folder / "manifest.json", values | {"format": FORMAT, "files": records, "counts": {}})


def corpus(folder: Path, shards: int) -> None:
    """Each shard holds one document, of its own number, and is one group with one row of two spans."""
    tokens, packed = {}, {}
    for shard in range(shards):
        tokens[f"tokens/{shard:05d}.bin"] = np.full(9, shard, "<u2")
        tokens[f"bounds/{shard:05d}.npy"] = np.array([0, 8], "<u8")
        packed[f"spans/train-{shard:05d}.npy"] = np.array([(shard, 0, 4), (shards - 1 - shard, 4, 4)], SPAN)
        packed[f"rows/train-{shard:05d}.npy"] = np.array([0, 2], "<u8")
    stored(folder / "tokens", {"shards": shards}, tokens)
    settings = {"packing": {"row_tokens": 8}}
    stored(folder / "packed", {"shards": 1, "settings": settings, "phases": {"rows": shards}}, packed)


READING = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from pathlib import Path
import numpy as np
from headrace.pipeline.core.artifact import Artifact
from headrace.train.data.rows import Rows
from tests.train.causal_rows import causal
folder = Path(sys.argv[1])
rows = [Rows(Artifact(folder / "packed"), Artifact(folder / "tokens"), "train") for _ in range(3)]
order = np.random.default_rng(0).permutation(len(rows[0]))
for first in range(0, len(order), 100):
    for one in rows:
        numbers = order[first : first + 100]
        expected = np.repeat(np.stack([numbers, len(order) - 1 - numbers], axis=1), 4, axis=1)
        assert np.array_equal(causal(one, numbers).inputs, expected)
print(len(order))
"""


@pytest.mark.slow
def test_a_mixture_of_three_corpora_is_read_with_256_descriptors(tmp_path: Path) -> None:
    corpus(tmp_path, 300)
    command = [sys.executable, "-c", READING, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "300\n"), done.stderr


def test_keys_never_change():
    """Against ``printf 'split\\0crawl/a.warc.gz:7' | sha256sum``: its first 8 bytes, the last one first."""
    assert key_of("split", "crawl/a.warc.gz:7") == 0xDA1293DC4E5B83FC
    assert key_of("sample", "crawl/a.warc.gz:7") == 0x24FC661699EA0296
    assert key_of("split", "猫") == 0x2753A52E8BFD134F
