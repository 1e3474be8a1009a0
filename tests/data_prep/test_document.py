import pytest
from datatrove.data import Document
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.document import FAST_LEVEL, DocumentWriter, read_documents
from headrace.pipeline.core.compression import LEVEL
from headrace.pipeline.core.text_files import read_lines
from tests.unique_documents import write_documents

values = st.one_of(st.text(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
documents = st.lists(
    st.builds(
        Document,
        text=st.text(),
        id=st.text(),
        metadata=st.dictionaries(st.text(), values | st.dictionaries(st.text(), values)),
    ),
    max_size=5,
)


@settings(max_examples=40)
@given(first=documents, second=documents)
def test_a_copied_shard_has_the_bytes_of_a_written_one(first, second, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("shards")
    write_documents(folder / "written", first + second)
    with DocumentWriter(folder / "scratch", FAST_LEVEL) as scratch:
        for document in first:
            scratch.write(document)
    with DocumentWriter(folder / "copied") as copied:
        copied.copy_from(folder / "scratch")
        for document in second:
            copied.write(document)
    assert (folder / "copied").read_bytes() == (folder / "written").read_bytes()
    assert list(read_documents(folder / "copied")) == first + second


@pytest.mark.parametrize("level", [LEVEL, FAST_LEVEL])
def test_no_documents(tmp_path, level) -> None:
    with DocumentWriter(tmp_path / "empty", level):
        pass
    assert list(read_documents(tmp_path / "empty")) == list(read_lines(tmp_path / "empty")) == []


def test_lines_have_no_ends(tmp_path) -> None:
    write_documents(tmp_path / "one", [Document("a\n", "b"), Document("\u2028é", "c", metadata={"n": 1})])
    assert list(read_lines(tmp_path / "one")) == [
        b'{"id":"b","text":"a\\n","metadata":{}}',
        '{"id":"c","text":"\u2028é","metadata":{"n":1}}'.encode(),
    ]
