"""Prints a text while a model writes it."""

from headrace.pipeline.report.formatting import visible


def to_terminal(number: int, text: str) -> None:
    """Prints ``text`` at once. Control characters become visible, so that a model cannot control the terminal."""
    print(visible(text, len(text)), end="", flush=True)


def to_file(number: int, text: str) -> None:
    """Prints ``text`` unchanged."""
    print(text, end="", flush=True)
