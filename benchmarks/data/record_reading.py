"""Measures how fast WARC records are read on one core. Prints one JSON line.

    python -m benchmarks.data.record_reading FILES.warc.gz… [--runs 3]        e.g. the files of shared/data/make_warc.py

Candidates take turns, each in a process of its own; figures are per second of CPU time, one a run: records, and MB of
decompressed records.

    headrace records          cut into records, damage survived and counted (data_prep/sources/warc.py)
    headrace payloads         the same, and HTTP parsed, its encodings undone, page bytes
    datatrove WarcReader      datatrove's own reader: warcio, charset detection, no HTML extraction
    fastwarc                  ArchiveIterator with HTTP parsed and payload read
    headrace documents        source=warc as the stage texts reads it: charset and text by resiliparse, isolated

Needs the packages of datatrove's reader: pip install warcio python-magic faust-cchardet.
"""

import argparse
import io
import itertools
import json
import multiprocessing
import os
import resource
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable

from datatrove.pipeline.readers import WarcReader
from fastwarc.warc import ArchiveIterator

from headrace.data_prep.sources.damaged_files import pieces
from headrace.data_prep.sources.warc import Warc, warc_records
from headrace.data_prep.sources.warc_payload import parse, payload

LIMIT_BYTES = 20_000_000


def records(path: str) -> int:
    with open(path, "rb") as stream:
        return sum(1 for _ in warc_records(pieces(stream), LIMIT_BYTES))


def payloads(path: str) -> int:
    number = 0
    with open(path, "rb") as stream:
        for record in warc_records(pieces(stream), LIMIT_BYTES):
            payload(parse(record.data), LIMIT_BYTES)
            number += 1
    return number


def documents(path: str) -> int:
    return sum(1 for _ in Warc(paths=(path,)).read(path))


def fastwarc(path: str) -> int:
    number = 0
    with open(path, "rb") as stream:
        for record in ArchiveIterator(io.BufferedReader(stream), parse_http=True):
            record.reader.read()
            number += 1
    return number


def datatrove(path: str) -> int:
    reader = WarcReader(os.path.dirname(path), glob_pattern=os.path.basename(path), doc_progress=False)
    return sum(1 for _ in reader.run())


CANDIDATES: dict[str, Callable[[str], int]] = {
    "headrace records": records,
    "headrace payloads": payloads,
    "fastwarc": fastwarc,
    "datatrove WarcReader": datatrove,
    "headrace documents": documents,
}


def timed(name: str, paths: list[str]) -> tuple[int, float]:
    """Records read, and the CPU seconds of the process and those below it."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("fork")
    process = context.Process(target=lambda: theirs.send(sum(map(CANDIDATES[name], paths))))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process.start()
    theirs.close()
    number = ours.recv()
    process.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return number, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def size(path: str) -> int:
    with open(path, "rb") as stream:
        return sum(len(piece) for piece in pieces(stream) if isinstance(piece, bytes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    megabytes = sum(map(size, options.files)) / 1e6
    rates: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _, name in itertools.product(range(options.runs), CANDIDATES):
        number, seconds = timed(name, options.files)
        rates[name]["records"] = [number]
        rates[name]["records_per_second"].append(round(number / seconds, 1))
        rates[name]["mb_per_second"].append(round(megabytes / seconds, 1))
    for name, row in rates.items():
        print(f"| {name} | {row['records'][0]} | {statistics.median(row['records_per_second'])} | "
              f"{statistics.median(row['mb_per_second'])} |", file=sys.stderr)  # fmt: skip
    print(json.dumps({"benchmark": "record_reading", "megabytes": round(megabytes, 1), "found": rates}))


if __name__ == "__main__":
    main()
