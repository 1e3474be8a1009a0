"""Files of collocations, the n-grams of words that masked language modelling hides as a whole (PMI masking).

{"words": [["mill"], ["st", "one"]], …}        a line for each: the tokens of each word, as the tokenizer spells them
"""

import json
from collections.abc import Mapping
from pathlib import Path

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.stage import RawFile, raw_file

COLLOCATIONS = "objective.collocations"
"""The setting, and the beginning of the names of its raw files."""
REMEDY = "give JSON lines of collocations whose words are tokens of this tokenizer"


def raw_collocations(objective: object) -> tuple[RawFile, ...]:
    """Returns the file that the masks of ``objective`` need, if they need one.

    Raises:
        ConfigError: when it is not there.
    """
    file = collocation_file(objective)
    if file is None:
        return ()
    if not file.is_file():
        raise ConfigError(COLLOCATIONS, f"there is no file {file}", REMEDY)
    return (raw_file(f"{COLLOCATIONS}/{file.name}", file),)


def collocation_file(objective: object) -> Path | None:
    """Returns the file of collocations that the masks of ``objective`` need, if they need one."""
    file = getattr(getattr(objective, "masking", objective), "collocations", None)
    return None if file is None else Path(file)


def read_collocations(file: Path | None, ids: Mapping[str, int]) -> frozenset[tuple[int, ...]]:
    """Reads the collocations in ``file`` as tokens of a tokenizer with these ``ids``.

    Raises:
        ConfigError: when it is no file of collocations, or one of another tokenizer.
    """
    grams, number = set[tuple[int, ...]](), 0
    try:
        lines = [] if file is None else file.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):  # noqa: B007  (an error names it)
            grams.add(tuple(ids[token] for word in json.loads(line)["words"] for token in word))
    except OSError as error:
        raise ConfigError(COLLOCATIONS, f"{file} cannot be read ({error.strerror})", REMEDY) from None
    except KeyError as error:
        raise ConfigError(COLLOCATIONS, f"{file} has {error}, which the tokenizer lacks", REMEDY) from None
    except (ValueError, TypeError):
        raise ConfigError(COLLOCATIONS, f"line {number} of {file} is no collocation", REMEDY) from None
    return frozenset(grams)
