"""The addresses of runs with the options and kinds of this package, now and in addresses.json, as those of Headrace.

python -m courses.tests.test_addresses        records them
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest

from tests.pipeline.test_addresses import addresses

RECORD = Path(__file__).resolve().with_name("addresses.json")
ADDRESSES: dict[str, dict[str, str]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}


FILES = "finetune.train=train finetune.validation=validation"


def of_settings(settings: str, folder: Path) -> dict[str, str]:
    """Returns the address of each stage; FILES in ``settings`` are two made files of the current ``folder``."""
    for name in ("train", "validation"):
        (folder / name).write_text("made\n")
    return addresses(settings.replace("FILES", FILES).split(), folder)


@pytest.mark.parametrize("settings", ADDRESSES)
def test_addresses_are_those_of_yesterday(settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert of_settings(settings, tmp_path) == ADDRESSES[settings]


if __name__ == "__main__":
    recorded = {}
    for chosen in sys.argv[1:] or ADDRESSES:
        with tempfile.TemporaryDirectory() as made:
            os.chdir(made)
            recorded[chosen] = of_settings(chosen, Path(made))
    lines = (f" {json.dumps(settings)}: {json.dumps(stages)}" for settings, stages in recorded.items())
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
