"""The registers of a tag: what it is, and what it does."""

# What it is. Offsets are in bytes of the page.
TAG_NAME, TAG_HASH, TAG_END, IS_END_TAG, IS_SELF_CLOSED, ATTRIBUTES, VALUE_START, VALUE_END = range(8)
KEY, CONTENT_START, CONTENT_END = range(8, 11)
"""The fact that it states (page_fact_names.py), and the bytes that say what it is."""
FIRST_TOKEN = 11
"""The first of the words of its attributes."""
CLASSES = 14
"""The purposes that they name (keywords.py), as bits."""
OWN_START, OWN_END = range(12, 14)
"""The value of the attribute that forms of text need (VALUE_OF in attributes.py)."""
# What it does: the depth that stays open, whether a block and a line end, whether it opens an element, of which
# namespace, and first a row of a table.
KEEP, CUTS, BREAKS_LINE, OPENS, OPENS_IN, OPENS_ROW = range(15, 21)
TAG_REGISTERS = 21

(
    HIDDEN, ARIA_HIDDEN, NOT_DISPLAYED, HAS_HREF, SHADOW_ROOT, HTML_ANNOTATION, TEX, FONT_STYLE, ALT_TEXT, DISPLAY,
    DRAWN_TEX,
) = (1 << bit for bit in range(11))  # fmt: skip
"""The bits of ATTRIBUTES."""
