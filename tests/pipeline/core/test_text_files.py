"""Files in any compression: all of a file is read, or an error names it."""

import bz2
import gzip
import io
import lzma
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core import text_files
from headrace.pipeline.core.compression import CODECS, REMEDIES, SUFFIXES, UNREAD, bare_name, codec_named
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.text_files import created, opened, plain_text, read_lines, stored_path

Compress = Callable[[bytes], bytes]
NOISE = b"".join(bytes([byte * 7 % 256, byte * 31 % 256, byte * byte % 251]) for byte in range(30_000))
LINES = b"".join(b"line %d with some text\n" % number for number in range(5_000))


def sizeless(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


def checked(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def wide(data: bytes) -> bytes:
    """The form of ``zstd --long=31``."""
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=31, enable_ldm=True, write_content_size=0)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(data)


COMPRESS: dict[str, Compress] = {
    "plain": bytes, "gzip": gzip.compress, "zstd": zstandard.compress, "zstd without size": sizeless,
    "zstd with checksum": checked, "zstd with a long window": wide, "bzip2": bz2.compress, "xz": lzma.compress,
    "xz without check": lambda data: lzma.compress(data, check=lzma.CHECK_NONE),
}  # fmt: skip
each_form = pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
each_compression = pytest.mark.parametrize("compress", list(COMPRESS.values())[1:], ids=list(COMPRESS)[1:])


def written(folder: Path, data: bytes, name: str = "a.jsonl") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def content(path: Path) -> bytes:
    with opened(path) as file:
        return file.read()


def error_of(path: Path) -> str:
    """The message of the error of both ways of reading, which must be the same."""
    messages = []
    for read in (content, lambda path: list(read_lines(path))):
        with pytest.raises(ArtifactError) as caught:
            read(path)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert messages[0].startswith(f"{path}: ")
    return messages[0].removeprefix(f"{path}: ")


@each_form
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a"])
def test_the_content_decides_and_not_the_name(tmp_path: Path, compress: Compress, name: str) -> None:
    path = written(tmp_path, compress(LINES), name)
    assert content(path) == LINES
    assert list(read_lines(path)) == LINES.splitlines()


@each_form
@pytest.mark.parametrize("slice_bytes", [1, 9, 1 << 14])
@pytest.mark.parametrize(
    "parts", [[b""], [b"one"], [b"one\n", b"two"], [b"", b"a\nb", b"", b"\n\n", b"c"], [NOISE, b"\n", LINES]]
)
def test_all_members_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: Compress, slice_bytes: int, parts: list[bytes]
) -> None:
    monkeypatch.setattr(text_files, "SLICE_BYTES", slice_bytes)
    whole = b"".join(parts) if len(NOISE) not in map(len, parts) or slice_bytes > 1 else b"".join(parts := [b"a"] * 3)
    path = written(tmp_path, b"".join(map(compress, parts)))
    assert content(path) == whole
    expected = whole.split(b"\n")
    assert list(read_lines(path)) == (expected[:-1] if not expected[-1] else expected)


@each_compression
@pytest.mark.parametrize("padding", [b"\0", b"\0" * 512, b"\n", b"\r\n" * 9])
def test_padding_is_no_content(tmp_path: Path, compress: Compress, padding: bytes) -> None:
    path = written(tmp_path, compress(b"one\n") + padding + compress(b"two\n") + padding)
    assert content(path) == b"one\ntwo\n"


@each_compression
def test_every_cut_is_an_error(tmp_path: Path, compress: Compress) -> None:
    whole = compress(b"one line\n" * 3)
    for rest in (b"", whole):
        for size in range(8, len(whole)):
            assert error_of(written(tmp_path, rest + whole[:size])).startswith("cannot be decompressed (")


@each_compression
@pytest.mark.parametrize("garbage", [b"x", b"garbage, long enough to hold a header", NOISE, b"\0\0x"])
def test_garbage_after_a_member_is_an_error(tmp_path: Path, compress: Compress, garbage: bytes) -> None:
    for data in (compress(LINES) + garbage, compress(LINES) + garbage + compress(LINES)):
        message = error_of(written(tmp_path, data))
        assert " content is followed by other bytes); fetch it again" in message


@pytest.mark.parametrize("compress", [gzip.compress, checked, bz2.compress, lzma.compress])
@given(data=st.data())
def test_any_flipped_byte_of_checked_content_is_an_error_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, compress: Compress, data: st.DataObject
) -> None:
    whole = bytearray(compress(LINES[:300]))
    place = data.draw(st.integers(8, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    path = written(tmp_path_factory.mktemp("flip"), bytes(whole))
    try:
        assert content(path) == LINES[:300]
    except ArtifactError:
        assert error_of(path)


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.jsonl", "{}")
    return file.getvalue()


TARS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def tarred(form: int = tarfile.PAX_FORMAT, *members: bytes) -> bytes:
    """A tar of JSON lines, in one of the forms of ``tarfile``."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for number, member in enumerate(members or (b'{"text": "one"}\n{"text": "two"}\n',) * 2):
            entry = tarfile.TarInfo(f"part {number} é.jsonl")
            entry.size = len(member)
            archive.addfile(entry, io.BytesIO(member))
    return file.getvalue()


BEGINNINGS = {
    "zip": zipped(),
    "lz4": bytes.fromhex("04224d1864404a") + b"x" * 20,
    "7z": b"7z\xbc\xaf\x27\x1c\0\4" + b"x" * 20,
    "ARC": b"filedesc://a.arc 0.0.0.0 20090102030405 text/plain 76\n",
    **{f"tar {name}": tarred(form) for name, form in TARS.items()},
}


@each_form
@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_format_that_is_not_read_is_named_in_any_compression(tmp_path: Path, name: str, compress: Compress) -> None:
    kind = name.partition(" ")[0]
    remedy = REMEDIES.get(kind, "unpack it, or compress it with gzip, zstd, bzip2 or xz")
    path = written(tmp_path, compress(BEGINNINGS[name]))
    assert error_of(path) == f"is in a format that is not read ({kind}); {remedy}"
    with pytest.raises(ArtifactError, match="is in a format that is not read"):
        list(read_lines(path))
    assert {name.partition(" ")[0] for name in BEGINNINGS} == UNREAD.keys() - {"brotli"}


@pytest.mark.parametrize("name", ["zip", "tar pax"])
def test_an_archive_is_no_plain_text(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArtifactError, match=re.escape(f"is in a format that is not read ({name[:3]}); unpack it")):
        plain_text(written(tmp_path, BEGINNINGS[name]))
    assert plain_text(written(tmp_path, b"\xef\xbb\xbfa\r\nb"), "utf-8-sig") == "a\nb"


@pytest.mark.parametrize("text", ["ustar", "x" * 257 + "ustar x"])
def test_text_like_a_tar_is_text(tmp_path: Path, text: str) -> None:
    assert content(written(tmp_path, text.encode())) == text.encode()


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"PK", b"BZ", b"7zip", b"] ", b"\xef\xbb\xbf{}", b"\0\0", b"\x1f", b"P*M",
     b"(\xb5", b"\xfd7z", b"BZh is a name"],
)  # fmt: skip
def test_text_that_begins_almost_as_compressed_is_text(tmp_path: Path, text: bytes) -> None:
    assert content(written(tmp_path, text)) == text


@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
@pytest.mark.parametrize("data", [b"", LINES, NOISE])
def test_a_created_file_is_compressed_as_its_name_asks(tmp_path: Path, suffix: str, data: bytes) -> None:
    first, second = tmp_path / f"a.jsonl{suffix}", tmp_path / "temporary"
    with created(first) as file:
        file.write(data)
    with created(second, f"other.JSONL{suffix.upper()}") as file:
        file.write(data)
    assert first.read_bytes() == second.read_bytes(), "equal contents have equal bytes"
    assert content(first) == data
    codec = codec_named(first.name)
    assert codec is None if not suffix else codec is not None and codec.start.match(first.read_bytes())
    independent = {"": bytes, ".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
    if suffix in independent:
        assert independent[suffix](first.read_bytes()) == data


def test_the_size_that_is_known_is_in_the_frame(tmp_path: Path) -> None:
    with created(tmp_path / "a.zst", size=len(LINES)) as file:
        file.write(LINES)
    assert (tmp_path / "a.zst").read_bytes() == zstandard.ZstdCompressor(level=3).compress(LINES)


def test_names_without_their_compression() -> None:
    assert [bare_name(f"a.jsonl{suffix}") for suffix in SUFFIXES] == ["a.jsonl"] * len(SUFFIXES)
    assert [bare_name(name) for name in ("a.JSONL.GZ", "a.txt", "gz", ".gz", "a.gz.gz")] == [
        "a.JSONL", "a.txt", "gz", "", "a.gz",
    ]  # fmt: skip
    assert len({suffix for codec in CODECS for suffix in codec.suffixes}) == len(SUFFIXES)


def test_a_file_is_found_in_another_compression(tmp_path: Path) -> None:
    asked = tmp_path / "piqa.jsonl.zst"
    assert stored_path(asked) == asked
    for suffix in ("", *SUFFIXES):
        path = written(tmp_path, b"{}", f"piqa.jsonl{suffix}")
        assert stored_path(asked) == path
        assert stored_path(tmp_path / "piqa.jsonl") == path
        path.unlink()
    for suffix in (".gz", ".xz"):
        written(tmp_path, b"{}", f"piqa.jsonl{suffix}")
    assert stored_path(asked) == asked, "two files may differ"
    assert stored_path(written(tmp_path, b"{}", asked.name)) == asked
