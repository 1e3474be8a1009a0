"""Bad files get an error that names file and line."""

import bz2
import gzip
import lzma

import pytest
import zstandard

from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.train.evaluation.benchmarks.choices import Lambada, MultipleChoice
from headrace.train.evaluation.file_records import benchmark_records
from headrace.train.evaluation.settings import Evaluation

GOOD = '{"query": "Q", "choices": ["a", "b"], "gold": 0}'


def error_of(benchmark_type, path) -> str:
    with pytest.raises(ArtifactError) as caught:
        benchmark_type(paths=(str(path),)).raw_files(path.parent)
    assert str(caught.value).startswith(str(path))
    return str(caught.value)[len(str(path)) :]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('["Q"]', ":2: is no JSON object; correct the line, or remove it"),
        ('{"gold": 0, "gold": 1}', ":2: has the name 'gold' twice; correct the line, or remove it"),
        ('{"query": "Q", "gold": 0}', ":2: has no field 'choices'; its fields are: gold, query"),
        ('{"query": "Q", "choices": ["a", " "], "gold": 0}',
         ":2: field 'choices' holds ['a', ' ']; give it a list of two or more texts, none blank"),
        ('{"query": "Q", "choices": ["a", "b"], "gold": 2}', ":2: field 'gold' holds 2; give it a number from 0 to 1"),
        ('{"query": "Q", "choices": ["a", "b"], "gold": true}',
         ":2: field 'gold' holds True; give it a number from 0 to 1"),
        ('{"query": 7, "choices": ["a", "b"], "gold": 1}',
         ":2: field 'query' holds 7; give it a text"),
    ],
)  # fmt: skip
def test_multiple_choice(write_lines, line, message):
    assert error_of(MultipleChoice, write_lines("bad.jsonl", GOOD, line)) == message


def test_lambada_needs_a_last_word(write_lines):
    message = ":1: field 'text' has no last word after a space; give it a passage"
    assert error_of(Lambada, write_lines("bad.jsonl", '{"text": "word"}')) == message
    assert error_of(Lambada, write_lines("bad.jsonl", '{"text": "a passage "}')) == message


def test_an_empty_file(write_lines):
    message = ": holds no records; give a file with one record a line"
    assert error_of(MultipleChoice, write_lines("empty.jsonl", "")) == message


def test_what_is_not_utf8(write_lines):
    path = write_lines("bad.jsonl", GOOD, GOOD)
    path.write_bytes("\ufeff".encode() + path.read_bytes().replace(b'"b"', b'"\xe9"', 2).replace(b'"\xe9"', b'"b"', 1))
    assert error_of(MultipleChoice, path).startswith(":2: is not JSON (str is not valid UTF-8: ")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"paths": ("gone.jsonl",)}, "no file '{folder}/gone.jsonl'; give its folder as evaluation.data"),
        ({"paths": ("quiz.jsonl",), "shots": 1}, "1 shots of 1 records; ask for fewer shots"),
        (
            {"paths": ("quiz.jsonl", "more/quiz.jsonl")},
            "two files have one name, but names distinguish their items: quiz.jsonl, more/quiz.jsonl; rename one",
        ),
    ],
)
def test_what_is_wrong_with_a_benchmark_names_it(tmp_path, settings, message):
    (tmp_path / "more").mkdir()
    for file in ("quiz.jsonl", "more/quiz.jsonl"):
        (tmp_path / file).write_text(GOOD)
    evaluation = Evaluation(benchmarks={"piqa": MultipleChoice(**settings)}, data=str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        evaluation.raw_files()
    assert str(caught.value) == f"evaluation.benchmarks.piqa: {message.format(folder=tmp_path)}"


COMPRESS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize(
    ("suffix", "asked"), [*((suffix, None) for suffix in COMPRESS), (".gz", "a.jsonl"), ("", "a.jsonl.zst")]
)
def test_compressed_files_hold_the_same(tmp_path, suffix, asked):
    content = (GOOD + "\n\n" + GOOD + "\n").encode()
    compressed = COMPRESS[suffix](content)
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(compressed)
    assert [record.name for record in benchmark_records([path])] == [f"{path.name}:1", f"{path.name}:3"]
    benchmark = MultipleChoice(paths=(asked or path.name,))
    (file,) = benchmark.raw_files(tmp_path)
    assert [name for name, _ in benchmark.read(tmp_path)] == [f"{path.name}:1", f"{path.name}:3"]
    assert (file.name, file.bytes, file.sha256) == (path.name, len(compressed), FileRecord.of(path).sha256)


@pytest.mark.parametrize(
    "line",
    ["{", "[" * 100_000, '{"query": "\\ud83d"}', '{"\\udc00": 1}', '{"query": ' + "9" * 5_000 + "}", '{"weight": NaN}'],
    ids=["cut", "deep", "half a pair", "half a key", "huge", "NaN"],
)
def test_a_line_that_is_odd_is_named(tmp_path, line):
    path = tmp_path / "quiz.jsonl"
    path.write_text('{"query": "\\ud83d\\ude00 ok"}\r\n' + line + "\r\n")
    with pytest.raises(ArtifactError) as caught:
        benchmark_records([path])
    assert str(caught.value).startswith(f"{path}:2: is not JSON (")


def test_a_byte_order_mark_and_carriage_returns_are_read_past(tmp_path):
    path = tmp_path / "quiz.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"query": "a"}\r\n{"query": "b"}\r\n')
    assert [record.text("query") for record in benchmark_records([path])] == ["a", "b"]
