"""Reads what wandb recorded offline: the records that ``wandb sync`` would upload."""

import dataclasses
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]  # it is made when it is imported

BLOCK, FILE_HEADER, CHUNK_HEADER, LAST_CHUNKS = 1 << 15, 7, 7, (1, 4)


@dataclasses.dataclass(frozen=True)
class OfflineRun:
    """An offline run: the settings of its start, and its records by kind."""

    folder: Path
    records: list[Any]

    @property
    def start(self) -> Any:
        return next(record.run for record in self.records if record.WhichOneof("record_type") == "run")

    @property
    def config(self) -> dict[str, Any]:
        return {item.key: json.loads(item.value_json) for item in self.start.config.update}

    @property
    def history(self) -> list[dict[str, Any]]:
        """The logged rows, without the columns that wandb adds."""
        rows = [
            {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            for record in self.records
            if record.WhichOneof("record_type") == "history"
        ]
        return [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]

    @property
    def summary(self) -> dict[str, Any]:
        updates = [one.summary.update for one in self.records if one.WhichOneof("record_type") == "summary"]
        return {item.key: json.loads(item.value_json) for items in updates for item in items if item.key}


def offline_runs(folder: Path) -> list[OfflineRun]:
    """Returns the offline runs anywhere below ``folder``, each whole: its file ends with the run's end."""
    found = [OfflineRun(path, list(_records(path))) for path in sorted(folder.rglob("wandb/offline-run-*"))]
    for run in found:
        assert "exit" in {record.WhichOneof("record_type") for record in run.records}, f"{run.folder} is cut short"
    return found


def _records(folder: Path) -> Iterator[Any]:
    """Yields the records of an offline run, whose file is a log in LevelDB's format."""
    (path,) = folder.glob("*.wandb")
    data, offset, whole = path.read_bytes(), FILE_HEADER, b""
    while offset + CHUNK_HEADER <= len(data):
        left = BLOCK - offset % BLOCK
        if left < CHUNK_HEADER:
            offset += left
            continue
        length, kind = struct.unpack("<HB", data[offset + 4 : offset + CHUNK_HEADER])
        offset += CHUNK_HEADER + length
        if offset > len(data):
            return
        whole += data[offset - length : offset]
        if kind in LAST_CHUNKS:
            yield Record.FromString(whole)
            whole = b""
