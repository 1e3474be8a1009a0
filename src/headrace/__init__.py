"""Headrace for notebooks and scripts: open runs, read their documents and results, plan and launch new ones.

    run = headrace.open_run("small")
    run.funnel(), run.metrics().to_pandas(), run.document("pages.jsonl:2")
    run = headrace.launch({"experiment": "demo", "training.steps": 400})

Everything is loaded when it is first used. docs/python.md explains it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.pipeline.api.documents import DocumentHistory, Documents
    from headrace.pipeline.api.launch import launch
    from headrace.pipeline.api.plan import Plan, plan
    from headrace.pipeline.api.run import Run, differences, open_run, runs
    from headrace.pipeline.api.tables import Table
    from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError, RetryableError, TaskError

__all__ = [
    "ArtifactError",
    "ConfigError",
    "DocumentHistory",
    "Documents",
    "HeadraceError",
    "Plan",
    "RetryableError",
    "Run",
    "Table",
    "TaskError",
    "differences",
    "launch",
    "open_run",
    "plan",
    "runs",
]

_HOMES = {
    "pipeline.api.documents": ("DocumentHistory", "Documents"),
    "pipeline.api.launch": ("launch",),
    "pipeline.api.plan": ("Plan", "plan"),
    "pipeline.api.run": ("Run", "differences", "open_run", "runs"),
    "pipeline.api.tables": ("Table",),
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
