"""Archives are refused by what they hold, under any name, at each door that reads records or lists."""

import bz2
import gzip
import lzma
from pathlib import Path

import pytest
import zstandard

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import read_text as list_text
from headrace.data_prep.packed import forgotten_ids
from headrace.data_prep.sources.damaged_files import Mark
from headrace.data_prep.sources.html import Html
from headrace.data_prep.sources.jsonl import Jsonl, TextLines
from headrace.data_prep.sources.source import Section
from headrace.data_prep.sources.tables import Arrow, Parquet
from headrace.data_prep.sources.warc import Warc
from headrace.data_prep.tokenization.given_tokenizer import read_text as tokenizer_text
from headrace.pipeline.command_line.model_options import file_lines
from headrace.pipeline.core.compression import with_head
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.train.evaluation.file_records import benchmark_records, records
from headrace.train.evaluation.file_records import read_text as benchmark_text
from tests.pipeline.core.test_text_files import BEGINNINGS, tarred

ARCHIVES = ["zip", "tar ustar", "tar gnu", "tar pax"]
COMPRESS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
ONE_MARK = (Jsonl, TextLines, Html, Warc)


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("source", [Jsonl, TextLines, Html, Warc, Parquet, Arrow])
@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_one_record_that_is_dropped(tmp_path, name, suffix, source):
    path = written(tmp_path, f"a{source(paths=('a',)).suffixes()[0]}{suffix}", COMPRESS[suffix](BEGINNINGS[name]))
    reader = source(paths=(str(path),))
    [(_, drop)] = reader.read(path.name)
    what = Mark.UNREAD if name == "zip" else Mark.TAR
    assert drop == Drop("broken_compression", what.value) if source in ONE_MARK else drop.rule == "broken_file"
    if source is not TextLines:  # a command that learns counts what it leaves out
        with pytest.raises(ConfigError, match="unpack it" if source in ONE_MARK else "another format"):
            reader.check([path.name])


@pytest.mark.parametrize("suffix", COMPRESS)
def test_one_archive_among_good_files_is_refused(tmp_path, suffix):
    for name in "ac":
        written(tmp_path, f"{name}.jsonl", b'{"text": "a"}\n' * 20)
    path = written(tmp_path, f"b.jsonl{suffix}", COMPRESS[suffix](tarred()))
    source = Jsonl(paths=(str(tmp_path),))
    with pytest.raises(ConfigError) as refused:
        source.check([file.name for file in source.listing()])
    assert str(refused.value) == f"source.paths: {path} is an archive of files (tar); unpack it"


def test_a_large_archive_is_one_record_of_all_its_sections(tmp_path):
    path = written(tmp_path, "a.jsonl", tarred(0, b'{"text": "a"}\n' * 5000))
    source = Jsonl(paths=(str(path),), section_bytes=20_000)
    size = path.stat().st_size
    read = [record for n in range(3) for record in source.read_section(Section(path.name, size, n, 3), 0)]
    assert [drop.rule for _, drop in read] == ["broken_compression"]


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz", ".txz"])
def test_a_search_names_the_archives_that_it_leaves_out(tmp_path, suffix):
    written(tmp_path, "a.jsonl", b"{}")
    path = written(tmp_path, f"b{suffix}", b"")
    assert Jsonl(paths=(str(tmp_path),)).left_out == f"1 with the suffix {suffix} ({path})"


def test_an_arc_file_names_the_program_that_converts_it(tmp_path):
    description = b"filedesc://a.arc 0.0.0.0 20090102030405 text/plain 8\n1 0 IA\n\n"
    page = b"http://x.org/ 1.2.3.4 20090102030405 text/html 2\nOK\n"
    path = written(tmp_path, "a.warc.gz", gzip.compress(description) + gzip.compress(page))
    with pytest.raises(ConfigError) as refused:
        Warc(paths=(str(path),)).check([path.name])
    remedy = "convert it with warcio (warcio recompress OLD.arc.gz NEW.warc.gz)"
    assert str(refused.value) == f"source.paths: {path} is an ARC file; {remedy}"
    path.rename(tmp_path / "a.arc.gz")
    with pytest.raises(ConfigError, match=r"but 1 with the suffix \.arc\.gz; convert it with warcio"):
        Warc(paths=(str(tmp_path),)).listing()


def test_many_small_pieces_are_not_held():
    taken = iter(range(10_000))
    head, pieces = with_head(b"x" for _ in taken)
    assert (head, next(taken)) == (b"x" * 512, 512)
    head, pieces = with_head(b"" for _ in taken)
    assert (head, next(taken), next(pieces)) == (b"", 1025, b"")


DOORS = {
    "records of a benchmark": lambda path: benchmark_records([path]),
    "text of a benchmark": benchmark_text,
    "examples to learn from": lambda path: list(records(path)),
    "a list of a filter": list_text,
    "a file of a tokenizer": lambda path: tokenizer_text(str(path)),
    "ids that packing forgets": lambda path: forgotten_ids(str(path)),
    "ids to forget": lambda path: list(file_lines(path, "--ids", "id")),
    "prompts": lambda path: file_lines(path, "--file", "text"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ARCHIVES[1:])
def test_a_list_or_a_file_of_records_is_refused(tmp_path, name, door):
    with pytest.raises((ArtifactError, ConfigError), match=r"a format that is not read \(tar\); unpack it"):
        DOORS[door](written(tmp_path, "a.jsonl", BEGINNINGS[name]))
