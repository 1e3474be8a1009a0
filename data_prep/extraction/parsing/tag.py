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
SPAN_COLUMNS, SPAN_ROWS = range(21, 23)
"""The columns and rows that a cell says to span, plus one; 0 if it says nothing."""
TAG_REGISTERS = 23

(
    HIDDEN, ARIA_HIDDEN, NOT_DISPLAYED, HAS_HREF, SHADOW_ROOT, HTML_ANNOTATION, TEX, FONT_STYLE, ALT_TEXT, DISPLAY,
    DRAWN_TEX, DRAWING, TEX_IMAGE, LINE_NUMBERS, GUTTER, AS_BLOCK, STRUCK,
) = (1 << bit for bit in range(17))  # fmt: skip
"""The bits of ATTRIBUTES. DRAWING is a formula that MathJax drew, TEX_IMAGE an image whose ``alt`` is TeX; GUTTER may
have numbers of lines, too."""
CLASS_WORDS = {
    DRAWN_TEX: "katex-html",
    DRAWING: "MathJax MathJax_Display MathJax_SVG MathJax_SVG_Display MathJax_CHTML MathJax_PHTML MathJax_PlainSource"
    " MathJax_Preview MathJax_MathML mjx-chtml",
    TEX_IMAGE: "mwe-math-fallback-image-inline mwe-math-fallback-image-display tex latex",
    LINE_NUMBERS: "lineno linenos linenodiv linenumber linenumbers line-numbers-rows rouge-gutter lntd lnt blob-num"
    " js-line-number hljs-ln-numbers hljs-ln-n diff-line-num file-line-num crayon-num crayon-nums crayon-nums-content"
    " linenr lineNo source-line-no src-line-numbers code-line-number react-syntax-highlighter-line-number"
    " CodeMirror-linenumber ace_gutter-cell jxr_linenumber",
    GUTTER: "gutter gl ln lno line-number line-numbers line_numbers line-num line-no line_no line-nums linenum linenums"
    " cm-gutterElement",
}
"""The words of classes that set a bit. Their case counts."""
