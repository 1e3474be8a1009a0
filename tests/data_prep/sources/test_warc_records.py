"""The boundaries of records, in whole and in broken files."""

import bz2
import gzip
import io
import re
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.damaged_files import Mark, pieces
from headrace.data_prep.sources.warc_records import warc_records
from tests.data_prep.sources.warc_bytes import http, page, record

CODECS = {"plain": bytes, "gzip": gzip.compress, "zstd": zstandard.compress, "bz2": bz2.compress}
WHOLE = [page(number) for number in range(4)]


def outcome(data: bytes, record_bytes: int = 10_000) -> list[str]:
    """Returns the number of the page of each record, or its fault."""
    got = []
    for found in warc_records(pieces(io.BytesIO(data)), record_bytes):
        if found.fault is None:
            number = re.search(rb"page (\d+)", found.data)
            got.append(number[1].decode() if number else "other")
        else:
            assert found.data == b""
            got.append(found.fault.rule)
    return got


@pytest.mark.parametrize("codec", CODECS)
def test_every_record_comes_as_written(codec):
    data = b"".join(CODECS[codec](part) for part in WHOLE)
    found = list(warc_records(pieces(io.BytesIO(data)), 10_000))
    assert [record.data + b"\r\n\r\n" for record in found] == WHOLE


@pytest.mark.parametrize("codec", CODECS)
def test_one_member_may_hold_the_whole_file(codec):
    assert outcome(CODECS[codec](b"".join(WHOLE))) == ["0", "1", "2", "3"]


def test_a_record_may_be_cut_into_many_members():
    data = b"".join(WHOLE)
    blocks = b"".join(gzip.compress(data[start : start + 100]) for start in range(0, len(data), 100))
    assert outcome(blocks) == ["0", "1", "2", "3"]


def test_line_ends_may_be_lf_alone():
    lines = [part.replace(b"\r\n", b"\n") for part in WHOLE]
    shorter = [re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % _block_bytes(part), part) for part in lines]
    assert outcome(b"".join(shorter)) == ["0", "1", "2", "3"]


def _block_bytes(part: bytes) -> int:
    return len(part) - part.index(b"\n\n") - 2 - len(b"\n\n")


@pytest.mark.parametrize(
    "empty",
    [b"", b"\r\n\r\n", gzip.compress(b""), zstandard.compress(b"")],
    ids=["no-bytes", "blank-lines", "gzip", "zstd"],
)
def test_nothing_holds_no_record(empty):
    assert outcome(empty) == []


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("length", [b"99999", b"9999"])
def test_a_length_that_is_too_large_costs_one_record(codec, length):
    """One compressed member holds one record. A too large length in a plain file looks like a large record."""
    wrong = record(http(b"page 1"), length=length)
    got = outcome(b"".join(map(CODECS[codec], [WHOLE[0], wrong, *WHOLE[2:]])))
    if codec != "plain":
        assert got == ["0", "truncated_record", "2", "3"]
    elif length == b"9999":
        assert got == ["0", "wrong_length", "2", "3"]
    else:
        assert got == ["0", "truncated_record"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("length", [b"3", b"-1", b"x", b"", b"1" * 30])
def test_a_length_that_is_too_small_or_none_costs_one_record(codec, length):
    wrong = record(http(b"page 1"), length=length or b" ")
    rule = "wrong_length" if length == b"3" else "broken_record"
    assert outcome(b"".join(map(CODECS[codec], [WHOLE[0], wrong, *WHOLE[2:]]))) == ["0", rule, "2", "3"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_over_the_limit_is_passed_and_named(codec):
    large = record(http(b"page 1" * 10_000), url=b"http://large/")
    data = b"".join(map(CODECS[codec], [WHOLE[0], large, *WHOLE[2:]]))
    assert outcome(data) == ["0", "record_too_large", "2", "3"]
    found = list(warc_records(pieces(io.BytesIO(data)), 10_000))[1]
    assert (found.fault, found.url) == (Drop("record_too_large", str(len(http(b"page 1" * 10_000)))), "http://large/")


@pytest.mark.parametrize("codec", CODECS)
def test_garbage_between_records_is_one_fault(codec):
    data = b"".join(map(CODECS[codec], [WHOLE[0], b"no record\nat all\n" * 5000, *WHOLE[2:]]))
    assert outcome(data) == ["0", "broken_record", "2", "3"]


@pytest.mark.parametrize("codec", ["gzip", "zstd", "bz2"])
def test_raw_garbage_between_members_is_one_fault(codec):
    one, two, *rest = map(CODECS[codec], WHOLE)
    assert outcome(one + b"garbage" * 1000 + two + b"".join(rest)) == ["0", "broken_compression", "1", "2", "3"]


@pytest.mark.parametrize(
    "data",
    [b"\x00\xff" * 5000, b"hello\n" * 5000, gzip.compress(b"hello\n" * 5000), b"x"],
    ids=["binary", "text", "gzip", "one-byte"],
)
def test_a_file_that_is_no_warc_is_one_fault(data):
    assert outcome(data) == ["broken_record"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_cut_anywhere_loses_only_what_is_behind(codec):
    parts = [CODECS[codec](part) for part in WHOLE]
    data, ends = b"".join(parts), [len(b"".join(parts[: count + 1])) for count in range(4)]
    for cut in range(0, len(data), 7):
        whole = sum(end <= cut for end in ends)
        got = outcome(data[:cut])
        assert got[:whole] == [str(number) for number in range(whole)]
        assert len(got) <= whole + 1


def test_a_header_without_end_is_a_fault():
    data = WHOLE[0] + b"WARC/1.0\r\nWARC-Type: response\r\n" + b"X: y\r\n" * 20_000 + b"\r\n" + WHOLE[1]
    assert outcome(data) == ["0", "broken_record", "1"]


@given(data=st.data(), codec=st.sampled_from(sorted(CODECS)))
def test_random_damage_never_raises_and_spares_the_first_and_last(data, codec):
    middle = bytearray(CODECS[codec](WHOLE[1]) + CODECS[codec](WHOLE[2]))
    start = data.draw(st.integers(0, len(middle) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=60))
    middle[start : start + len(noise)] = noise
    got = outcome(CODECS[codec](WHOLE[0]) + bytes(middle) + CODECS[codec](WHOLE[3]))
    assert got[0] == "0"
    assert len(got) <= 6
    if codec in ("gzip", "bz2"):
        assert got[-1] == "3"


def test_records_that_a_wrong_length_swallowed_are_read_after_all():
    """The length leads into the middle of record 3 of a plain file."""
    block = http(b"page 1")
    wrong = record(block, length=b"%d" % (len(block) + len(WHOLE[2]) + 50))
    assert outcome(WHOLE[0] + wrong + WHOLE[2] + WHOLE[3]) == ["0", "wrong_length", "2", "3"]


def test_damage_that_shows_only_behind_a_record_costs_it():
    """The checksum lies in another block of the file than the last bytes of the record."""
    marked = [WHOLE[0], Mark.MEMBER_END, WHOLE[1], Mark.DAMAGE, WHOLE[2], Mark.MEMBER_END]
    faults = [record.fault and record.fault.rule for record in warc_records(iter(marked), 10_000)]
    assert faults == [None, "broken_compression", None]


def test_a_wrong_checksum_costs_the_record_that_it_belongs_to():
    members = [bytearray(gzip.compress(part)) for part in WHOLE]
    members[1][-7] ^= 1
    assert outcome(b"".join(members)) == ["0", "broken_compression", "2", "3"]


@pytest.mark.parametrize("number", [3, 2000])
def test_headers_without_end_are_found_one_by_one(number):
    """And in a time that does not grow with the square of their number."""
    data = WHOLE[0] + b"WARC/1.0\r\n" * number * 10 + b"\r\n" + WHOLE[1]
    got = outcome(data)
    assert (got[0], got[-1]) == ("0", "1")
    assert set(got[1:-1]) == {"broken_record"}
    assert len(got) == number * 10 + 2


@pytest.mark.parametrize("number", [3, 2000])
def test_each_length_may_swallow_all_that_follows(number):
    wrong = b"WARC/1.0\r\nContent-Length: 9000\r\n\r\n"
    got = outcome(wrong * number + b"x" * 8000 + b"\n" + WHOLE[0] + WHOLE[1])
    assert got[-2:] == ["0", "1"]
    assert set(got[:-2]) == {"wrong_length"}


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_line_ends_without_end_are_not_held(codec):
    """A record, then 60 MB of empty lines that decompress from next to nothing, and another record."""
    tracemalloc.start()
    got = outcome(CODECS[codec](WHOLE[0] + b"\r\n" * 30_000_000 + WHOLE[1]))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert got == ["0", "1"]
    assert peak_bytes < 200_000_000
