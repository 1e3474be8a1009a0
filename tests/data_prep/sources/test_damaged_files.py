"""Decompression, whole and damaged."""

import bz2
import gzip
import io
import itertools
import lzma
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.sources import damaged_files
from headrace.data_prep.sources.damaged_files import Mark, pieces
from headrace.pipeline.core import compression
from tests.pipeline.core.test_text_files import BEGINNINGS


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


CODECS = [gzip.compress, zstd, bz2.compress, lzma.compress]


def read(data: bytes) -> list[bytes | Mark]:
    """The pieces of ``data``, neighbouring bytes joined."""
    joined: list[bytes | Mark] = []
    for piece in pieces(io.BytesIO(data)):
        if isinstance(piece, bytes) and joined and isinstance(joined[-1], bytes):
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


def test_headers_of_gzip(monkeypatch):
    """Every set of fields (RFC 1952, 2.3), short and longer than a slice, whole and in pieces: as zlib reads it."""
    monkeypatch.setattr(damaged_files, "FIRST_BYTES", 7)
    for size, flags in itertools.product((0, 3, 65535), range(0, 32, 2)):
        header = b"\x1f\x8b\x08" + bytes([flags]) + bytes(6)
        header += (size.to_bytes(2, "little") + b"\0" * size) * bool(flags & 4)
        header += (b"a" * size + b"\0") * bool(flags & 8) + (b"c" * size + b"\0") * bool(flags & 16)
        header += (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little") * bool(flags & 2)
        member = header + gzip.compress(NOISE)[10:]
        assert zlib.decompress(member, 31) == NOISE
        assert read(member) == [NOISE, Mark.MEMBER_END], (size, flags)


NOISE = b"".join(bytes([byte * 7 % 256, byte * 31 % 256, byte * byte % 251]) for byte in range(3000))


@given(st.binary(max_size=300).filter(lambda data: not data.startswith((b"\x1f\x8b", b"BZh", b"(\xb5", b"\xfd7z"))))
def test_plain_bytes_come_as_they_are(data):
    assert b"".join(read(data)) == data or data[1:4] == b"\x2a\x4d\x18"


@pytest.mark.parametrize("compress", CODECS)
@given(parts=st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=4))
def test_members_end_where_they_end(compress, parts):
    wanted = [piece for part in parts for piece in (part, Mark.MEMBER_END)]
    assert read(b"".join(map(compress, parts))) == wanted


@pytest.mark.parametrize("compress", CODECS)
def test_reading_in_small_blocks_changes_nothing(compress, monkeypatch):
    data = compress(NOISE) + compress(b"two")
    monkeypatch.setattr(compression, "PIECE_BYTES", 97)
    monkeypatch.setattr(damaged_files, "SLICE_BYTES", 13)
    assert read(data) == [NOISE, Mark.MEMBER_END, b"two", Mark.MEMBER_END]


@pytest.mark.parametrize("compress", CODECS)
@pytest.mark.parametrize("block_bytes", [200, 1 << 20])
def test_reading_goes_on_behind_damage(compress, block_bytes, monkeypatch):
    monkeypatch.setattr(compression, "PIECE_BYTES", block_bytes)
    broken = bytearray(compress(NOISE))
    broken[len(broken) // 2 :] = b"\xff" * (len(broken) - len(broken) // 2)
    got = read(compress(b"one") + bytes(broken) + compress(b"three"))
    assert got[:2] == [b"one", Mark.MEMBER_END]
    assert got[-3:] == [Mark.DAMAGE, b"three", Mark.MEMBER_END]
    assert got.count(Mark.DAMAGE) == 1


@pytest.mark.parametrize("compress", CODECS)
def test_a_member_that_is_cut(compress):
    whole = compress(NOISE)
    got = read(compress(b"one") + whole[: len(whole) // 2])
    assert got[:2] == [b"one", Mark.MEMBER_END]
    assert got[-1] is Mark.CUT


@pytest.mark.parametrize("compress", CODECS)
def test_garbage_between_members_is_damage_and_padding_is_not(compress):
    one, two = compress(b"one"), compress(b"two")
    assert read(one + b"\0" * 600 + two) == [b"one", Mark.MEMBER_END, b"two", Mark.MEMBER_END]
    assert read(one + b"garbage, long enough" + two) == [b"one", Mark.MEMBER_END, Mark.DAMAGE, b"two", Mark.MEMBER_END]
    assert read(one + b"g") == [b"one", Mark.MEMBER_END, Mark.DAMAGE]


@pytest.mark.parametrize("compress", CODECS)
@given(data=st.data())
def test_any_flipped_byte_is_survived(compress, data):
    parts = [b"first " * 40, bytes(range(256)), b"last " * 40]
    members = [compress(part) for part in parts]
    damaged = bytearray(members[1])
    damaged[data.draw(st.integers(4, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    got = read(members[0] + bytes(damaged) + members[2])
    assert got[0] == parts[0]
    assert isinstance(got[-2], bytes)
    assert got[-2].endswith(parts[2]) or Mark.DAMAGE in got or Mark.CUT in got


@pytest.mark.parametrize("compress", [bytes, *CODECS])
@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_format_that_is_not_read_is_one_mark(name, compress):
    data = compress(BEGINNINGS[name] + NOISE)
    stream = io.BytesIO(data)
    [mark] = pieces(stream)
    assert mark is {"tar": Mark.TAR, "ARC": Mark.ARC}.get(name.partition(" ")[0], Mark.UNREAD)
    assert mark.is_loss
    assert stream.tell() == len(data), "the progress counts all its bytes"


def test_zstd_with_a_dictionary_in_front_as_warc_zst_has_it():
    samples = [f"a record about the river {number} and its mill".encode() * 5 for number in range(200)]
    dictionary = zstandard.train_dictionary(2000, samples)
    compressor = zstandard.ZstdCompressor(dict_data=dictionary, write_content_size=False)
    raw = dictionary.as_bytes()
    for content in (raw, zstandard.compress(raw)):
        head = b"\x5d\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content
        got = read(head + compressor.compress(samples[0]) + compressor.compress(samples[1]))
        assert got == [samples[0], Mark.MEMBER_END, samples[1], Mark.MEMBER_END]


def test_a_dictionary_that_claims_any_size_is_no_dictionary():
    claim = b"\x28\xb5\x2f\xfd\xe0" + (1 << 60).to_bytes(8, "little") + b"\x01\x00\x00"
    head = b"\x5d\x2a\x4d\x18" + len(claim).to_bytes(4, "little") + claim
    assert read(head + zstd(b"one")) == [b"one", Mark.MEMBER_END]


def test_other_skippable_frames_are_passed():
    head = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    assert read(head + zstd(b"one")) == [b"one", Mark.MEMBER_END]


@pytest.mark.slow
@pytest.mark.parametrize("compress", CODECS)
def test_a_bomb_comes_in_small_pieces(compress):
    """It expands to more than the largest piece."""
    bomb = compress(bytes(150_000_000))
    size = largest = 0
    for piece in pieces(io.BytesIO(bomb)):
        if isinstance(piece, bytes):
            size, largest = size + len(piece), max(largest, len(piece))
    assert size == 150_000_000
    assert largest <= 128 << 20


@pytest.mark.parametrize("compress", CODECS)
@pytest.mark.parametrize("taken_bytes", [1, 3, 10, 40, 1 << 20])
def test_the_member_behind_a_cut_one_is_found(compress, taken_bytes, monkeypatch):
    """The decoder notices the cut only after it has taken in some of the next member, in this block or the next."""
    whole = compress(NOISE)
    cut = whole[: len(whole) // 2]
    monkeypatch.setattr(compression, "PIECE_BYTES", len(cut) + taken_bytes)
    got = read(cut + compress(b"two") + compress(b"three"))
    assert got[-5:] == [Mark.DAMAGE, b"two", Mark.MEMBER_END, b"three", Mark.MEMBER_END]
