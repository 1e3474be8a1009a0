"""Start tags: what they close, and what they open.

Source: WHATWG HTML, section 13.2.6.4 (the rules for parsing tokens in HTML content) and 13.2.6.5 (in foreign content).
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.elements import (
    BLOCK,
    BREAKS_OUT,
    CLOSES_P,
    MATH_TEXT,
    RULES,
    SPECIAL,
    TABLE_PART,
    VOID,
    numbers,
)
from headrace.data_prep.extraction.parsing.end_tags import without_formatting
from headrace.data_prep.extraction.parsing.open_elements import (
    depth_for_part,
    is_foreign,
    is_part_of_table,
    level_in_scope,
    name_at,
    without,
    without_implied,
    without_p,
)
from headrace.data_prep.extraction.parsing.scan import (
    DEPTH,
    FORM,
    HTML,
    IN_LINK,
    INTEGRATION,
    IS_SILENT,
    IS_XML,
    MATHML,
    NAME,
    NAMESPACE,
    SVG,
    Scan,
)
from headrace.data_prep.extraction.parsing.tag import (
    ATTRIBUTES,
    BREAKS_LINE,
    CUTS,
    FONT_STYLE,
    HAS_HREF,
    HTML_ANNOTATION,
    IS_SELF_CLOSED,
    KEEP,
    OPENS,
    OPENS_IN,
    OPENS_ROW,
    TAG_HASH,
    TAG_NAME,
)
from headrace.data_prep.kernel import kernel_in_place

(
    A, ADDRESS, ANNOTATION_XML, BODY, BR, BUTTON, COL, COLGROUP, DD, DESC, DIV, DT, FONT, FOREIGN_OBJECT, FORM_NAME,
    FRAME, FRAMESET, H1, H6, HEAD, HTML_NAME, INPUT, LI, MATH, NOBR, OPTGROUP, OPTION, P, RB, RP, RT, RTC, RUBY, SELECT,
    SVG_NAME, TD, TH, TITLE, TR,
) = numbers(
    "a address annotation-xml body br button col colgroup dd desc div dt font foreignobject form"
    " frame frameset h1 h6 head html input li math nobr optgroup option p rb rp rt rtc ruby select"
    " svg td th title tr"
)  # fmt: skip


@kernel_in_place
def start(scan: Scan, tag: NDArray[np.int64]) -> None:
    """Decides what a start tag closes and opens."""
    registers, name, depth = scan.registers, tag[TAG_NAME], scan.registers[DEPTH]
    rules = RULES[name]
    if is_foreign(scan, depth):
        breaks_out = rules & BREAKS_OUT or (name == FONT and tag[ATTRIBUTES] & FONT_STYLE)
        if not breaks_out and not _is_math_text(scan, depth):
            tag[OPENS_IN] = _foreign_namespace(scan, depth, tag)
            tag[OPENS] = not tag[IS_SELF_CLOSED] or tag[OPENS_IN] == MATHML
            return
        while is_foreign(scan, depth) and not _is_math_text(scan, depth):
            depth -= 1
    tag[KEEP] = depth
    if name in (SVG_NAME, MATH):
        tag[OPENS], tag[OPENS_IN] = not tag[IS_SELF_CLOSED], SVG if name == SVG_NAME else MATHML
    elif registers[IS_XML] and tag[IS_SELF_CLOSED] and not rules & VOID:
        tag[CUTS] = rules & BLOCK != 0
    elif name in (HTML_NAME, HEAD, BODY, FRAME, FRAMESET):
        tag[CUTS] = not scan.stack[depth - 1, IS_SILENT]
    elif rules & TABLE_PART or is_part_of_table(name, rules) or name == COL:
        part_depth = depth_for_part(scan, depth, name)
        if part_depth > 0:
            tag[KEEP], tag[OPENS] = part_depth, name not in (COL, COLGROUP)
            tag[OPENS_ROW] = name in (TD, TH) and name_at(scan, part_depth - 1) != TR
    else:
        _start_other(scan, depth, tag)


@kernel_in_place
def _is_math_text(scan: Scan, depth: int) -> bool:
    """Whether the innermost element is one of MathML in which HTML stands."""
    return scan.stack[depth - 1, NAMESPACE] == MATHML and scan.stack[depth - 1, NAME] in MATH_TEXT


@kernel_in_place
def _foreign_namespace(scan: Scan, depth: int, tag: NDArray[np.int64]) -> int:
    """Returns the namespace of the content of an element in SVG or MathML."""
    namespace, name = scan.stack[depth - 1, NAMESPACE], tag[TAG_NAME]
    if namespace == SVG:
        return INTEGRATION if name in (FOREIGN_OBJECT, DESC, TITLE) else SVG
    if name == SVG_NAME:
        return SVG
    return INTEGRATION if name == ANNOTATION_XML and tag[ATTRIBUTES] & HTML_ANNOTATION else MATHML


@kernel_in_place
def _start_other(scan: Scan, depth: int, tag: NDArray[np.int64]) -> None:
    """Decides for an HTML element that is no part of a table."""
    registers, name = scan.registers, tag[TAG_NAME]
    rules = RULES[name]
    if rules & CLOSES_P:
        depth = without_p(scan, depth)
    is_ignored = False
    if H1 <= name <= H6:
        depth -= H1 <= name_at(scan, depth - 1) <= H6
    elif name in (LI, DD, DT):
        depth = without_p(scan, _without_item(scan, depth, name))
    elif name == BUTTON:
        depth = without(scan, depth, BUTTON, 0)
    elif name in (OPTION, OPTGROUP):
        while name_at(scan, depth - 1) == OPTION or (name == OPTGROUP and name_at(scan, depth - 1) == OPTGROUP):
            depth -= 1
    elif name in (RB, RTC, RT, RP):
        if level_in_scope(scan, depth, RUBY, 0):
            depth = without_implied(scan, depth, RTC if name in (RT, RP) else 0)
    elif name == FORM_NAME:
        is_ignored = registers[FORM] != 0
        registers[FORM] = registers[FORM] or depth
    elif name in (SELECT, INPUT):
        keep = without(scan, depth, SELECT, 0)
        is_ignored, depth = name == SELECT and keep < depth, keep
    elif name in (A, NOBR):
        keep = without_formatting(scan, depth, tag[TAG_HASH])
        depth = keep if keep > 0 else depth
        if name == A:
            registers[IN_LINK] = tag[ATTRIBUTES] & HAS_HREF != 0
    tag[KEEP] = depth
    if rules & VOID:
        tag[BREAKS_LINE] = name == BR
        tag[CUTS] = rules & BLOCK != 0
    else:
        tag[OPENS], tag[OPENS_IN] = not is_ignored, HTML


@kernel_in_place
def _without_item(scan: Scan, depth: int, name: int) -> int:
    """Returns the depth without the open list item, term or description that a new one ends."""
    level = depth - 1
    while level > 0:
        open_name = name_at(scan, level)
        if (name == LI and open_name == LI) or (name != LI and open_name in (DD, DT)):
            return level
        if scan.stack[level, NAMESPACE] != HTML:
            break
        if open_name > 0 and RULES[open_name] & SPECIAL and open_name not in (ADDRESS, DIV, P):
            break
        level -= 1
    return depth
