"""Options of commands that sample texts from a model, read as settings."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.inference.sampling_defaults import SamplingDefaults
from headrace.train.inference.settings import Sampling


def sampling_of(numbers: Mapping[str, str], stop: str, folder: Path) -> Sampling:
    """Reads command-line arguments; an empty one takes the default of the model in ``folder``, and a line says so.

    Beam search draws no random token, so it takes none of these defaults.

    Raises:
        ConfigError: naming the option that is not a number, or is out of range.
        ArtifactError: when generation_config.json of the folder has a value that is out of range.
    """
    given = {name: text for name, text in numbers.items() if text} | {"stops": _stops(stop)}
    defaults = SamplingDefaults.of_folder(folder)
    try:
        sampling = decode(Sampling, given)
        if sampling.beams == 1:
            sampling = decode(Sampling, {**defaults.values, **given})
    except ConfigError as error:
        raise ConfigError(f"--{error.where.replace('_', '-')}", error.problem, error.remedy) from None
    if line := defaults.line(sampling):
        print(line, file=sys.stderr)
    return sampling


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
