"""Tables: which cells, rows and parts a new part of a table closes.

Source: WHATWG HTML, sections 13.2.6.4.9 to 13.2.6.4.15 (the modes in tables).
"""

from headrace.data_prep.extraction.elements import numbers
from headrace.data_prep.extraction.open_elements import name_at, without_p
from headrace.data_prep.extraction.scan import TABLE, Scan
from headrace.data_prep.kernel import kernel_in_place

CAPTION, TBODY, TD, TEMPLATE, TFOOT, TH, THEAD, TR = numbers("caption tbody td template tfoot th thead tr")


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
            found = name_at(scan, keep)
            if not (found in (TBODY, THEAD, TFOOT) or (found == TR and name != TR)):
                break
            keep += 1
    return keep
