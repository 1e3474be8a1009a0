"""HTML elements: their numbers, and what the HTML standard says of them.

    "Div"  ── lower_hash ──> 62-bit number ── HASHES ──> DIV ── RULES[DIV] ──> BLOCK | SPECIAL | CLOSES_P | …

Source: WHATWG HTML, sections 13.1.2 (kinds of elements), 13.2.4.2 (the stack of open elements), 13.2.6 (tree
construction) and 15.3 (rendering).
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.hashes import hash_table

BLOCK = 1
"""Begins and ends a block of text."""
VOID = 2
"""Has no content."""
RAW = 4
"""Its content is raw text that no reader sees."""
CHARACTERS = 8
"""Its content is text without tags."""
FORMATTING = 16
"""Its end tag closes no other element (the adoption agency algorithm)."""
SPECIAL = 32
"""An end tag of another, unknown element does not close it."""
SCOPE = 64
"""Ends the search for an open element."""
CLOSES_P = 128
"""Its start tag closes an open p."""
IMPLIED_END = 256
"""Closed by the end of the element around it."""
BREAKS_OUT = 512
"""Its start tag ends SVG and MathML."""
TABLE_PART = 1024
"""Belongs to the structure of a table; anything else directly inside moves before the table."""
SILENT = 2048
"""No reader sees its text: readings of ruby, templates."""
MARKER = 4096
"""A link that is open does not go on inside."""
ENDED_BY_NAME = 8192
"""Its end tag closes all elements inside it, if it is in scope."""

_KINDS = {
    BLOCK: "address article aside blockquote button caption center dd details dialog dir div dl dt fieldset figcaption"
    " figure footer form frameset h1 h2 h3 h4 h5 h6 header hgroup hr legend li listing main marquee menu nav optgroup"
    " option ol p plaintext pre search section select summary table tbody td textarea tfoot th thead tr ul xmp body"
    " html head title noframes",
    VOID: "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr",
    RAW: "iframe noembed noframes script style",
    CHARACTERS: "plaintext textarea title xmp",
    FORMATTING: "a b big code em font i nobr s small strike strong tt u",
    SPECIAL: "address applet area article aside base basefont bgsound blockquote body br button caption center col"
    " colgroup dd details dir div dl dt embed fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6"
    " head header hgroup hr html iframe img input keygen li link listing main marquee menu meta nav noembed noframes"
    " noscript object ol p param plaintext pre script search section select source style summary table tbody td"
    " template textarea tfoot th thead title tr track ul wbr xmp",
    SCOPE: "applet caption html marquee object table td template th",
    CLOSES_P: "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure"
    " footer form h1 h2 h3 h4 h5 h6 header hgroup hr li listing main menu nav ol p plaintext pre search section"
    " summary table ul xmp",
    IMPLIED_END: "dd dt li optgroup option p rb rp rt rtc",
    BREAKS_OUT: "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing"
    " menu meta nobr ol p pre ruby s small span strike strong sub sup table tt u ul var",
    TABLE_PART: "table tbody tfoot thead tr",
    SILENT: "rp rt rtc template",
    MARKER: "applet caption marquee object td template th",
    ENDED_BY_NAME: "address applet article aside blockquote button center dd details dialog dir div dl dt fieldset"
    " figcaption figure footer header hgroup li listing main marquee menu nav object ol pre search section summary"
    " caption table tbody td tfoot th thead tr ul",
}
_OTHERS = (
    "abbr acronym audio bdi bdo blink canvas cite colgroup data datalist del dfn ins kbd label map mark math meter"
    " noscript object output picture progress q rb ruby samp slot span sub sup svg time var video"
    " annotation annotation-xml desc foreignobject mi mn mo ms mtext"
)
_MATHML = (
    "maction menclose merror mfenced mfrac mlabeledtr mmultiscripts mover mpadded mphantom mprescripts mroot mrow"
    " mspace msqrt mstyle msub msubsup msup mtable mtd mtr munder munderover none semantics"
)
"""Elements that only the notation of formulas needs: their names are words of the page, like those without a number."""
_HTML = sorted({name for kind in (*_KINDS.values(), _OTHERS) for name in kind.split()})
FIRST_MATHML = len(_HTML) + 1
NAMES = ("", *_HTML, *_MATHML.split())
"""The names of elements that have a number, which is their index here. 0 is every other name."""
NUMBER = {name: number for number, name in enumerate(NAMES)}


def numbers(names: str) -> tuple[int, ...]:
    """Returns the numbers of the elements ``names``, which spaces separate."""
    return tuple(NUMBER[name] for name in names.split())


RULES: NDArray[np.int64] = np.array(
    [sum(rule for rule, kind in _KINDS.items() if name and name in kind.split()) for name in NAMES], np.int64
)
"""The rules of each element, by its number."""
MATH_TEXT = numbers("mi mn mo ms mtext")
"""MathML elements in which HTML stands (text integration points)."""

HASHES, NUMBERS = hash_table({name.encode(): number for number, name in enumerate(NAMES) if name}, 1024)
"""Numbers of elements by the hash of their name in lower case."""
