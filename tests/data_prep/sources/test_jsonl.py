"""JSON lines."""

import bz2
import gzip
import io
import json
import lzma
from unittest.mock import patch

import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.document import Drop
from headrace.data_prep.sources import jsonl
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.source import Section
from headrace.pipeline.core import compression
from tests.command_line import headrace_here

ROWS = [{"text": f"text {number} é", "url": f"http://x/{number}", "id": number} for number in range(50)]
LINES = "\n".join(json.dumps(row) for row in ROWS).encode()


def read(path, data, **options):
    path.write_bytes(data)
    return list(Jsonl(paths=(str(path),), **options).read(str(path)))


COMPRESS = (bytes, gzip.compress, zstandard.compress, bz2.compress, lzma.compress)


@pytest.mark.parametrize(
    ("compress", "end", "block_bytes"),
    [*((one, b"\r\n\n", 7) for one in COMPRESS), (bytes, b"", 7), (bytes, b"\n", 1 << 20), (bytes, b"", 1 << 20)],
)
def test_lines_are_documents(tmp_path, monkeypatch, compress, end, block_bytes):
    monkeypatch.setattr(compression, "PIECE_BYTES", block_bytes)
    path = tmp_path / "a.jsonl"
    records = read(path, compress(LINES + end))
    assert [document.text for document, _ in records] == [row["text"] for row in ROWS]
    assert [document.id for document, _ in records] == [f"{path}:{number}" for number in range(50)]
    assert records[3][0].metadata == {"url": "http://x/3", "source_id": "3"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"text": "a"', Drop("not_json", '{"text": "a"')),
        (b"x" * 200, Drop("not_json", "x" * 80)),
        (b'["text"]', Drop("not_an_object", '["text"]')),
        (b"null", Drop("not_an_object", "null")),
        (b"\xff\xfe", Drop("not_utf8", "byte 0 of the line: \ufffd\ufffd")),
        ('{"text": "Mühle"}'.encode("latin-1"), Drop("not_utf8", 'byte 11 of the line: {"text": "M\ufffdhle"}')),
        (b'{"text": null}', Drop("no_text", "field 'text' is null")),
        (b'{"text": ["a"]}', Drop("no_text", "field 'text' is a list, no text")),
        (b'{"text": true}', Drop("no_text", "field 'text' is true or false, no text")),
        (b"[" * 5000 + b"]" * 5000, Drop("not_json", "[" * 80)),
        (b"[" * 90_000, Drop("not_json", "[" * 80)),
        (b'{"text": ' + b"[" * 40_000 + b"]" * 40_000 + b"}", Drop("not_json", '{"text": ' + "[" * 71)),
        (b'{"text": ' + b"9" * 5_000 + b"}", Drop("not_json", '{"text": ' + "9" * 71)),
        (b'{"text": NaN}', Drop("no_text", "field 'text' is a number, no text")),
        (b'"text"', Drop("not_an_object", '"text"')),
        (b'{"\\udc00": 1, "text": "a"}\r', "a"),
        (b'{"text": "a", "date": ' + b"9" * 4_000 + b', "url": NaN}', "a"),
        (b"{}", Drop("no_text", "field 'text' is absent")),
        (b'{"text": ""}', Drop("no_text", "field 'text' is empty")),
        (b'{"text": " \\n"}', Drop("no_text", "field 'text' is without text")),
        (b'{"text": 5}', Drop("no_text", "field 'text' is a number, no text")),
        (b'{"text": "a\\ud800b\\u0000c"}', "a\ufffdbc"),
        (b'{"text": "a", "n": NaN}', "a"),
        (b'{"text": "a", "url": ' + b'{"a":' * 1000 + b"1" + b"}" * 1000 + b"}", "a"),
        (b'{"text": "' + b"x" * 500_000 + b'"}', Drop("record_too_large", "500012")),
    ],
)
def test_one_bad_line_between_good_ones(tmp_path, line, expected):
    good = b'{"text": "good"}'
    records = read(tmp_path / "a.jsonl", b"\n".join([good, b"", line, good]), record_bytes=100_000)
    assert [drop or document.text for document, drop in records] == ["good", expected, "good"]
    assert [document.id[-2:] for document, _ in records] == [":0", ":1", ":2"]
    orjson.dumps([document.metadata for document, _ in records])


def test_a_long_line_is_never_held(tmp_path, monkeypatch):
    monkeypatch.setattr(compression, "PIECE_BYTES", 1000)
    records = read(tmp_path / "a.jsonl", b"x" * 50_000 + b'\n{"text": "a"}\n' + b"y" * 9_000, record_bytes=2000)
    assert [drop or document.text for document, drop in records] == [
        Drop("record_too_large", "50000"), "a", Drop("record_too_large", "9000")
    ]  # fmt: skip


def test_damage_is_counted(tmp_path):
    records = read(tmp_path / "a.jsonl.gz", gzip.compress(LINES)[:-30])
    *kept, (_, drop) = records
    assert drop == Drop("broken_compression", "the end of the file, inside a member")
    assert [document.text for document, _ in kept] == [row["text"] for row in ROWS[: len(kept)]]


def test_a_compression_that_is_not_read_is_one_record_that_names_the_remedy(tmp_path):
    [(_, drop)] = read(tmp_path / "a.jsonl", b"PK\x03\x04" + b"x" * 5000)
    remedy = "unpack it, or compress it with gzip, zstd, bzip2 or xz"
    assert drop == Drop("broken_compression", f"a compression that is not read: {remedy}")


def test_records_with_one_name_twice_are_read_and_counted(tmp_path):
    twice = ['{"text": "a", "text": "b"}', '{"text": "c", "meta": [{"x": 1, "x\\ud800": 1, "x": 2, "x\\ud800": 2}]}']
    lines = [*twice, '{"text": "d"}', '{"text": "", "text": null}', '{"text": "", "n": 99999999999999999999, "n": 1}']
    records = read(tmp_path / "a.jsonl", "\n".join(lines).encode())
    assert [document.text for document, _ in records] == ["b", "c", "d", "", ""]
    named = [document.metadata.get("repeated_names") for document, _ in records]
    assert named == ["text", "x, x\ufffd", None, "text", "n"]
    ran = headrace_here(
        "run", "source=jsonl", f"source.paths={tmp_path}/a.jsonl", "until=texts", f"root={tmp_path}/runs"
    )
    warning = "texts: 2 of 3 records have one name twice in an object of JSON; the last value was read"
    assert warning in ran.stdout + ran.stderr
    [manifest] = (tmp_path / "runs" / "texts").glob("*/manifest.json")
    assert json.loads(manifest.read_bytes())["counts"]["repeated_names"] == 2


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path, compress, end):
    records = read(tmp_path / "a.jsonl", compress(b"\xef\xbb\xbf" + LINES.replace(b"\n", end)))
    assert [drop or document.text for document, drop in records] == [row["text"] for row in ROWS]


def test_fields_and_html(tmp_path):
    row = {"html": "<main><p>words of the page</p></main>", "u": "http://x", "when": "2026", "key": "k", "text": "no"}
    options = {"html_field": "html", "url_field": "u", "date_field": "when", "id_field": "key"}
    [(document, drop)] = read(tmp_path / "a.jsonl", json.dumps(row).encode(), **options)
    assert (document.text, drop) == ("words of the page", None)
    assert document.metadata == {"url": "http://x", "date": "2026", "source_id": "k"}
    [(_, drop)] = read(tmp_path / "a.jsonl", b'{"html": "<p>"}', **options)
    assert drop == Drop("no_text", "")


@given(st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=5))
def test_any_lines_are_accounted_for(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    records = read(path, b" \n" + b"\n".join(lines))
    assert len(records) == sum(bool(line.strip()) for line in lines)


@given(
    lines=st.lists(st.sampled_from([b"", b" ", b"{}", b"x", b'{"text": "a"}', b"y" * 50, b"\r"]), max_size=9),
    last=st.sampled_from([b"", b"\n", b"\n\n"]),
    sections=st.integers(1, 12),
    piece_bytes=st.sampled_from([1, 3, 1000]),
)
def test_sections_hold_the_records_of_the_file(tmp_path_factory, lines, last, sections, piece_bytes):
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    data = b"\n".join(lines) + last
    path.write_bytes(data)
    source = Jsonl(paths=(str(path),), record_bytes=40)
    sections = min(sections, max(1, len(data)))
    found, counted = [], 0
    with patch.object(jsonl, "PIECE_BYTES", piece_bytes):
        for number in range(sections):
            section = Section(str(path), len(data), number, sections)
            found += source.read_section(section, counted)
            counted += source.count(section)
            assert len(found) == counted
    assert facts(found) == facts(source.read(str(path)))


def facts(records):
    return [(document.id, document.text, drop) for document, drop in records]


def test_of_a_line_over_many_sections_each_reads_only_its_own_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl, "PIECE_BYTES", 10)
    stream = io.BytesIO(b"x" * 5000 + b"\n{}\n")
    assert b"".join(jsonl.plain_lines(stream, 0, 1000)) == b"x" * 5000 + b"\n"
    for start in range(1000, 5000, 1000):
        assert list(jsonl.plain_lines(stream, start, start + 1000)) == []
        assert stream.tell() <= start + 1000


def test_a_compressed_file_with_a_plain_name_is_read_by_its_first_section(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(LINES))
    size = path.stat().st_size
    source = Jsonl(paths=(str(path),), section_bytes=size // 3)
    counts = [source.count(section) for (section,) in source.groups()]
    assert counts == [50, 0, 0]
    assert [len(list(source.read_section(section, 0))) for (section,) in source.groups()] == counts


def test_a_real_file(data_folder):
    path = str(data_folder("web/dclm_keep_drop_labels.jsonl.zst"))
    records = list(Jsonl(paths=(path,)).read(path))
    assert len(records) == 499
    assert all(drop is None for _, drop in records)
