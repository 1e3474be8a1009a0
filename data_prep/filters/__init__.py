"""The table of filters, which are the possible entries of ``cleaning.filters``."""

from typing import Annotated

from headrace.data_prep.filters.filter import Filter, GlobalFilter
from headrace.pipeline.core.kinds import Kinds

FILTERS = Kinds(
    "filter",
    Filter | GlobalFilter,
    {
        "stripped_lines": "headrace.data_prep.filters.c4.lines:StrippedLines",
        "page_length": "headrace.data_prep.filters.c4.lines:PageLength",
        "one_page_per_url": "headrace.data_prep.filters.urls:OnePagePerUrl",
        "allowed_domains": "headrace.data_prep.filters.urls:AllowedDomains",
        "blocked_domains": "headrace.data_prep.filters.urls:BlockedDomains",
        "without_addresses": "headrace.data_prep.filters.line_corrections:WithoutAddresses",
        "robots": "headrace.data_prep.filters.robots_and_licence:Robots",
        "licence": "headrace.data_prep.filters.robots_and_licence:Licence",
        "long_lines": "headrace.data_prep.filters.c4.lines:LongLines",
        "c4_lines": "headrace.data_prep.filters.c4.lines:C4Lines",
        "unique_lines": "headrace.data_prep.filters.unique_text:UniqueLines",
        "unique_spans": "headrace.data_prep.filters.unique_text:UniqueSpans",
        "language": "headrace.data_prep.filters.language.identification:Language",
        "language_fasttext": "headrace.data_prep.filters.language.identification:LanguageFasttext",
        "by_language": "headrace.data_prep.filters.language.by_language:ByLanguage",
        "bad_words": "headrace.data_prep.filters.c4.bad_words:BadWords",
        "gopher_quality": "headrace.data_prep.filters.quality_rules:GopherQuality",
        "gopher_repetition": "headrace.data_prep.filters.quality_rules:GopherRepetition",
        "fineweb_quality": "headrace.data_prep.filters.quality_rules:FineWebQuality",
        "line_corrections": "headrace.data_prep.filters.line_corrections:LineCorrections",
        "fasttext_classifier": "headrace.data_prep.filters.text_classifiers:FasttextClassifier",
        "linear_classifier": "headrace.data_prep.filters.text_classifiers:LinearClassifierFilter",
        "pii": "headrace.data_prep.filters.pii:MaskPii",
        "datatrove": "headrace.data_prep.filters.datatrove_filter:DatatroveFilter",
        "python": "headrace.data_prep.filters.python_filter:PythonFilter",
    },
    adapter="python",
)
AnyFilter = Annotated[Filter | GlobalFilter, FILTERS]
