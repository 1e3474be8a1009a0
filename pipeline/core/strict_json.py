"""JSON by its standard: NaN and infinity, which Python writes and other readers refuse, are errors."""

import json
from pathlib import Path
from typing import Any

from headrace.pipeline.core.errors import ArtifactError, TaskError


def dumps(value: Any, path: Path, **style: Any) -> str:
    """Returns ``value`` as JSON text, which the caller writes to ``path``.

    Raises:
        TaskError: when it contains NaN or infinity.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, **style)
    except ValueError as error:
        raise TaskError(str(path), f"cannot be written as JSON ({error})", "look for NaN in what led to it") from None


def loads(text: bytes, path: Path) -> Any:
    """Returns the value of ``text``, which was read from ``path``.

    Raises:
        ArtifactError: when it is not JSON in UTF-8, or too deeply nested.
    """
    try:
        return json.loads(text.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(str(path), f"is not JSON ({error})", "remove it and run again") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")
