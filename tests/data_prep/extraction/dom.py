"""The text of a page by an independent parser (lexbor, as resiliparse carries it)."""

from collections.abc import Iterator
from typing import Any

from resiliparse.parse.html import HTMLTree, NodeType

WITHOUT_TEXT = {"script", "style", "template", "iframe", "noembed", "noframes", "title", "rt", "rp", "rtc"}
"""Elements whose text is not part of the text of a page. That of SVG is not, either, but for foreignObject."""


def squeezed(text: str) -> str:
    """Returns ``text`` without white space and soft hyphens."""
    return "".join(text.replace("\xad", "").split())


def dom_text(html: str) -> str:
    """Returns the text that the DOM of ``html`` holds, squeezed. Formulas count as their TeX, if there is one."""
    return squeezed("".join(_texts(HTMLTree.parse(html).document)))


def _texts(root: Any) -> Iterator[str]:
    waiting = [(root, False)]
    while waiting:
        node, in_svg = waiting.pop()
        while node is not None:
            if node.next is not None:
                waiting.append((node.next, in_svg))
            if node.type == NodeType.TEXT and not in_svg:
                yield node.text
            if node.type == NodeType.ELEMENT:
                if (tex := _tex(node)) is not None:
                    yield "" if in_svg else tex
                    break
                if node.tag in WITHOUT_TEXT or node.getattr("class") == "katex-html":
                    break
                in_svg = node.tag == "svg" or (in_svg and node.tag != "foreignobject")
            node = node.first_child


def _tex(node: Any) -> str | None:
    """Returns the TeX of a formula; None if ``node`` is none, or has no TeX."""
    if node.tag == "script" and (node.getattr("type") or "").startswith("math/tex"):
        return str(node.text)
    if node.tag != "math":
        return None
    annotations = node.query_selector_all('annotation[encoding="application/x-tex"]')
    return node.getattr("alttext") or "".join(one.text for one in annotations) or None
