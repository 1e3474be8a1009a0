"""The addresses of the stages of runs, now and in addresses.json: a run of today finds what it wrote yesterday.

The addresses are those of a made file of two records. A stage whose ``version`` or ``revision`` is raised for a named
reason gets new ones, with those of the stages after it. To record them:

    python tests/pipeline/test_addresses.py
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import headrace

RECORD = Path(__file__).with_name("addresses.json")
ADDRESSES: dict[str, dict[str, str]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}


def addresses(settings: Sequence[str], folder: Path) -> dict[str, str]:
    """Returns the address of each stage of a run of ``settings`` on the made file in ``folder``."""
    records = [{"text": f"A page about rivers and mills, number {number}."} for number in range(2)]
    (folder / "pages.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    words = ["source=jsonl", f"source.paths=[{folder}/pages.jsonl]", f"root={folder}/runs", *settings]
    return {row["stage"]: Path(row["folder"]).name for row in headrace.plan(words).stages if row["stage"] != "report"}


@pytest.mark.parametrize("settings", ADDRESSES)
def test_addresses_are_those_of_yesterday(settings: str, tmp_path: Path) -> None:
    assert addresses(settings.split(), tmp_path) == ADDRESSES[settings]


def test_another_setting_gives_another_address(tmp_path: Path) -> None:
    settings, recorded = next(iter(ADDRESSES.items()))
    assert addresses([*settings.split(), "tokenizer.vocabulary_size=12345"], tmp_path) != recorded


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        recorded = {settings: addresses(settings.split(), Path(made)) for settings in sys.argv[1:] or ADDRESSES}
    lines = (f" {json.dumps(settings)}: {json.dumps(stages)}" for settings, stages in recorded.items())
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
