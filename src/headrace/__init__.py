"""Headrace for notebooks and scripts: its engines as functions, and runs: open, read, plan and launch them.

    text = headrace.text(html)
    verdict = headrace.Cleaner("c4")(text)

    run = headrace.open_run("small")
    run.funnel(), pandas.DataFrame(run.metrics()), run.document("pages.jsonl:2")
    run = headrace.launch({"experiment": "demo", "training.steps": 400})

Everything is loaded when it is first used; what is given wrong is a ConfigError. docs/pieces.md and docs/python.md
explain it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.pipeline.api.benchmarks import Benchmarks
    from headrace.pipeline.api.cleaner import Cleaner, language, mask_pii
    from headrace.pipeline.api.documents import DocumentHistory, Documents
    from headrace.pipeline.api.launch import launch
    from headrace.pipeline.api.near_duplicates import Duplicate, near_duplicates, signatures
    from headrace.pipeline.api.plan import Plan, plan
    from headrace.pipeline.api.ready import ready
    from headrace.pipeline.api.run import Run, differences, open_run, runs
    from headrace.pipeline.api.tables import Table
    from headrace.pipeline.api.text import page, text
    from headrace.pipeline.api.tokenizer import Tokenizer, pack
    from headrace.pipeline.api.verdict import Verdict
    from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError, RetryableError, TaskError

__all__ = [
    "ArtifactError",
    "Benchmarks",
    "Cleaner",
    "ConfigError",
    "DocumentHistory",
    "Documents",
    "Duplicate",
    "HeadraceError",
    "Plan",
    "RetryableError",
    "Run",
    "Table",
    "TaskError",
    "Tokenizer",
    "Verdict",
    "differences",
    "language",
    "launch",
    "mask_pii",
    "near_duplicates",
    "open_run",
    "pack",
    "page",
    "plan",
    "ready",
    "runs",
    "signatures",
    "text",
]

_HOMES = {
    "pipeline.api.benchmarks": ("Benchmarks",),
    "pipeline.api.cleaner": ("Cleaner", "language", "mask_pii"),
    "pipeline.api.documents": ("DocumentHistory", "Documents"),
    "pipeline.api.launch": ("launch",),
    "pipeline.api.near_duplicates": ("Duplicate", "near_duplicates", "signatures"),
    "pipeline.api.plan": ("Plan", "plan"),
    "pipeline.api.ready": ("ready",),
    "pipeline.api.run": ("Run", "differences", "open_run", "runs"),
    "pipeline.api.tables": ("Table",),
    "pipeline.api.text": ("page", "text"),
    "pipeline.api.tokenizer": ("Tokenizer", "pack"),
    "pipeline.api.verdict": ("Verdict",),
    "pipeline.core.errors": ("ArtifactError", "ConfigError", "HeadraceError", "RetryableError", "TaskError"),
}
"""Module → the names that it defines."""
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Loads ``name`` when it is first used."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("headrace")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"headrace.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
