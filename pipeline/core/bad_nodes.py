"""The file ``<artifact>/logs/bad_nodes``: nodes on which a rank computed slowly or a GPU failed, one name a line.

Ranks write it, and the cluster leaves these nodes out when the job goes back into the queue. Others may write to the
folder, so a line that is no name of a node is ignored.
"""

import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace.pipeline.core.environment import NODE
from headrace.pipeline.core.held_folders import make

FILE = "logs/bad_nodes"
"""The path of the file below the artifact's folder."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
MOST_CHARACTERS = 1_000_000


def this_node(environment: Mapping[str, str] = os.environ) -> str:
    """Returns the name that the cluster gives this machine, else its host name."""
    return environment.get(NODE) or socket.gethostname()


def add(folder: Path, node: str) -> None:
    """Adds ``node`` to the file below the artifact's ``folder``. On a full disk it prints a line."""
    path = folder / FILE
    try:
        make(path.parent)
        with path.open("a") as stream:
            stream.write(f"{node}\n")
    except OSError as problem:
        print(f"headrace: {path} could not be written ({problem.strerror})", file=sys.stderr, flush=True)


def read(folder: Path) -> list[str]:
    """Returns the names in the file below ``folder``, sorted; none when there is no file."""
    try:
        with (folder / FILE).open(errors="replace") as stream:
            lines = stream.read(MOST_CHARACTERS).splitlines()
    except OSError:
        return []
    return sorted({line for line in lines if NAME.fullmatch(line)})


def clear(folder: Path) -> None:
    """Removes the names of an earlier start."""
    (folder / FILE).unlink(missing_ok=True)
