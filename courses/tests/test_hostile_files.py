"""No file of examples ends a reader of this package: broken records are dropped."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace_courses.conll import Conll, ConllU
from headrace_courses.superglue import FLAT, READERS, SuperGlue
from headrace_courses.tagged_words import TaggedWords
from tests.data_prep.adversarial import hostile_bytes, hostile_text
from tests.train.finetune.files.hostile import readers_of_bytes, readers_of_texts

TEXT_AND_PLACE = {"text": "Ann", "start": 4, "end": 6}
RECORDS: dict[str, Any] = {
    "boolq": {"question": "is it", "passage": "It is.", "label": True},
    "cb": {"premise": "A.", "hypothesis": "B", "label": "neutral"},
    "copa": {"premise": "A.", "choice1": "B.", "choice2": "C.", "question": "cause", "label": 1},
    "rte": {"premise": "A.", "hypothesis": "B", "label": "entailment"},
    "wic": {"word": "a", "sentence1": "a b", "sentence2": "c a", "label": 0, "start1": 0, "end1": 1, "start2": 2, "end2": 3},  # noqa: E501
    "wsc": {"text": "Mark told Pete lies.", "label": True,
            "target": {"span1_index": 0, "span1_text": "Mark", "span2_index": 2, "span2_text": "Pete"}},
    "multirc": {"passage": {"text": "A.", "questions": [
        {"question": "Who?", "answers": [{"text": "Ann", "label": 0}]}]}},
    "record": {"passage": {"text": "The Ann is old.", "entities": [TEXT_AND_PLACE]},
               "qas": [{"query": "@placeholder slept.", "answers": [TEXT_AND_PLACE]}]},
    "tagged_words": {"tokens": ["Ann", "slept"], "tags": ["B-PER", 0]},
}  # fmt: skip
"""A right record of each format in JSON."""


def formats() -> Iterator[tuple[str, Callable[[Path, bool], object], str]]:
    """Yields name, reader and the end of a file's name of each format."""
    for task in (*FLAT, *READERS):
        yield f"superglue {task}", SuperGlue(task=task).read, ".jsonl"
    yield "conll", Conll().read, ".txt"
    yield "conllu", ConllU().read, ".conllu"
    yield "tagged_words", TaggedWords().read, ".jsonl"


@pytest.mark.parametrize("seed", range(40))
def test_hostile_records_and_bytes(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    for _, function in readers_of_texts(tmp_path, formats, RECORDS):
        function(hostile_text(chance, 100))
    for _, function in readers_of_bytes(tmp_path, formats):
        function(hostile_bytes(chance, 300))
