"""Options of commands that sample texts from a model, read as settings."""

import json
from collections.abc import Mapping

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.inference.settings import Sampling


def sampling_of(numbers: Mapping[str, str], stop: str) -> Sampling:
    """Reads command-line arguments; an empty one takes the default.

    Raises:
        ConfigError: naming the option that is not a number, or is out of range.
    """
    given = {name: text for name, text in numbers.items() if text} | {"stops": _stops(stop)}
    try:
        return decode(Sampling, given)
    except ConfigError as error:
        raise ConfigError(f"--{error.where.replace('_', '-')}", error.problem, error.remedy) from None


def _stops(text: str) -> tuple[str, ...]:
    """Reads one text, or a JSON list of texts; ``\\n`` means the end of a line in both."""
    if not text.startswith("["):
        return (text.replace("\\n", "\n"),) if text else ()
    try:
        stops = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError("--stop", f"{text!r} is not JSON ({error})", """write '["one", "other"]'""") from None
    if not all(isinstance(stop, str) for stop in stops):
        raise ConfigError("--stop", f"{text!r} holds a value that is not a text", """write '["one", "other"]'""")
    return tuple(stops)
