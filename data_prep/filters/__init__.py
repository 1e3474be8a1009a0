"""The union of all filters: what an entry of ``cleaning.filters`` may be."""

from typing import Annotated

from pydantic import Field

from data_prep.filters.bad_words import BadWords
from data_prep.filters.c4 import C4Lines
from data_prep.filters.datatrove_filter import DatatroveFilter
from data_prep.filters.domains import AllowedDomains, AllowedUrls, BlockedDomains
from data_prep.filters.fasttext_classifier import FasttextClassifier
from data_prep.filters.fineweb_quality import FineWebQuality
from data_prep.filters.gopher_quality import GopherQuality
from data_prep.filters.gopher_repetition import GopherRepetition
from data_prep.filters.language import Language
from data_prep.filters.language_fasttext import LanguageFasttext
from data_prep.filters.length import PageLength, StrippedLines
from data_prep.filters.line_corrections import LineCorrections
from data_prep.filters.long_lines import LongLines
from data_prep.filters.pii import MaskPii
from data_prep.filters.unique import UniqueLines, UniqueSpans
from data_prep.filters.urls import C4Split, OnePagePerUrl
from data_prep.filters.web_addresses import WithoutAddresses

AnyFilter = Annotated[
    StrippedLines
    | PageLength
    | OnePagePerUrl
    | AllowedDomains
    | AllowedUrls
    | BlockedDomains
    | WithoutAddresses
    | LongLines
    | C4Lines
    | UniqueLines
    | UniqueSpans
    | Language
    | LanguageFasttext
    | BadWords
    | C4Split
    | GopherQuality
    | GopherRepetition
    | FineWebQuality
    | LineCorrections
    | FasttextClassifier
    | MaskPii
    | DatatroveFilter,
    Field(discriminator="type"),
]
