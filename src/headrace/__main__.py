"""``python -m headrace``: the command line."""

from headrace.pipeline.__main__ import program

program()
