"""The tables of docs/hard_cases.md of what presets do to text that is no web prose follow from the filters."""

import os
from pathlib import Path

import orjson
import pytest

from docs.hard_cases import CASES, END, MADE, PAGE, PRESETS, REAL, TEXTS, filters_of, made_table, outcome, real_table
from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.text.unwrapped_lines import unwrapped
from tests.stage_run import RunStage


def below(mark: str) -> str:
    return PAGE.read_text(encoding="utf-8").partition(mark)[2].partition(END)[0].strip()


def test_the_table_of_made_texts_is_up_to_date() -> None:
    """``python -m docs.hard_cases`` writes it again."""
    assert below(MADE) == made_table().strip()


@pytest.mark.slow
def test_the_table_of_real_texts_is_up_to_date() -> None:
    folder = os.environ.get("HEADRACE_DATA")
    if not folder:
        pytest.skip("HEADRACE_DATA names no folder of real texts")
    assert below(REAL) == real_table(Path(folder)).strip()


def test_every_file_is_in_the_table() -> None:
    assert {path.stem for path in TEXTS.iterdir()} == set(CASES)


@pytest.mark.parametrize("preset", ["c4", "c4_paper", "fineweb"])
def test_an_outcome_is_that_of_the_stage(preset: str, run_clean: RunStage, tmp_path: Path) -> None:
    """Each text alone through the stage ``clean``, which has passes and buckets."""
    path = next(path for path in PRESETS if path.stem == preset)
    cleaning = Cleaning(filters=filters_of(path), buckets=2)
    for name in CASES:
        text = (TEXTS / f"{name}.txt").read_text(encoding="utf-8")
        file = tmp_path / f"{name}.jsonl"
        file.write_text(orjson.dumps({"text": text, "url": "https://example.org/text"}).decode())
        artifact = run_clean(Jsonl(paths=(str(file),)), cleaning, tmp_path / preset / name)
        kept, dropped = ([*read_documents(artifact.shards(kind)[0])] for kind in ("documents", "dropped"))
        expected = outcome(text, cleaning.filters)
        if expected.drop is not None:
            assert [document.metadata["drop"]["rule"] for document in dropped] == [expected.drop.rule]
        else:
            [document] = kept
            left = len("".join(document.text.split())) / len("".join(text.split()))
            assert 1 - left == pytest.approx(expected.lost)


def test_a_poem_is_not_unwrapped() -> None:
    for name, is_joined in (("poem", False), ("list", False), ("titles", False), ("hard_wrapped", True), ("ocr", True)):
        text = (TEXTS / f"{name}.txt").read_text(encoding="utf-8")
        assert (unwrapped(text) is not None) == is_joined, name
