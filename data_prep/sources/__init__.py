"""The table of sources."""

from typing import Annotated

from headrace.data_prep.sources.source import Source
from headrace.pipeline.core.kinds import Kinds

SOURCES = Kinds(
    "source",
    Source,
    {
        "arrow": "headrace.data_prep.sources.tables:Arrow",
        "html": "headrace.data_prep.sources.html:Html",
        "jsonl": "headrace.data_prep.sources.jsonl:Jsonl",
        "parquet": "headrace.data_prep.sources.tables:Parquet",
        "warc": "headrace.data_prep.sources.warc:Warc",
    },
)
AnySource = Annotated[Source, SOURCES]
