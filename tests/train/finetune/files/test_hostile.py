"""No file of examples ends a reader: broken records are dropped, and files of nothing else are named.

benchmarks/robustness/fuzz_sources.py has the same readers, among others, for larger numbers.
"""

import json
import random

import pytest

from tests.data_prep.adversarial import hostile_bytes, hostile_text
from tests.train.finetune.files.hostile import FIELDS, RECORDS, formats, mutated, readers_of_bytes, readers_of_texts


@pytest.mark.parametrize("seed", range(10))
def test_hostile_records_and_bytes(seed: int, tmp_path) -> None:
    chance = random.Random(seed)
    for _, function in readers_of_texts(tmp_path):
        function(hostile_text(chance, 100))
    for _, function in readers_of_bytes(tmp_path):
        function(hostile_bytes(chance, 300))


def test_the_records_are_right_and_mutations_are_json(tmp_path) -> None:
    read = {name: (function, suffix) for name, function, suffix in formats()}
    for name in [name for name in read if name.split()[-1] in RECORDS and name.split()[0] != "glue"]:
        function, suffix = read[name]
        path = tmp_path / f"right{suffix}"
        path.write_text(json.dumps(RECORDS[name.split()[-1]]))
        function(path, True)
    path.write_text(json.dumps(RECORDS["fields"]))
    assert len(FIELDS.read(path).examples) == 1
    chance = random.Random(0)
    made = [mutated(chance, RECORDS["squad"], "é") for _ in range(50)]
    assert len(set(made)) > 20
