"""The terminal: text that is printed as it is, whatever the names of folders and documents hold.

rich would read ``[red]`` as a style, fail at ``[/]``, and print ``:smile:`` as a picture.
"""

from typing import Any

from rich.console import Console


def terminal(**settings: Any) -> Console:
    """A rich console, with ``settings`` of its own, for which text is text; styles come as arguments and ``Text``."""
    return Console(**{"soft_wrap": True, "highlight": False, "markup": False, "emoji": False} | settings)
