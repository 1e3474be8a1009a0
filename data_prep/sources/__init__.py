"""The union of all sources, distinguished by ``type``."""

from typing import Annotated

from pydantic import Field

from headrace.data_prep.sources.html import Html
from headrace.data_prep.sources.installed_docs import InstalledDocs
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.synthetic import Synthetic
from headrace.data_prep.sources.table_sources import Arrow, Parquet
from headrace.data_prep.sources.token_files import TokenFiles
from headrace.data_prep.sources.warc import Warc

AnySource = Annotated[
    Arrow | Html | InstalledDocs | Jsonl | Parquet | Synthetic | TokenFiles | Warc,
    Field(discriminator="type"),
]
