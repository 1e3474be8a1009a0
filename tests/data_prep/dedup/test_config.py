import re
from pathlib import Path

import yaml

from data_prep.dedup import config
from data_prep.dedup.config import Dedup
from pipeline.core.settings import decode

CONF = Path(__file__).parents[3] / "conf" / "dedup"


def test_default_group_lists_the_defaults():
    values = yaml.safe_load((CONF / "minhash.yaml").read_text(encoding="utf-8"))
    assert decode(Dedup, values) == Dedup()
    assert list(values) == list(Dedup.__dataclass_fields__)


def test_table_in_the_docstring_is_the_formula():
    similarities, chances = (
        [float(value) for value in re.findall(r"\d+\.\d+", line)]
        for line in config.__doc__.splitlines()
        if line.startswith(("    s ", "    candidate "))
    )
    assert len(similarities) == len(chances) == 8
    for s, chance in zip(similarities, chances, strict=True):
        assert abs(1 - (1 - s**8) ** 14 - chance) < 6e-4
