"""Plain text of MediaWiki's markup, by rules that need no template of the wiki.

    '''Mill''' {{IPA|m}} ([[Water wheel|wheel]]s<ref>A.</ref>)     ──>  Mill (wheels)

One pass with a stack of what is open: templates ``{{ }}``, tables ``{| |}``, links ``[[ ]]``, and elements whose
content is no text (footnotes, formulas, galleries, code). Each is replaced when it closes: a link by the text that it
shows, the others by nothing. So are links to files, to categories and to other languages. What is never closed stays as
text without its mark; a mark that closes nothing vanishes. The time is linear in the length.

Afterwards, line by line: links to other sites become their label, quotes of emphasis, other tags, magic words and marks
of lists go away, entities become characters, empty brackets vanish, and a heading without text below it is dropped.
Nothing of a template is computed: units, dates and pronunciations that templates write are missing.
"""

import html
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator

CONTENT_DROPPED = (
    "ref", "math", "chem", "gallery", "timeline", "syntaxhighlight", "source", "score", "hiero", "imagemap", "mapframe",
    "templatestyles", "graph", "poem", "pre", "code",
)  # fmt: skip
"""Elements whose content is no running text."""
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
BEFORE_TABLE = re.compile(r"^[ \t:]+(?=\{\||\|\})", re.MULTILINE)
TOKEN = re.compile(
    r"\{\{|\{\|(?<=\n\{\|)|\[\[|\}\}|\|\}(?<=\n\|\})(?!\})|\]\]"
    rf"|<(?i:/?(?:{'|'.join(CONTENT_DROPPED)})\b[^<>]*>)"
)
"""Marks that open or close. Each alternative begins with a character of its own, so most positions cost nothing."""
KINDS = {"{{": "template", "}}": "template", "{|": "table", "|}": "table", "[[": "link", "]]": "link"}
OPENING = ("{{", "{|", "[[")
ELEMENT = re.compile(r"</?(\w+)")
LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z]+)*")
"""The prefix of a link to the same page in another language."""
SITE_LINK = re.compile(r"\[(?:https?:|ftp:)?//[^\s\[\]]*([^\[\]\n]*)\]")
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
BREAK = re.compile(r"<(?:br|p|/p|/?div)\b[^<>]*>", re.IGNORECASE)
MAGIC_WORD = re.compile(r"__[A-Z]+__")
HEADING = re.compile(r"(={1,6})(.+?)\1\s*")
LIST_MARKS = re.compile(r"[*#:;]+\s*")
EMPTY_BRACKETS = re.compile(r" ?\([\s,;:]*\)")
FIRST_SEPARATORS = re.compile(r"\([\s,;]+")


def plain_text(markup: str, dropped: Collection[str] = (), *, passages_alone: bool = False) -> str:
    """Returns the text of a page, a paragraph, heading or item of a list in each line.

    ``dropped`` are names of namespaces in lower case, links to which are left out (files, categories). With
    ``passages_alone`` headings and lists are left out, too.
    """
    markup = "\n" + BEFORE_TABLE.sub("", COMMENT.sub("", markup))
    lines = [line for line in _lines(_without_markup(markup, dropped)) if line[1]]
    if passages_alone:
        return "\n".join(text for kind, text in lines if kind == "passage")
    following = itertools.chain((kind for kind, _ in lines[1:]), ["heading"])
    with_following = zip(lines, following, strict=False)  # which is one longer if there is no line
    return "\n".join(text for (kind, text), after in with_following if (kind, after) != ("heading", "heading"))


def _without_markup(markup: str, dropped: Collection[str]) -> str:
    """Replaces templates, tables, links and elements, from the innermost to the outermost."""
    kinds, texts, count, end = list[str](), list[list[str]]([[]]), Counter[str](), 0
    for token in TOKEN.finditer(markup):
        mark = token.group()
        texts[-1].append(markup[end : token.start()])
        end = token.end()
        element = ELEMENT.match(mark)
        kind = element[1].lower() if element else KINDS[mark]
        if mark in OPENING or (element and mark[1] != "/"):
            if not mark.endswith("/>"):
                kinds.append(kind)
                texts.append([])
                count[kind] += 1
            continue
        popped = list[list[str]]()
        while count[kind]:
            count[inner := kinds.pop()] -= 1
            popped.append(texts.pop())
            if inner == kind:
                content = "".join(part for parts in reversed(popped) for part in parts)
                texts[-1].append(_shown(content, dropped) if kind == "link" else "")
                break
    return "".join(part for parts in texts for part in parts) + markup[end:]


def _shown(link: str, dropped: Collection[str]) -> str:
    """Returns the text that the inner part of a link shows."""
    target, bar, label = link.partition("|")
    space, colon, _ = target.partition(":")
    if colon and space and (space.strip().lower() in dropped or LANGUAGE.fullmatch(space)):
        return ""
    return label if bar and label else target.removeprefix(":")


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yields the kind of each line (heading, item or passage) and its text."""
    text = TAG.sub("", BREAK.sub("\n", SITE_LINK.sub(r"\1", text)))
    text = html.unescape(MAGIC_WORD.sub("", re.sub("'{2,5}", "", text)))
    for line in text.splitlines():
        words = FIRST_SEPARATORS.sub("(", EMPTY_BRACKETS.sub("", " ".join(line.split())))
        if heading := HEADING.fullmatch(words):
            yield "heading", heading[2].strip()
        elif marks := LIST_MARKS.match(words):
            yield "item", words[marks.end() :]
        else:
            yield "passage", words
