"""The stack of open elements: what opens and closes them, and the searches in it.

A tag decides first and changes the stack once: searches take the ``depth`` (number of open elements) that they begin
at, and return the depth that remains.

Source: WHATWG HTML, sections 13.2.4.2 (the stack of open elements) and 13.2.6.4.9 to 13.2.6.4.15 (tables).
"""

from headrace.data_prep.extraction.parsing.elements import (
    BLOCK,
    IMPLIED_END,
    MARKER,
    RAW,
    RULES,
    SCOPE,
    SILENT,
    TABLE_PART,
    numbers,
)
from headrace.data_prep.extraction.parsing.scan import (
    ALT_ONLY,
    BLOCK_ELEMENT,
    CURSOR,
    DEPTH,
    ELEMENT,
    ELEMENT_CLASSES,
    ELEMENT_FLAGS,
    ELEMENT_NAME,
    ELEMENTS,
    FAULT,
    FLOW,
    FORM,
    HASH,
    HTML,
    IN_LINK,
    IN_TABLE,
    INTEGRATION,
    IS_PRE,
    IS_SILENT,
    LOUD,
    MATHML,
    MAX_DEPTH,
    NAME,
    NAMESPACE,
    OPEN_P,
    OUTER_LINK,
    PARENT,
    REMOVED,
    SILENT_ALL,
    SVG,
    TABLE,
    TEX_ONLY,
    TEXT,
    TEXT_END,
    TEXT_START,
    TOO_NESTED,
    VALUE_FIRST,
    VALUE_LAST,
    Scan,
    cut,
    cut_at_button,
    flow_of,
)
from headrace.data_prep.extraction.parsing.tag import ALT_TEXT, DRAWN_TEX, SHADOW_ROOT, TEX
from headrace.data_prep.kernel import kernel_in_place

(
    ANNOTATION, BUTTON, CAPTION, COLGROUP, FOREIGN_OBJECT, H1, H6, LI, LISTING, MATH, OL, P, PRE, SCRIPT, TBODY, TD,
    TEMPLATE, TFOOT, TH, THEAD, TR, UL, XMP,
) = numbers(
    "annotation button caption colgroup foreignobject h1 h6 li listing math ol p pre script tbody td"
    " template tfoot th thead tr ul xmp"
)  # fmt: skip


@kernel_in_place
def is_block(name: int, namespace: int) -> bool:
    """Whether an element begins and ends a block of text."""
    if namespace == HTML:
        return name == REMOVED or RULES[name] & BLOCK != 0
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
    level = registers[DEPTH]
    if is_block(name, namespace) and not scan.stack[level - 1, IS_SILENT]:
        _end_block(scan, name, namespace, False)
    if level >= MAX_DEPTH // 2 and namespace == HTML and not rules & (BLOCK | SILENT | RAW):
        return  # unclosed inline elements; nothing of the text depends on them
    if level == MAX_DEPTH:
        registers[FAULT] = TOO_NESTED
        return
    stack, outer, element = scan.stack, level - 1, registers[ELEMENTS]
    stack[level, NAME], stack[level, HASH], stack[level, ELEMENT] = name, name_hash, element
    stack[level, NAMESPACE] = namespace
    stack[level, BLOCK_ELEMENT] = element if namespace == HTML and rules & BLOCK else stack[outer, BLOCK_ELEMENT]
    stack[level, FLOW] = stack[outer, FLOW] if namespace == HTML and is_part_of_table(name, rules) else flow_of(scan)
    stack[level, CURSOR] = stack[stack[level, FLOW], CURSOR]
    stack[level, IS_PRE] = stack[outer, IS_PRE] or (namespace == HTML and name in (PRE, LISTING, XMP))
    stack[level, IN_TABLE] = namespace == HTML and (rules & TABLE_PART) != 0
    stack[level, OUTER_LINK] = registers[IN_LINK]
    stack[level, IS_SILENT] = _silence(stack[outer, IS_SILENT], name, namespace, rules, attributes)
    if namespace == HTML and rules & MARKER:
        registers[IN_LINK] = 0
    if namespace == HTML and name == P:
        registers[OPEN_P] += 1
    scan.records[element, PARENT] = stack[outer, ELEMENT]
    scan.records[element, ELEMENT_NAME] = name
    scan.records[element, ELEMENT_FLAGS] = attributes
    scan.records[element, TEXT_START] = registers[TEXT]
    scan.records[element, VALUE_FIRST] = scan.records[element, VALUE_LAST] = scan.records[element, ELEMENT_CLASSES] = 0
    registers[ELEMENTS] = element + 1
    registers[DEPTH] = level + 1


@kernel_in_place
def is_part_of_table(name: int, rules: int) -> bool:
    """Whether an element stands in a table, not before it."""
    return (rules & TABLE_PART != 0 and name != TABLE) or name in (TD, TH, CAPTION, COLGROUP)


@kernel_in_place
def _silence(outer: int, name: int, namespace: int, rules: int, attributes: int) -> int:
    """Returns IS_SILENT of an element in one that is ``outer``."""
    if namespace == SVG or attributes & DRAWN_TEX:
        return SILENT_ALL
    if namespace == INTEGRATION:
        return LOUD if name == FOREIGN_OBJECT else outer
    if namespace == MATHML:
        if outer == LOUD and name == MATH:
            return ALT_ONLY if attributes & ALT_TEXT else TEX_ONLY if attributes & TEX else LOUD
        return LOUD if outer == TEX_ONLY and name == ANNOTATION and attributes & TEX else outer
    if (name == TEMPLATE and attributes & SHADOW_ROOT) or (name == SCRIPT and attributes & TEX):
        return outer
    return SILENT_ALL if rules & (SILENT | RAW) else outer


@kernel_in_place
def pop_to(scan: Scan, depth: int) -> None:
    """Closes all open elements but the first ``depth``."""
    registers, stack = scan.registers, scan.stack
    while registers[DEPTH] > depth:
        level = registers[DEPTH] - 1
        name, namespace = stack[level, NAME], stack[level, NAMESPACE]
        if is_block(name, namespace) and not stack[level - 1, IS_SILENT]:
            _end_block(scan, name, namespace, True)
        if namespace == HTML and name > 0 and RULES[name] & MARKER:
            registers[IN_LINK] = stack[level, OUTER_LINK]
        if namespace == HTML and name == P:
            registers[OPEN_P] -= 1
        if registers[FORM] == level:
            registers[FORM] = 0
        scan.records[stack[level, ELEMENT], TEXT_END] = registers[TEXT]
        registers[DEPTH] = level


@kernel_in_place
def name_at(scan: Scan, level: int) -> int:
    """Returns the number of the open HTML element at ``level``; 0 for one without a number and in SVG and MathML."""
    return int(scan.stack[level, NAME]) if scan.stack[level, NAMESPACE] == HTML else 0


@kernel_in_place
def level_in_scope(scan: Scan, depth: int, name: int, boundary: int) -> int:
    """Returns the level of the innermost open element ``name``, in scope; 0 if there is none. H1 is any heading.

    ``boundary`` names the scope: 0 the usual one, BUTTON, LI (the list item scope) or TABLE.
    """
    level = depth - 1
    while level > 0:
        namespace = scan.stack[level, NAMESPACE]
        open_name = name_at(scan, level)
        if open_name > 0 and (open_name == name or (name == H1 and H1 <= open_name <= H6)):
            return level
        if boundary == TABLE:
            if open_name in (TABLE, TEMPLATE):
                return 0
        elif (
            namespace == INTEGRATION
            or (open_name > 0 and RULES[open_name] & SCOPE)
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
    return without(scan, depth, P, BUTTON) if scan.registers[OPEN_P] else depth


@kernel_in_place
def without_implied(scan: Scan, depth: int, but: int) -> int:
    """Returns the depth without elements whose end tag may be left out, except ``but``."""
    while True:
        name = name_at(scan, depth - 1)
        if name <= 0 or name == but or not RULES[name] & IMPLIED_END:
            return depth
        depth -= 1


@kernel_in_place
def is_foreign(scan: Scan, depth: int) -> bool:
    """Whether the innermost element is in SVG or MathML, where HTML's rules do not hold."""
    namespace = scan.stack[depth - 1, NAMESPACE]
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
