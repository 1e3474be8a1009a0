"""The files that make a folder of Arrow files a dataset that ``datasets.load_from_disk`` opens.

00000.arrow, 00001.arrow                 streams of record batches; the columns are in their schema
state.json                               the names of these files, in order
dataset_info.json                        without features: ``datasets`` takes those of the schema
dataset_dict.json                        above several such folders: their names, the splits
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.json_files import write_json
from headrace.pipeline.core.settings import digest

SUFFIX = "arrow"
INFO = {"citation": "", "description": "", "homepage": "", "license": ""}


def split_name(value: str) -> str:
    """Returns ``value`` as the name of a split: ``datasets`` allows letters, digits and ``_`` in it."""
    return re.sub(r"[^A-Za-z0-9_]", "_", value)


def write_state(folder: Path, names: Sequence[str], split: str) -> None:
    """Makes ``folder`` with its Arrow files ``names`` a dataset. Its fingerprint is a hash of the content."""
    state: dict[str, object] = {
        "_data_files": [{"filename": name} for name in names],
        "_fingerprint": digest([FileRecord.of(folder / name).sha256 for name in names]),
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": split_name(split),
    }
    write_json(folder / "state.json", state)
    write_json(folder / "dataset_info.json", INFO)


def write_splits(folder: Path, names: Iterable[str]) -> None:
    """Makes the datasets ``names`` in ``folder`` the splits of one."""
    write_json(folder / "dataset_dict.json", {"splits": list(names)})
