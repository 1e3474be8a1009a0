"""datatrove's script of FineWeb (its examples/fineweb.py, version 0.10.1) with the blocks of Headrace, and as it is.

    python examples/fineweb.py "crawl/*.warc.gz" clean              a folder of JSON lines
    python examples/fineweb.py "pages/*.jsonl" clean                pages in JSON lines, HTML in the field text
    python examples/fineweb.py "crawl/*.warc.gz" clean --original   datatrove's steps, with what they need

The rules decide alike, which tests/data_prep/filters/test_page_statistics.py proves. The texts of pages differ, because
another extractor reads them. datatrove carries lists of blocked domains, Headrace none. Deduplication goes on as in the
original: ``headrace.datatrove.Signature``, then MinhashDedupBuckets, MinhashDedupCluster and MinhashDedupFilter.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline import extractors, filters
from datatrove.pipeline.formatters import PIIFormatter
from datatrove.pipeline.readers import JsonlReader, WarcReader
from datatrove.pipeline.writers import JsonlWriter

import headrace.datatrove

Writer = Callable[[str], Any]
"""A folder's name → what writes the documents that a step drops there."""


def original_rules(writer: Writer) -> list[Any]:
    """The rules on texts of datatrove's script."""
    return [
        filters.GopherRepetitionFilter(exclusion_writer=writer("gopher_repetition")),
        filters.GopherQualityFilter(exclusion_writer=writer("gopher_quality")),
        filters.C4QualityFilter(filter_no_terminal_punct=False, exclusion_writer=writer("c4_quality")),
        filters.FineWebQualityFilter(exclusion_writer=writer("fineweb_quality")),
    ]


def original(writer: Writer) -> list[Any]:
    """datatrove's steps between the reader and the writer."""
    return [
        filters.URLFilter(exclusion_writer=writer("url")),
        extractors.Trafilatura(favour_precision=True, timeout=1),
        filters.LanguageFilter(exclusion_writer=writer("language")),
        *original_rules(writer),
        PIIFormatter(),
    ]


def ours(writer: Writer) -> list[Any]:
    """The same steps: a preset has the rules, and masks personal data last."""
    return [headrace.datatrove.Text(writer("no_text")), headrace.datatrove.Clean("fineweb", writer("dropped"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("crawl", type=Path, help="a file, or a pattern of files")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--original", action="store_true")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    steps = (original if options.original else ours)(lambda name: JsonlWriter(f"{options.folder}/removed/{name}"))
    readers = JsonlReader if ".jsonl" in options.crawl.name else WarcReader
    reader = readers(str(options.crawl.parent), glob_pattern=options.crawl.name)
    files = len(list(options.crawl.parent.glob(options.crawl.name)))
    LocalPipelineExecutor(
        [reader, *steps, JsonlWriter(f"{options.folder}/output")],
        tasks=max(1, files),
        workers=options.workers,
        logging_dir=f"{options.folder}/logs",
    ).run()


if __name__ == "__main__":
    main()
