"""Fields in the names of folders, as Hive, Spark and pyarrow write partitioned tables.

    lang=en/year=2024/part-0.parquet      {"lang": "en", "year": 2024}

The rules are those of ``pyarrow.dataset.partitioning(flavor="hive")``: values are percent-decoded, whole numbers of 32
bits are numbers, and ``__HIVE_DEFAULT_PARTITION__`` is null. pyarrow makes a column of texts if one file has another
value; here each file has the type of its own value, so a new file changes no document of another one.
"""

import functools
import re
from urllib.parse import unquote

NULL = "__HIVE_DEFAULT_PARTITION__"
NUMBER = re.compile(r"-?[0-9]+")


@functools.lru_cache(maxsize=1024)
def folder_fields(name: str) -> dict[str, str | int | None]:
    """Returns the fields of the file ``name``, from the folders below the common folder of the source."""
    folders = (folder.partition("=") for folder in name.split("/")[:-1])
    return {unquote(key): _value(unquote(value)) for key, equals, value in folders if key and equals}


def _value(text: str) -> str | int | None:
    if NUMBER.fullmatch(text) and -(2**31) <= int(text) < 2**31:
        return int(text)
    return None if text == NULL else text
