"""The union of all filters: what an entry of ``cleaning.filters`` may be."""

from typing import Annotated

from pydantic import Field

from data_prep.filters.bad_words import BadWords
from data_prep.filters.c4 import C4Lines
from data_prep.filters.datatrove_filter import DatatroveFilter
from data_prep.filters.gopher_quality import GopherQuality
from data_prep.filters.gopher_repetition import GopherRepetition
from data_prep.filters.language import Language
from data_prep.filters.length import PageLength
from data_prep.filters.unique import UniqueLines, UniqueSpans
from data_prep.filters.urls import OnePagePerUrl

AnyFilter = Annotated[
    PageLength
    | OnePagePerUrl
    | C4Lines
    | UniqueLines
    | UniqueSpans
    | Language
    | BadWords
    | GopherQuality
    | GopherRepetition
    | DatatroveFilter,
    Field(discriminator="type"),
]
