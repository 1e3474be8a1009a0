"""Prompts and answers by templates over fields, from TSV, CSV, JSON lines and aligned plain files."""

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.train.finetune.files.examples import PROMPT, TemplatePairs
from headrace.train.finetune.tasks.task import read_files

TRANSLATION = {"prompt": "translate English to German: {en}", "answer": "{de}"}
ALIGNED = TemplatePairs(lines=("en", "de"), **TRANSLATION)


def pairs_of(format_: TemplatePairs, *paths: Path, labelled: bool = True) -> list[tuple[str, str, tuple[str, ...]]]:
    examples, _ = read_files(format_, [str(path) for path in paths], labelled)
    return [
        (example.id, example.texts[PROMPT], tuple(answer.text for answer in example.answers or ()))
        for example in examples
    ]


def write(path: Path, text: str) -> Path:
    packed = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)(text.encode())
    path.write_bytes(packed)
    return path


EXPECTED = [("translate English to German: Good day.", ("Guten Tag.",)), ("translate English to German: ü", ('"x',))]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", 'en\tde\nGood day.\tGuten Tag.\nü\t"x\n'),
        ("a.csv", 'de,en\nGuten Tag.,Good day.\n"""x",ü\n'),
        ("a.jsonl", '{"en": "Good day.", "de": "Guten Tag."}\n\n{"en": "ü", "de": ["\\"x"], "id": 3}\n'),
    ],
)
def test_records_of_fields(tmp_path, name, text, suffix):
    write(tmp_path / (name + suffix), text)
    found = pairs_of(TemplatePairs(**TRANSLATION), tmp_path / name)
    assert [pair[1:] for pair in found] == EXPECTED
    assert found[0][0].startswith(f"{name}{suffix}:")


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_aligned_files_are_read_line_by_line(tmp_path, suffix):
    write(tmp_path / f"train.en{suffix}", "\ufeffGood day.\r\n \nü\n")
    write(tmp_path / f"train.de{suffix}", 'Guten Tag.\nleer\n"x\n')
    write(tmp_path / "more.en", "a\u2028b\n")
    write(tmp_path / "more.de", "c")
    paths = [tmp_path / name for name in ("train.en", "train.de", "more.en", "more.de")]
    found = pairs_of(ALIGNED, *paths)
    assert [pair[1:] for pair in found] == [*EXPECTED, ("translate English to German: a\u2028b", ("c",))]
    assert [pair[0] for pair in found] == [f"train.en{suffix}:1", f"train.en{suffix}:3", "more.en:1"]
    assert read_files(ALIGNED, list(map(str, paths)), True)[1] == {"blank_text": 1}


def test_unequal_numbers_of_lines_are_an_error_with_both(tmp_path):
    paths = [write(tmp_path / "train.en", "a\nb\nc\n"), write(tmp_path / "train.de", "A\nB\n")]
    with pytest.raises(ArtifactError) as caught:
        pairs_of(ALIGNED, *paths)
    assert str(caught.value) == (
        f"{tmp_path}: the numbers of lines differ: train.en 3 and train.de 2; give files in which lines of one number "
        "belong together"
    )


def test_a_set_of_aligned_files_is_whole(tmp_path):
    path = write(tmp_path / "train.en", "a\n")
    with pytest.raises(ArtifactError) as caught:
        pairs_of(ALIGNED, path)
    assert str(caught.value) == (
        f"{path}: there are 1 files, and each set of aligned ones has 2 (en, de); "
        "give the files of each set one after the other"
    )


def test_fields_of_objects_lists_numbers_and_braces(tmp_path):
    rows = [
        {"translation": {"en": "a", "de": "b"}, "year": 1990, "titles": ["x", "y"], "a.b": "dot"},
        {"translation": {"en": "a"}, "year": 1, "titles": ["x"], "a.b": ""},
        {"translation": {"en": ["a"]}, "year": 1, "titles": ["x"], "a.b": ""},
        {"translation": {"en": "a"}, "year": 1, "titles": [], "a.b": ""},
        {"translation": {"en": "a"}, "year": True, "titles": ["x"], "a.b": ""},
    ]
    rows += rows[:1] * 3
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    format_ = TemplatePairs(prompt="{{{translation.en}}} {year} {a.b}", answer="{titles} ({year})")
    assert [pair[1:] for pair in pairs_of(format_, path)[:2]] == [
        ("{a} 1990 dot", ("x (1990)", "y (1990)")),
        ("{a} 1 ", ("x (1)",)),
    ]
    assert read_files(format_, [str(path)], True)[1] == {"no_text": 2, "no_answer": 1}


def test_records_without_a_pair_are_counted(tmp_path):
    rows = [{"a": "1", "b": ["2"]}] * 6 + [{"a": "1", "b": []}, {"a": 1.5, "b": [" "]}]
    rows += [{"a": None, "b": "x"}, {"b": "x"}]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows) + "[]\n")
    examples, dropped = read_files(TemplatePairs(prompt="{a}", answer="{b}"), [str(path)], True)
    assert len(examples) == 6
    assert dropped == {"no_answer": 1, "blank_text": 1, "no_text": 1, "no_field": 1, "not_json": 1}
    assert len(read_files(TemplatePairs(prompt="{a}", answer="{b}"), [str(path)], False)[0]) == 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prompt": "{en", "answer": "{de}"}, "prompt: '{en' is no template (expected '}' before end of string)"),
        (
            {"prompt": "{en:>9}", "answer": "{de}"},
            "prompt: '{en:>9}' is no template ({en} has a format other than capitalize and strip)",
        ),
        ({"prompt": "English", "answer": "{de}"}, "prompt: 'English' names no field"),
        ({"prompt": "{en}", "answer": "{}"}, "answer: '{}' names no field in braces"),
    ],
)
def test_bad_templates_are_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        TemplatePairs(**settings)
    remedy = "write names of fields in braces, as {en}, and {{ for a brace"
    assert str(caught.value) == f"finetune.task.format.{message}; {remedy}"


def test_a_template_names_lines_that_are_there():
    with pytest.raises(ConfigError) as caught:
        TemplatePairs(prompt="{en}", answer="{fr}", lines=("en", "de"))
    assert str(caught.value) == (
        "finetune.task.format.answer: names 'fr', and the lines are en, de; name some of these"
    )
