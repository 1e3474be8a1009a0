"""ARC files give the documents that the same pages give as WARC, whole and damaged."""

import gzip
import io
import itertools
from pathlib import Path
from random import Random

import pytest

from headrace.data_prep.sources.arc_records import as_warc
from headrace.data_prep.sources.damaged_files import pieces
from headrace.data_prep.sources.warc import Warc
from tests.data_prep.sources.arc_bytes import VERSION_1, VERSION_1_1, VERSION_2, arc_record, description
from tests.data_prep.sources.warc_bytes import PAGE, http, record


def page(number: int) -> bytes:
    return http(PAGE % (b"page %d, with a few more words" % number))


def url(number: int) -> bytes:
    return b"http://example.org/%d" % number


def read(folder: Path, name: str, data: bytes) -> list[tuple[str, str, str, str]]:
    """Text, URL, date and the rule of each record."""
    (folder / name).write_bytes(data)
    records = list(Warc(paths=(str(folder / name),)).read(name))
    assert [document.id for document, _ in records] == [f"{name}:{number}" for number in range(len(records))]
    return [
        (document.text, document.metadata["url"], document.metadata["date"], drop.rule if drop else "")
        for document, drop in records
    ]


def warc(numbers: list[int]) -> bytes:
    return record(b"x", b"warcinfo") + b"".join(record(page(number), url=url(number)) for number in numbers)


@pytest.mark.parametrize("suffix", [".arc", ".arc.gz", ""])
@pytest.mark.parametrize("version", [VERSION_1, VERSION_1_1, VERSION_2])
def test_pages_are_those_of_the_same_warc(tmp_path: Path, version: bytes, suffix: str) -> None:
    parts = [description(version)]
    parts += [arc_record(page(number), url(number), version=2 if version == VERSION_2 else 1) for number in range(3)]
    data = b"".join(map(gzip.compress, parts)) if suffix.endswith(".gz") else b"".join(parts)
    records = read(tmp_path, f"a{suffix}", data)
    assert records[0][3] == "not_a_page"
    assert records[1:] == read(tmp_path, "a.warc", warc([0, 1, 2]))[1:]
    assert records[1][1:] == ("http://example.org/0", "2026-01-02T03:04:05Z", "")


def test_warcio_reads_the_same_records(tmp_path: Path) -> None:
    iterator = pytest.importorskip("warcio.archiveiterator")
    parts = [description(VERSION_1_1), *(arc_record(page(number), url(number)) for number in range(3))]
    (tmp_path / "a.arc.gz").write_bytes(b"".join(map(gzip.compress, parts)))
    with (tmp_path / "a.arc.gz").open("rb") as stream:
        records = [
            (entry.rec_headers.get_header("uri"), entry.http_headers and entry.content_stream().read())
            for entry in iterator.ArchiveIterator(stream)
        ]
    ours = read(tmp_path, "a.arc.gz", (tmp_path / "a.arc.gz").read_bytes())
    assert [address for address, _ in records[1:]] == [address for _, address, _, _ in ours[1:]]
    assert [body for _, body in records[1:]] == [page(number).partition(b"\r\n\r\n")[2] for number in range(3)]


def test_headers_with_odd_fields(tmp_path: Path) -> None:
    lines = [
        b"http://example.org/a b c 192.0.2.7 20260102030405 text/html; charset=utf-8 %d\n",
        b"https://example.org/ 2001:db8::7 20260102030405 text/html %d\r\n",
        b"http://example.org/?t=1.2 20200101000000 192.0.2.7 20260102030405 - %d\n",
    ]
    data = description() + b"".join(line % len(page(1)) + page(1) + b"\n" for line in lines)
    records = read(tmp_path, "a.arc", data)
    addresses = [address for _, address, _, rule in records if not rule]
    odd = "http://example.org/?t=1.2 20200101000000"
    assert addresses == ["http://example.org/a b c", "https://example.org/", odd]
    assert [date for _, _, date, rule in records if not rule] == ["2026-01-02T03:04:05Z"] * 3


def test_a_lookup_of_a_name_is_no_page(tmp_path: Path) -> None:
    data = description() + arc_record(
        b"20260102030405\nexample.org. 300 IN A 192.0.2.7\n", b"dns:example.org", b"text/dns"
    )
    assert [rule for *_, rule in read(tmp_path, "a.arc", data)] == ["not_a_page", "not_a_page"]


def rules(folder: Path, name: str, data: bytes) -> list[str]:
    return [rule or text.split(",")[0].strip() for text, _, _, rule in read(folder, name, data)]


def test_damage_is_counted_and_reading_goes_on(tmp_path: Path) -> None:
    first, second, third = (arc_record(page(number), url(number)) for number in (1, 2, 3))
    cases = {
        "cut": (first + second[:-40], ["page 1", "truncated_record"]),
        "junk": (b"no header at all\nnor here\n" + second, ["broken_record", "page 2"]),
        "after": (first + b"\nno header at all\nnor here\n" + second, ["page 1", "broken_record", "page 2"]),
        "short": (arc_record(page(1), url(1), length=b"20") + second, ["wrong_length", "page 2"]),
        "long": (arc_record(page(1), url(1), length=b"%d" % (len(page(1)) + 30)) + second + third,
                 ["wrong_length", "page 3"]),
        "large": (arc_record(page(1), url(1), length=b"9" * 12) + second, ["truncated_record"]),
        "empty": (b"", []),
    }  # fmt: skip
    for name, (data, expected) in cases.items():
        assert rules(tmp_path, f"{name}.arc", data) == expected, name
    members = [gzip.compress(part) for part in (first, second, third)]
    broken = bytearray(b"".join(members))
    broken[len(members[0]) + 30] ^= 0xFF
    assert rules(tmp_path, "broken.arc.gz", bytes(broken)) == ["page 1", "broken_compression", "page 3"]
    short = gzip.compress(second[:-40])
    assert rules(tmp_path, "a.arc.gz", members[0] + short + members[2]) == ["page 1", "truncated_record", "page 3"]


def test_members_may_end_anywhere(tmp_path: Path) -> None:
    """As bgzip writes them: a member is a block of bytes, not a record."""
    data = description() + b"".join(arc_record(page(number), url(number)) for number in range(6))
    expected = read(tmp_path, "a.arc", data)
    for step in (50, 333, 1000):
        blocks = [gzip.compress(data[start : start + step]) for start in range(0, len(data), step)]
        assert read(tmp_path, "a.arc.gz", b"".join(blocks)) == expected


def test_pieces_of_any_size_give_the_same_bytes() -> None:
    chance = Random(4)
    data = description() + b"".join(arc_record(page(number), url(number)) for number in range(4))
    data = data[:700] + b"junk\n" + data[700:] + arc_record(b"x" * 10, length=b"4") + b"rest"
    whole = b"".join(as_warc(iter([data]), True))
    for _ in range(200):
        cuts = sorted(chance.randrange(len(data)) for _ in range(chance.choice([1, 3, 40])))
        parts = [data[start:end] for start, end in itertools.pairwise([0, *cuts, len(data)])]
        assert b"".join(as_warc(iter(parts), True)) == whole


def test_other_files_are_unchanged() -> None:
    data = warc([1, 2])
    assert list(as_warc(pieces(io.BytesIO(data)), False)) == list(pieces(io.BytesIO(data)))
    assert b"".join(as_warc(iter([description()]), False)).startswith(b"WARC/1.0\r\nWARC-Type: warcinfo\r\n")
    assert list(as_warc(iter([]), False)) in ([], [b""])
