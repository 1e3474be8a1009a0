"""The union of all filters, which are the possible entries of ``cleaning.filters``."""

from typing import Annotated

from pydantic import Field

from headrace.data_prep.filters.c4.bad_words import BadWords
from headrace.data_prep.filters.c4.lines import C4Lines
from headrace.data_prep.filters.c4.page_length import LongLines, PageLength, StrippedLines
from headrace.data_prep.filters.datatrove_filter import DatatroveFilter
from headrace.data_prep.filters.domains import AllowedDomains, AllowedUrls, BlockedDomains
from headrace.data_prep.filters.fasttext_classifier import FasttextClassifier
from headrace.data_prep.filters.fineweb_quality import FineWebQuality
from headrace.data_prep.filters.gopher.quality import GopherQuality
from headrace.data_prep.filters.gopher.repetition import GopherRepetition
from headrace.data_prep.filters.language.by_language import ByLanguage
from headrace.data_prep.filters.language.fasttext_filter import LanguageFasttext
from headrace.data_prep.filters.language.langdetect_filter import Language
from headrace.data_prep.filters.line_corrections import LineCorrections
from headrace.data_prep.filters.linear_classifier_filter import LinearClassifierFilter
from headrace.data_prep.filters.pii import MaskPii
from headrace.data_prep.filters.python_filter import PythonFilter
from headrace.data_prep.filters.robots_and_licence import Licence, Robots
from headrace.data_prep.filters.unique_text import UniqueLines, UniqueParagraphs, UniqueSpans
from headrace.data_prep.filters.unwrapped_lines import UnwrappedLines
from headrace.data_prep.filters.urls import C4Split, OnePagePerUrl
from headrace.data_prep.filters.without_addresses import WithoutAddresses

AnyFilter = Annotated[
    StrippedLines
    | UnwrappedLines
    | PageLength
    | OnePagePerUrl
    | AllowedDomains
    | AllowedUrls
    | BlockedDomains
    | WithoutAddresses
    | Robots
    | Licence
    | LongLines
    | C4Lines
    | UniqueLines
    | UniqueSpans
    | UniqueParagraphs
    | Language
    | LanguageFasttext
    | ByLanguage
    | BadWords
    | C4Split
    | GopherQuality
    | GopherRepetition
    | FineWebQuality
    | LineCorrections
    | FasttextClassifier
    | LinearClassifierFilter
    | MaskPii
    | DatatroveFilter
    | PythonFilter,
    Field(discriminator="type"),
]
