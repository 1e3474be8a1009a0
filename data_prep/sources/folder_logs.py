"""Folders that say themselves which of their files count. The others hold rows that were deleted or replaced.

table/_delta_log/00000.json, table/part-0.parquet      a table: refused
saved/state.json, data-00000-of-00001.arrow            a data set of Hugging Face ``datasets``: state.json names files
"""

import glob
import json
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import PurePath

import fsspec

from headrace.pipeline.core.errors import ConfigError

TABLES = {
    "_delta_log": "a Delta Lake table",
    ".hoodie": "a Hudi table",
    "_spark_metadata": "the output of a Spark stream",
    "metadata": "an Iceberg table",
}
"""A folder with the log of a table → what it is the log of."""
ICEBERG = r"metadata(?=/(?:v\d+|\d{5}-[0-9a-f-]+)(?:\.gz)?\.metadata\.json(?:\.gz)?$)"
"""The folder ``metadata`` of an Iceberg table, known by the names of its files."""
LOG = re.compile(rf"/(_delta_log|\.hoodie|_spark_metadata|{ICEBERG})(?:/|$)")
"""The part of a path that leads into such a folder."""
STATE = "state.json"


def refuse_table(path: str, top: str) -> None:
    """Refuses a ``path`` below the folder ``top`` that leads to the log of a table.

    Raises:
        ConfigError: with the folder of the table.
    """
    if (log := LOG.search(path, len(top))) is not None:
        problem = f"{path[: log.start()]!r} is {TABLES[log[1]]}: its log in {log[1]} says which of its files count"
        raise ConfigError("source.paths", problem, "write out its rows with its own library, and read what it wrote")


def refuse_part_of_table(folder: str) -> None:
    """Refuses a local ``folder`` of a table whose log lies in a folder above it, such as ``table/lang=en``."""
    for table in PurePath(folder).parents:
        for name in TABLES:
            for path in (f"{table}/{name}", *glob.glob(f"{glob.escape(str(table))}/{name}/*.metadata.json*")):
                if os.path.exists(path):
                    refuse_table(path, str(table.parent))


def stale_files(locations: Collection[str]) -> Iterator[str]:
    """Yields those of ``locations`` that the state.json of their folder does not name: ``datasets`` never removes any.

    Raises:
        ConfigError: when a file that it names is missing, or not all rows of its files count.
    """
    by_folder = defaultdict[str, list[str]](list)
    for location in locations:
        by_folder[location.rpartition("/")[0]].append(location)
    for folder, inside in by_folder.items():
        if (names := _named(folder)) is not None:
            yield from (location for location in inside if location.rpartition("/")[2] not in names)


def _named(folder: str) -> set[str] | None:
    """Returns the names of the files of the data set in ``folder``; None: no state.json names them."""
    location = f"{folder}/{STATE}"
    system, path = fsspec.core.url_to_fs(location)
    if not system.exists(path):
        return None
    try:
        state = json.loads(system.cat_file(path))
        names = {str(file["filename"]) for file in state.get("_data_files") or ()}
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
        problem = f"{location!r} cannot be read as a file of datasets ({type(error).__name__}: {error})"
        raise ConfigError("source.paths", problem, "save the data set again, or remove this file") from None
    if indices := [key for key, value in state.items() if key.startswith("_indices") and value]:
        problem = f"{location!r} chooses rows ({indices[0]})"
        raise ConfigError("source.paths", problem, "save the data set again with flatten_indices()")
    if missing := sorted(name for name in names if not system.exists(f"{path.removesuffix(STATE)}{name}")):
        problem = f"{location!r} names {missing[0]!r}, which is not there"
        raise ConfigError("source.paths", problem, "copy the whole folder, or save the data set again")
    return names or None
