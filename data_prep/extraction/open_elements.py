"""The stack of open elements: what opens and closes them, the searches in it, and what end tags close.

A tag decides first and changes the stack once: searches take the ``depth`` (number of open elements) that they begin
at, and return the depth that remains.

Source: WHATWG HTML, sections 13.2.4.2 (the stack of open elements), 13.2.6.4 (the rules for parsing tokens in HTML
content, and in tables) and 13.2.6.5 (in foreign content).
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.markup import RULE, RULES, numbers
from headrace.data_prep.extraction.scan import (
    ALT_ONLY,
    FLAG,
    HTML,
    INTEGRATION,
    LOUD,
    MATHML,
    MAX_DEPTH,
    REMOVED,
    SILENT_ALL,
    SVG,
    TABLE,
    TEX_ONLY,
    TOO_NESTED,
    E,
    R,
    S,
    Scan,
    T,
    cut,
    cut_at_button,
    flow_of,
)
from headrace.data_prep.kernel import kernel_in_place

(
    A, ANNOTATION, BODY, BR, BUTTON, CAPTION, COLGROUP, FOREIGN_OBJECT, FORM_NAME, H1, H6, HEAD, HTML_NAME, LI, LISTING,
    MATH, OL, P, PRE, SCRIPT, SELECT, TBODY, TD, TEMPLATE, TFOOT, TH, THEAD, TR, UL, XMP,
) = numbers(
    "a annotation body br button caption colgroup foreignobject form h1 h6 head html li listing"
    " math ol p pre script select tbody td template tfoot th thead tr ul xmp"
)  # fmt: skip


@kernel_in_place
def is_block(name: int, namespace: int) -> bool:
    """Whether an element begins and ends a block of text."""
    if namespace == HTML:
        return name == REMOVED or RULES[name] & RULE.block != 0
    return namespace == INTEGRATION and name == FOREIGN_OBJECT


@kernel_in_place
def _end_block(scan: Scan, name: int, namespace: int, is_end: bool) -> None:
    """Ends the open block where an element begins or ends."""
    if name == BUTTON and namespace == HTML:
        cut_at_button(scan, is_end)
    else:
        cut(scan)


@kernel_in_place
def push(scan: Scan, name: int, name_hash: int, namespace: int, attributes: int) -> None:
    """Opens an element on the stack. A block-level one ends the open block."""
    registers, rules = scan.registers, RULES[name]
    level = registers[R.depth]
    if is_block(name, namespace) and not scan.stack[level - 1, S.is_silent]:
        _end_block(scan, name, namespace, False)
    if level >= MAX_DEPTH // 2 and namespace == HTML and not rules & (RULE.block | RULE.silent | RULE.raw):
        return  # unclosed inline elements; nothing of the text depends on them
    if level == MAX_DEPTH:
        registers[R.fault] = TOO_NESTED
        return
    stack, outer, element = scan.stack, level - 1, registers[R.elements]
    stack[level, S.name], stack[level, S.hash], stack[level, S.element] = name, name_hash, element
    stack[level, S.namespace] = namespace
    stack[level, S.block_element] = (
        element if namespace == HTML and rules & RULE.block else stack[outer, S.block_element]
    )
    stack[level, S.flow] = (
        stack[outer, S.flow] if namespace == HTML and is_part_of_table(name, rules) else flow_of(scan)
    )
    stack[level, S.cursor] = stack[stack[level, S.flow], S.cursor]
    stack[level, S.is_pre] = stack[outer, S.is_pre] or (namespace == HTML and name in (PRE, LISTING, XMP))
    stack[level, S.in_table] = namespace == HTML and (rules & RULE.table_part) != 0
    stack[level, S.outer_link] = registers[R.in_link]
    stack[level, S.is_silent] = _silence(stack[outer, S.is_silent], name, namespace, rules, attributes)
    if namespace == HTML and rules & RULE.marker:
        registers[R.in_link] = 0
    if namespace == HTML and name == P:
        registers[R.open_p] += 1
    scan.records[element, E.parent] = stack[outer, S.element]
    scan.records[element, E.name] = name
    scan.records[element, E.flags] = attributes
    scan.records[element, E.text_start] = registers[R.text]
    scan.records[element, E.value_start] = scan.records[element, E.value_end] = scan.records[element, E.purposes] = 0
    registers[R.elements] = element + 1
    registers[R.depth] = level + 1


@kernel_in_place
def is_part_of_table(name: int, rules: int) -> bool:
    """Whether an element stands in a table, not before it."""
    return (rules & RULE.table_part != 0 and name != TABLE) or name in (TD, TH, CAPTION, COLGROUP)


@kernel_in_place
def _silence(outer: int, name: int, namespace: int, rules: int, attributes: int) -> int:
    """Returns IS_SILENT of an element in one that is ``outer``."""
    if namespace == SVG or attributes & FLAG.drawn_tex:
        return SILENT_ALL
    if namespace == INTEGRATION:
        return LOUD if name == FOREIGN_OBJECT else outer
    if namespace == MATHML:
        if outer == LOUD and name == MATH:
            return ALT_ONLY if attributes & FLAG.alt_text else TEX_ONLY if attributes & FLAG.tex else LOUD
        return LOUD if outer == TEX_ONLY and name == ANNOTATION and attributes & FLAG.tex else outer
    if (name == TEMPLATE and attributes & FLAG.shadow_root) or (name == SCRIPT and attributes & FLAG.tex):
        return outer
    return SILENT_ALL if rules & (RULE.silent | RULE.raw) else outer


@kernel_in_place
def pop_to(scan: Scan, depth: int) -> None:
    """Closes all open elements but the first ``depth``."""
    registers, stack = scan.registers, scan.stack
    while registers[R.depth] > depth:
        level = registers[R.depth] - 1
        name, namespace = stack[level, S.name], stack[level, S.namespace]
        if is_block(name, namespace) and not stack[level - 1, S.is_silent]:
            _end_block(scan, name, namespace, True)
        if namespace == HTML and name > 0 and RULES[name] & RULE.marker:
            registers[R.in_link] = stack[level, S.outer_link]
        if namespace == HTML and name == P:
            registers[R.open_p] -= 1
        if registers[R.form] == level and name == FORM_NAME:
            registers[R.form] = 0
        element = stack[level, S.element]
        is_dropped = not registers[R.has_text] and scan.records[element, E.text_start] <= registers[R.block_start]
        scan.records[element, E.text_end] = registers[R.block_start if is_dropped else R.text]
        registers[R.depth] = level


@kernel_in_place
def name_at(scan: Scan, level: int) -> int:
    """Returns the number of the open HTML element at ``level``; 0 for one without a number and in SVG and MathML."""
    return int(scan.stack[level, S.name]) if scan.stack[level, S.namespace] == HTML else 0


@kernel_in_place
def level_in_scope(scan: Scan, depth: int, name: int, boundary: int) -> int:
    """Returns the level of the innermost open element ``name``, in scope; 0 if there is none. H1 is any heading.

    ``boundary`` names the scope: 0 the usual one, BUTTON, LI (the list item scope) or TABLE.
    """
    level = depth - 1
    while level > 0:
        namespace = scan.stack[level, S.namespace]
        open_name = name_at(scan, level)
        if open_name > 0 and (open_name == name or (name == H1 and H1 <= open_name <= H6)):
            return level
        if boundary == TABLE:
            if open_name in (TABLE, TEMPLATE):
                return 0
        elif (
            namespace == INTEGRATION
            or (open_name > 0 and RULES[open_name] & RULE.scope)
            or (boundary == BUTTON and open_name == BUTTON)
            or (boundary == LI and open_name in (OL, UL))
        ):
            return 0
        level -= 1
    return 0


@kernel_in_place
def without(scan: Scan, depth: int, name: int, boundary: int) -> int:
    """Returns the depth without the innermost element ``name`` in scope, and all that is open inside it."""
    level = level_in_scope(scan, depth, name, boundary)
    return level if level > 0 else depth


@kernel_in_place
def without_p(scan: Scan, depth: int) -> int:
    return without(scan, depth, P, BUTTON) if scan.registers[R.open_p] else depth


@kernel_in_place
def without_implied(scan: Scan, depth: int, but: int) -> int:
    """Returns the depth without elements whose end tag may be left out, except ``but``."""
    while True:
        name = name_at(scan, depth - 1)
        if name <= 0 or name == but or not RULES[name] & RULE.implied_end:
            return depth
        depth -= 1


@kernel_in_place
def is_foreign(scan: Scan, depth: int) -> bool:
    """Whether the innermost element is in SVG or MathML, where HTML's rules do not hold."""
    namespace = scan.stack[depth - 1, S.namespace]
    return namespace in (SVG, MATHML)


@kernel_in_place
def depth_for_part(scan: Scan, depth: int, name: int) -> int:
    """Returns the depth in which the part ``name`` of a table opens; 0 if the tag is ignored, outside of tables."""
    table, in_cell = depth - 1, False
    while table > 0 and name_at(scan, table) not in (TABLE, TEMPLATE):
        in_cell = in_cell or name_at(scan, table) in (TD, TH, CAPTION)
        table -= 1
    is_table = table > 0 and name_at(scan, table) == TABLE
    if name == TABLE:
        return table if is_table and not in_cell else without_p(scan, depth)
    if not is_table:
        return 0
    keep = table + 1
    if name in (TD, TH, TR):
        while keep < depth:
            open_name = name_at(scan, keep)
            if not (open_name in (TBODY, THEAD, TFOOT) or (open_name == TR and name != TR)):
                break
            keep += 1
    return keep


@kernel_in_place
def end(scan: Scan, tag: NDArray[np.int64]) -> None:
    """Decides what an end tag closes."""
    depth, name, name_hash = scan.registers[R.depth], tag[T.name], tag[T.hash]
    if scan.stack[depth - 1, S.namespace] != HTML:
        if name in (BR, P):
            while is_foreign(scan, depth):
                depth -= 1
        else:
            tag[T.keep] = _without_foreign(scan, depth, name_hash)
            if tag[T.keep] > 0:
                return
    rules = RULES[name]
    if name == P:
        tag[T.cuts] = 1
        depth = without(scan, depth, P, BUTTON)
    elif name == BR:
        tag[T.breaks_line] = not scan.registers[R.is_xml]
    elif rules & RULE.formatting:
        if name == A:
            scan.registers[R.in_link] = 0
        keep = without_formatting(scan, depth, name_hash)
        depth = keep if keep > 0 else _without_other(scan, depth, name_hash)
    elif name == FORM_NAME:
        depth = _without_form(scan, depth, tag)
    elif name == TEMPLATE:
        level = depth - 1
        while level > 0 and scan.stack[level, S.name] != TEMPLATE:
            level -= 1
        depth = level if level > 0 else depth
    elif H1 <= name <= H6:
        depth = without(scan, depth, H1, 0)
    elif name == SELECT or rules & RULE.ended_by_name:
        is_part = rules & RULE.table_part or is_part_of_table(name, rules)
        depth = without(scan, depth, name, TABLE if is_part else LI if name == LI else 0)
    elif name not in (HTML_NAME, BODY, HEAD):
        depth = _without_other(scan, depth, name_hash)
    tag[T.keep] = depth


@kernel_in_place
def without_formatting(scan: Scan, depth: int, name_hash: int) -> int:
    """Returns the depth without the innermost formatting element of a name, and what is open inside it. If a special
    element is, only from there on. Returns 0 if there is none.

    Source: the adoption agency algorithm, without the copies that it makes.
    """
    level, last_special = depth - 1, 0
    while level > 0 and scan.stack[level, S.hash] != name_hash:
        name = name_at(scan, level)
        if name > 0:
            if RULES[name] & RULE.marker:
                return 0
            if RULES[name] & RULE.special and not last_special:
                last_special = level
        elif scan.stack[level, S.namespace] == INTEGRATION:
            return 0
        level -= 1
    if level > 0 and last_special:
        _remove(scan, level)
        return last_special + 1
    return level


@kernel_in_place
def _remove(scan: Scan, level: int) -> None:
    """Takes an element from the stack; those inside it stay open."""
    scan.stack[level, S.name] = REMOVED
    scan.stack[level, S.hash] = 0


@kernel_in_place
def _without_form(scan: Scan, depth: int, tag: NDArray[np.int64]) -> int:
    """Returns the depth without the form, or removes it: elements that are open inside it stay open."""
    level = scan.registers[R.form]
    if level == 0 or without(scan, depth, FORM_NAME, 0) == depth:
        return depth
    tag[T.cuts] = 1
    depth = without_implied(scan, depth, 0)
    scan.registers[R.form] = 0
    if level == depth - 1:
        return int(level)
    _remove(scan, level)
    return depth


@kernel_in_place
def _without_other(scan: Scan, depth: int, name_hash: int) -> int:
    level = depth - 1
    while level > 0:
        if scan.stack[level, S.hash] == name_hash and scan.stack[level, S.namespace] == HTML:
            return level
        name = scan.stack[level, S.name]
        if scan.stack[level, S.namespace] != HTML or (name > 0 and RULES[name] & RULE.special):
            return depth
        level -= 1
    return depth


@kernel_in_place
def _without_foreign(scan: Scan, depth: int, name_hash: int) -> int:
    """Returns the depth without the foreign element of a name. Returns 0 if HTML's rules decide."""
    level = depth - 1
    while level > 0 and scan.stack[level, S.namespace] != HTML:
        if scan.stack[level, S.hash] == name_hash:
            return level
        level -= 1
    return depth if level == 0 else 0
