"""Tokens or rows as a folder of files of limited size, for other trainers.

    batches ──> data/train/00000.bin, .idx │ data/train/00001.bin, .idx │ data/validation/00000.bin, .idx

A file ends before the batch that would bring it above ``shard_bytes`` of tokens; a batch has at most so many bytes, or
one sequence.
"""

from pathlib import Path
from typing import Any

import numpy as np

from headrace.pipeline.core.json_files import write_json
from headrace.pipeline.core.progress import Progress
from headrace.pipeline.export import hf_dataset
from headrace.pipeline.export.sequence_files import FILES, MdsFile, TokenFile
from headrace.pipeline.export.token_batches import BATCH_BYTES, SequenceSet

FORMATS = tuple(FILES)


def write_tokens(
    folder: Path, form: str, sets: list[SequenceSet], dtype: "np.dtype[Any]", shard_bytes: int, total: int
) -> dict[str, tuple[int, int]]:
    """Writes ``sets`` to files below ``folder``; returns the numbers of sequences and of tokens of each split.

    Args:
        folder: the folder of the export.
        form: one of FORMATS.
        sets: the sequences of each split.
        dtype: that of the tokens, uint16 or uint32.
        shard_bytes: the most bytes of tokens of a file, if it has more than one sequence.
        total: all sequences, for the progress.
    """
    counts = {}
    with Progress("export", total, "sequences") as progress:
        for sequences in sets:
            part = (folder if form == "hf" else folder / "data") / sequences.split
            part.mkdir(parents=True)
            counts[sequences.split] = _write(part, form, sequences, dtype, shard_bytes, progress)
    if form == "hf":
        hf_dataset.write_splits(folder, counts)
    return counts


def _write(
    part: Path, form: str, sequences: SequenceSet, dtype: "np.dtype[Any]", shard_bytes: int, progress: Progress
) -> tuple[int, int]:
    """Writes one split; returns the numbers of its sequences and tokens."""
    files: list[TokenFile] = []
    count = tokens = file_bytes = 0
    for batch in sequences.batches(min(BATCH_BYTES, shard_bytes)):
        if not files or file_bytes + batch.ids.nbytes > shard_bytes:
            _next_file(files, FILES[form], part, sequences, dtype)
            file_bytes = 0
        files[-1].write(batch)
        file_bytes += batch.ids.nbytes
        count, tokens = count + len(batch.lengths), tokens + len(batch.ids)
        progress.advance(len(batch.lengths))
    if not files:
        _next_file(files, FILES[form], part, sequences, dtype)
    files[-1].close()
    _finish(part, form, files)
    return count, tokens


def _next_file(
    files: list[TokenFile], kind: type[TokenFile], part: Path, sequences: SequenceSet, dtype: "np.dtype[Any]"
) -> None:
    if files:
        files[-1].close()
        files[-1].lengths.clear()
    files.append(kind(part / f"{len(files):05d}", sequences, dtype))


def _finish(part: Path, form: str, files: list[TokenFile]) -> None:
    """Writes what a split has besides its files."""
    if form == "hf":
        hf_dataset.write_state(part, [file.named(hf_dataset.SUFFIX).name for file in files], part.name)
    shards = [file.description for file in files if isinstance(file, MdsFile)]
    if shards:
        write_json(part / "index.json", {"version": 2, "shards": shards})
