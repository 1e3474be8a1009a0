"""End tags: what they close.

Source: WHATWG HTML, section 13.2.6.4 (the rules for parsing tokens in HTML content) and 13.2.6.5 (in foreign content).
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.elements import (
    ENDED_BY_NAME,
    FORMATTING,
    MARKER,
    RULES,
    SPECIAL,
    TABLE_PART,
    numbers,
)
from headrace.data_prep.extraction.parsing.open_elements import (
    is_foreign,
    is_part_of_table,
    name_at,
    without,
    without_implied,
)
from headrace.data_prep.extraction.parsing.scan import (
    DEPTH,
    FORM,
    HASH,
    HTML,
    IN_LINK,
    INTEGRATION,
    NAME,
    NAMESPACE,
    REMOVED,
    TABLE,
    Scan,
)
from headrace.data_prep.extraction.parsing.tag import BREAKS_LINE, CUTS, KEEP, TAG_HASH, TAG_NAME
from headrace.data_prep.kernel import kernel_in_place

(
    A, BR, BUTTON, FORM_NAME, H1, H6, LI, P, SELECT, TEMPLATE, HEAD, BODY, HTML_NAME,
) = numbers(
    "a br button form h1 h6 li p select template head body html"
)  # fmt: skip


@kernel_in_place
def end(scan: Scan, tag: NDArray[np.int64]) -> None:
    """Decides what an end tag closes."""
    depth, name, name_hash = scan.registers[DEPTH], tag[TAG_NAME], tag[TAG_HASH]
    if scan.stack[depth - 1, NAMESPACE] != HTML:
        if name in (BR, P):
            while is_foreign(scan, depth):
                depth -= 1
        else:
            tag[KEEP] = _without_foreign(scan, depth, name_hash)
            if tag[KEEP] > 0:
                return
    rules = RULES[name]
    if name == P:
        tag[CUTS] = 1
        depth = without(scan, depth, P, BUTTON)
    elif name == BR:
        tag[BREAKS_LINE] = 1
    elif rules & FORMATTING:
        if name == A:
            scan.registers[IN_LINK] = 0
        keep = without_formatting(scan, depth, name_hash)
        depth = keep if keep > 0 else _without_other(scan, depth, name_hash)
    elif name == FORM_NAME:
        depth = _without_form(scan, depth, tag)
    elif name == TEMPLATE:
        level = depth - 1
        while level > 0 and scan.stack[level, NAME] != TEMPLATE:
            level -= 1
        depth = level if level > 0 else depth
    elif H1 <= name <= H6:
        depth = without(scan, depth, H1, 0)
    elif name == SELECT or rules & ENDED_BY_NAME:
        is_part = rules & TABLE_PART or is_part_of_table(name, rules)
        depth = without(scan, depth, name, TABLE if is_part else LI if name == LI else 0)
    elif name not in (HTML_NAME, BODY, HEAD):
        depth = _without_other(scan, depth, name_hash)
    tag[KEEP] = depth


@kernel_in_place
def without_formatting(scan: Scan, depth: int, name_hash: int) -> int:
    """Returns the depth without the innermost formatting element of a name, and what is open inside it. If a special
    element is, only from there on. Returns 0 if there is none.

    Source: the adoption agency algorithm, without the copies that it makes.
    """
    level, last_special = depth - 1, 0
    while level > 0 and scan.stack[level, HASH] != name_hash:
        name = name_at(scan, level)
        if name > 0:
            if RULES[name] & MARKER:
                return 0
            if RULES[name] & SPECIAL and not last_special:
                last_special = level
        elif scan.stack[level, NAMESPACE] == INTEGRATION:
            return 0
        level -= 1
    if level > 0 and last_special:
        _remove(scan, level)
        return last_special + 1
    return level


@kernel_in_place
def _remove(scan: Scan, level: int) -> None:
    """Takes an element from the stack; those inside it stay open."""
    scan.stack[level, NAME] = REMOVED
    scan.stack[level, HASH] = 0


@kernel_in_place
def _without_form(scan: Scan, depth: int, tag: NDArray[np.int64]) -> int:
    """Returns the depth without the form, or removes it: elements that are open inside it stay open."""
    level = scan.registers[FORM]
    if level == 0 or without(scan, depth, FORM_NAME, 0) == depth:
        return depth
    tag[CUTS] = 1
    depth = without_implied(scan, depth, 0)
    scan.registers[FORM] = 0
    if level == depth - 1:
        return int(level)
    _remove(scan, level)
    return depth


@kernel_in_place
def _without_other(scan: Scan, depth: int, name_hash: int) -> int:
    level = depth - 1
    while level > 0:
        if scan.stack[level, HASH] == name_hash and scan.stack[level, NAMESPACE] == HTML:
            return level
        name = scan.stack[level, NAME]
        if scan.stack[level, NAMESPACE] != HTML or (name > 0 and RULES[name] & SPECIAL):
            return depth
        level -= 1
    return depth


@kernel_in_place
def _without_foreign(scan: Scan, depth: int, name_hash: int) -> int:
    """Returns the depth without the foreign element of a name. Returns 0 if HTML's rules decide."""
    level = depth - 1
    while level > 0 and scan.stack[level, NAMESPACE] != HTML:
        if scan.stack[level, HASH] == name_hash:
            return level
        level -= 1
    return depth if level == 0 else 0
