"""The texts of a file that an option names: a line each, or in a .jsonl file a field of each line."""

import json
from pathlib import Path

from headrace.pipeline.core.errors import ConfigError


def file_lines(path: Path, option: str, field: str) -> list[str]:
    """Returns the lines of ``path``; of a .jsonl file their ``field``.

    Raises:
        ConfigError: when the file of ``option`` cannot be read or is empty, or naming a line without that field.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(option, f"cannot read {str(path)!r} ({error.strerror})", "name a text file") from None
    except UnicodeDecodeError as error:
        problem = f"{str(path)!r} is not UTF-8 (byte {error.start})"
        raise ConfigError(option, problem, "convert it to UTF-8") from None
    if not text:
        raise ConfigError(option, f"{str(path)!r} is empty", f"write one {field} a line")
    lines = text.removesuffix("\n").split("\n")
    is_json = path.suffix == ".jsonl"
    return [_field(path, number, line, field) for number, line in enumerate(lines, 1)] if is_json else lines


def _field(path: Path, number: int, line: str, field: str) -> str:
    where, remedy = f"{path}:{number}", f'write {{"{field}": "…"}}'
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(where, f"is not JSON ({error})", remedy) from None
    if not isinstance(values, dict) or not isinstance(values.get(field), str):
        raise ConfigError(where, f"has no text in a field {field!r}", remedy)
    return str(values[field])
