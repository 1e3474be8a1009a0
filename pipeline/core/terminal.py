"""The terminal: text is printed unchanged, whatever the names of folders and documents contain.

rich would read ``[red]`` as a style, fail at ``[/]``, and print ``:smile:`` as a picture.
"""

from typing import Any

from rich.console import Console


def terminal(**settings: Any) -> Console:
    """Returns a rich console with ``settings`` that prints text unchanged. Styles are arguments or ``Text`` objects."""
    return Console(**{"soft_wrap": True, "highlight": False, "markup": False, "emoji": False} | settings)
