"""Names that an object has twice are found at any depth, however they are written, and nothing else is."""

import json
from time import process_time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.data.labelled_pages import labelled_pages
from headrace.data_prep.columns.scorers import FileValues
from headrace.data_prep.filters.urls import domain_table
from headrace.pipeline.command_line.model_options import file_lines
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import RepeatedNameError, each_once, repeated_names
from headrace.train.evaluation.file_records import benchmark_records, records
from headrace.train.finetune.files.published import _articles

TWICE = {
    '{"text": "a", "text": "b"}': ("text",),
    '{"text": "a", "text": "a"}': ("text",),
    '{"text" \t: "a", "text": "b"}': ("text",),
    '{"text":"a","te\\u0078t":"b"}': ("text",),
    '{"a": {"b": 1, "b": 2}, "text": ""}': ("b",),
    '{"a": [[{"b": 1, "b": 2}]], "c": 1, "c": 2}': ("b", "c"),
    '{"a": {"b": 1}, "a": {"c": 1}}': ("a",),
    '{"a\\\\": 1, "b": 1, "b": 2}': ("b",),
    '{"a\\"": 1, "a\\"": 2}': ('a"',),
    '{"a": ": x", "b": "\\":", "c": 0, "c": 1e999}': ("c",),
    '{"": 1, "": 2}': ("",),
    '{"é": 1, "\\u00e9": 2}': ("é",),
    '{"a": 1, "a": 2, "a": 3}': ("a",),
    f'{{"n": {"9" * 5000}, "n": 1}}': ("n",),
}
ONCE = [
    "{}", "[]", '{"text": "a"}', '{"a": {"a": {"a": 1}}}', '{"a": [{"b": 1}, {"b": 2}], "b": 0}',
    '{"text": "{\\"a\\": 1, \\"a\\": 2}"}', '{"a": ": : :", "b": "\\\\", "c": "\\\\\\":"}', '{"a": 1, "A": 2, "a ": 3}',
    '{"é": 1, "e\\u0301": 2}', '{"a": ":\\\\", "b\\\\": ":"}',
]  # fmt: skip


@pytest.mark.parametrize("text", TWICE)
def test_a_name_that_is_there_twice_is_found(text):
    assert repeated_names(text.encode(), json.loads(text, parse_int=float)) == TWICE[text]
    with pytest.raises(RepeatedNameError, match="an object has the name"):
        json.loads(text, object_pairs_hook=each_once, parse_int=float)


@pytest.mark.parametrize("text", ONCE)
def test_names_of_several_objects_and_in_texts_are_not(text):
    assert repeated_names(text.encode(), json.loads(text)) == ()
    assert json.loads(text, object_pairs_hook=each_once) == json.loads(text)


NAMES = st.text('ab\\":{ ', max_size=3)
VALUES = st.recursive(
    NAMES | st.integers(0, 9), lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=3)
)


def written(value: object) -> tuple[str, bool]:
    """The JSON of ``value``, whose lists of pairs are objects, and whether one has a name twice."""
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        inner = [(name, *written(item)) for name, item in value]
        twice = len({name for name, *_ in inner}) < len(inner) or any(is_twice for *_, is_twice in inner)
        return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text, _ in inner) + "}", twice
    if isinstance(value, list):
        items = [written(item) for item in value]
        return "[" + ",".join(text for text, _ in items) + "]", any(twice for _, twice in items)
    return json.dumps(value), False


@given(value=VALUES)
def test_it_is_the_plain_definition(value):
    text, twice = written(value)
    assert bool(repeated_names(text.encode(), orjson.loads(text))) == twice


def test_the_time_is_linear():
    """Of objects with many names, and of texts that look like names."""
    for part in ('"%d": 1', '"x%d": "\\":\\\\"'):
        seconds = []
        for size in (20_000, 80_000):
            text = ("{" + ", ".join(part % number for number in (*range(size), 0)) + "}").encode()
            start = process_time()
            assert len(repeated_names(text, orjson.loads(text))) == 1
            seconds.append(process_time() - start)
        assert seconds[1] < 16 * seconds[0] + 0.1


LINE = b'{"id": "a:0", "html": "<p>a</p>", "text": "a", "value": 1, "x": {"b": 1, "b": 2}}'
STRICT = {
    "records of a benchmark": lambda path: benchmark_records([path]),
    "prompts": lambda path: file_lines(path, "--file", "text"),
    "values of documents": lambda path: list(FileValues(path=str(path), value="value")._lines()),
    "labelled pages": lambda path: list(labelled_pages([path])),
    "examples of SQuAD": lambda path: list(_articles(path)),
    "a table of sites": lambda path: domain_table(str(path)),
}


@pytest.mark.parametrize("door", STRICT)
def test_a_door_that_is_strict_refuses_it(tmp_path, door):
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINE)
    with pytest.raises((ArtifactError, ConfigError), match="the name 'b' twice"):
        STRICT[door](path)


def test_an_example_is_dropped_with_the_reason(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(LINE + b'\n{"text": "b"}')
    [(_, broken), (_, right)] = records(tmp_path / "a.jsonl")
    assert (broken.reason, right) == ("repeated_name", {"text": "b"})
