"""The commands. Each is a module of this folder (declaration.py); this list is their order in ``headrace --help``."""

COMMANDS = (
    "run",
    "plan",
    "generate",
    "evaluate",
    "compare",
    "watch",
    "status",
    "why",
    "trace",
    "order",
    "similar",
    "inspect",
    "export",
    "overlaps",
    "forget",
    "sync",
)
