"""Tags that state facts of the page (page_fact_names.py).

<meta property="og:title" content="Mills"> ──> fact "og:title": the bytes of "Mills"
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.elements import numbers
from headrace.data_prep.extraction.parsing.hashes import (
    begins_with,
    hash_table,
    is_letter,
    is_space,
    lower_hash,
    name_hash,
    number_of,
)
from headrace.data_prep.extraction.parsing.page_fact_names import (
    AGENT,
    CC_LINK,
    DIRECTIVES,
    JSON_LD,
    KIND,
    NAMES,
    SUBJECT,
)
from headrace.data_prep.extraction.parsing.page_fact_names import TYPE as TYPE_OF_SUBJECT
from headrace.data_prep.extraction.parsing.scan import (
    DEPTH,
    ELEMENT,
    ELEMENTS,
    FACT_ELEMENT,
    FACT_END,
    FACT_KIND,
    FACT_START,
    FACTS,
    Scan,
)
from headrace.data_prep.extraction.parsing.tag import (
    CONTENT_END,
    CONTENT_START,
    KEY,
    TAG_NAME,
    VALUE_END,
    VALUE_START,
)
from headrace.data_prep.kernel import kernel_in_place

ITEMPROP, HREF, TYPE = map(name_hash, (b"itemprop", b"href", b"type"))
NAME_NAME, PROPERTY, HTTP_EQUIV, CONTENT = map(name_hash, (b"name", b"property", b"http-equiv", b"content"))
REL, LANG, DATETIME = map(name_hash, (b"rel", b"lang", b"datetime"))
FACT_ELEMENTS = numbers("a html link meta script time")
"""Elements whose tags state facts."""
A, HTML_NAME, LINK, META, SCRIPT, TIME = FACT_ELEMENTS

KIND_HASHES, KIND_NUMBERS = hash_table({name.encode(): number for name, number in KIND.items()}, 256)
LANG_KIND, DATETIME_KIND, JSON_LD_KIND, CC_KIND = (KIND[name] for name in ("lang", "datetime", JSON_LD, CC_LINK))
AGENT_KIND, TYPE_KIND, SUBJECT_KIND = KIND[AGENT], KIND[TYPE_OF_SUBJECT], KIND[SUBJECT]
LICENCE_KIND = KIND[NAMES["licence"][0]]
"""The first kind of licences; the others follow, up to CC_KIND."""
DIRECTIVE_HASHES, DIRECTIVE_NUMBERS = hash_table({name.encode(): 1 for name in DIRECTIVES}, 64)


@kernel_in_place
def understand_fact(scan: Scan, name: int, tag: NDArray[np.int64]) -> None:
    """Notes which fact the tag states, or what it says of it."""
    page, start, end, element = scan.page, tag[VALUE_START], tag[VALUE_END], tag[TAG_NAME]
    is_value = False
    if element == META:
        is_value = name == CONTENT
        if name in (NAME_NAME, PROPERTY, HTTP_EQUIV, ITEMPROP) and tag[KEY] in (0, AGENT_KIND):
            tag[KEY] = number_of(lower_hash(page, start, end), KIND_HASHES, KIND_NUMBERS) or tag[KEY]
        elif is_value and not tag[KEY] and _begins_with_directive(page, start, end):
            tag[KEY] = AGENT_KIND
    elif element == HTML_NAME:
        is_value = name == LANG
        if is_value:
            tag[KEY] = LANG_KIND
    elif element == TIME:
        is_value = name == DATETIME
        if name == ITEMPROP:
            tag[KEY] = number_of(lower_hash(page, start, end), KIND_HASHES, KIND_NUMBERS)
        elif is_value and not tag[KEY]:
            tag[KEY] = DATETIME_KIND
    elif element == SCRIPT:
        if name == TYPE and begins_with(page, start, b"application/ld+json"):
            tag[KEY] = JSON_LD_KIND
    elif name == REL:
        tag[KEY] = _first_kind(page, start, end) or tag[KEY]
    elif name in (ITEMPROP, PROPERTY):
        kind = _first_kind(page, start, end)
        tag[KEY] = kind if LICENCE_KIND <= kind <= CC_KIND else tag[KEY]
    elif name == HREF:
        is_value = True
        if element == A and not tag[KEY] and _is_cc_licence(page, start, end):
            tag[KEY] = CC_KIND
    if is_value:
        tag[CONTENT_START], tag[CONTENT_END] = start, end


@kernel_in_place
def _first_kind(page: NDArray[np.uint8], start: int, end: int) -> int:
    """Returns the first of the words that is a kind of fact; 0 if none is."""
    word = start
    for at in range(start, end + 1):
        if at == end or is_space(page[at]):
            kind = number_of(lower_hash(page, word, at), KIND_HASHES, KIND_NUMBERS)
            if kind > 0:
                return kind
            word = at + 1
    return 0


@kernel_in_place
def _begins_with_directive(page: NDArray[np.uint8], start: int, end: int) -> bool:
    """Whether the first word is a directive for robots."""
    while start < end and is_space(page[start]):
        start += 1
    word = start
    while word < end and (is_letter(page[word]) or page[word] == 0x2D or page[word] == 0x5F):
        word += 1
    return number_of(lower_hash(page, start, word), DIRECTIVE_HASHES, DIRECTIVE_NUMBERS) > 0


@kernel_in_place
def _is_cc_licence(page: NDArray[np.uint8], start: int, end: int) -> bool:
    """Whether an address is that of a licence, or a dedication, of Creative Commons."""
    while start < end and page[start] != 0x2F:
        start += 1
    start += 2
    if begins_with(page, start, b"www."):
        start += 4
    return begins_with(page, start, b"creativecommons.org/licenses/") or begins_with(
        page, start, b"creativecommons.org/publicdomain/"
    )


@kernel_in_place
def note_fact(scan: Scan, kind: int, start: int, end: int) -> None:
    """Adds a fact of the page, which the bytes from ``start`` to ``end`` state."""
    number = min(scan.registers[FACTS], scan.records.shape[0] - 1)  # a tag may have many attributes
    scan.records[number, FACT_KIND] = kind
    scan.records[number, FACT_START], scan.records[number, FACT_END] = start, end
    scan.records[number, FACT_ELEMENT] = scan.stack[scan.registers[DEPTH] - 1, ELEMENT]
    scan.registers[FACTS] = number + 1


@kernel_in_place
def note_subject(scan: Scan, is_address: bool, start: int, end: int) -> None:
    """Notes the types, or the address, that microdata or RDFa in the element that comes next is about."""
    note_fact(scan, SUBJECT_KIND if is_address else TYPE_KIND, start, end)
    scan.records[scan.registers[FACTS] - 1, FACT_ELEMENT] = scan.registers[ELEMENTS]
