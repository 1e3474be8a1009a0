"""Records the terminal sessions of the tutorials as pictures: docs/images/session_<tutorial>.svg.

    python -m docs.images.sessions curator researcher    follows each whole tutorial in a temporary folder
    python -m docs.images.sessions cluster               needs root and Debian's slurm-wlm
    python -m docs.images.sessions curator --print       prints each command with its whole output; no picture

A picture shows the blocks that the tutorial marks as ``recorded``, with the colours of the terminal. It leaves out the
lines that the tutorial leaves out.
"""

import argparse
import contextlib
import getpass
import io
import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.cluster.one_machine import OneMachineSlurm
from tests.end_to_end.tutorial import COLUMNS, OMITTED, REPOSITORY, STYLE, Command, Reader, aligned, steps

USER = "ann"
REMOTE_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def followed(name: str, folder: Path) -> Iterator[tuple[Command, list[str]]]:
    """Follows the tutorial ``name``; yields its commands with the lines that the terminal showed."""
    reader = Reader(folder)
    reader.variables |= {"LOGNAME": USER, "USER": USER, "HEADRACE_EXTENSIONS": "none"}
    for step in steps((REPOSITORY / f"docs/tutorial_{name}.md").read_text()):
        lines = reader.follow(step)
        if isinstance(step, Command):
            yield step, [line.replace(str(reader.folder), "~/own").rstrip() for line in lines]


def shown(command: Command, lines: list[str]) -> Iterator[str]:
    """Yields the lines of ``command`` that belong to the picture."""
    if not command.output:
        yield from (line for line in lines if line.strip())
    for line, real in aligned(command.output, lines):
        yield OMITTED if line.strip() == OMITTED else str(real)


def picture(title: str, session: list[tuple[Command, list[str]]]) -> str:
    """Returns ``session`` as SVG. It loads nothing from a network."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for number, (command, lines) in enumerate(session):
        if number:
            console.print()
        console.print(Text.assemble(("$ ", "bold green"), (command.text, "bold")), highlight=False)
        for line in shown(command, lines):
            console.print(Text.from_ansi(line), highlight=False)
    svg = REMOTE_FONT.sub("", console.export_svg(title=title, unique_id="session"))
    for name in (socket.gethostname(), getpass.getuser(), tempfile.gettempdir(), str(REPOSITORY.parent)):
        if re.search(rf"(?<![\w]){re.escape(name)}\b", svg):
            raise ValueError(f"the session shows {name!r}, which is of this machine")
    return svg


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tutorials", nargs="+", choices=("curator", "researcher", "cluster"))
    parser.add_argument("--print", action="store_true", dest="prints")
    options = parser.parse_args()
    for name in options.tutorials:
        with tempfile.TemporaryDirectory() as temporary:
            slurm = OneMachineSlurm(Path(temporary, "slurm")) if name == "cluster" else contextlib.nullcontext()
            session = []
            with slurm:
                for command, lines in followed(name, Path(temporary)):
                    if options.prints:
                        print(f"$ {command.text}", *(STYLE.sub("", line) for line in lines), sep="\n", flush=True)
                    elif command.is_recorded:
                        session.append((command, lines))
        if session:
            path = REPOSITORY / f"docs/images/session_{name}.svg"
            path.write_text(picture(f"docs/tutorial_{name}.md", session))


if __name__ == "__main__":
    main()
