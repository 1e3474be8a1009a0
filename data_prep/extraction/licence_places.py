"""The places at which a page names licences: its own, that of a part (a photo, a comment, code), or one in passing.

    <link rel=license>, <footer><a rel=license>, "This work is licensed under a <a …>"      licence
    <figure><a rel=license>, "Photo by Ann, <a …>", {"@type": "ImageObject", "license": …}   licence_of_part
    <p>as <a href=https://creativecommons.org/licenses/by/4.0/> puts it                     licence_mentioned

A link is judged by the elements around it, by the types of microdata and RDFa there, and by the words before it in its
block. Elements whose class names pictures, comments or other pages count if they hold less than half of the text.
"""

import html
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from headrace.data_prep.extraction.markup import NAMES, PURPOSES
from headrace.data_prep.extraction.scan import E, R, Scan

OWN, OF_PART, MENTIONED = "licence", "licence_of_part", "licence_mentioned"
"""The facts of the three places."""
CC_LINK = "cc"
"""The name of a link to a licence of Creative Commons that does not say of what."""
PARTS = {"figure", "figcaption", "blockquote", "q", "picture", "video", "audio", "object", "caption"}
EXAMPLES = {"pre", "code", "samp", "kbd", "textarea"}
ENTRIES = {"li", "dd", "dt", "td", "th"}
"""Elements of lists and tables: what they name is licensed by itself, but in the foot of a page."""
BITS = {name: 1 << bit for bit, name in enumerate(PURPOSES)}
PART_CLASSES = sum(BITS[name] for name in ("comment", "related", "advertisement", "review", "picture"))
_PAGE_TYPES = """
webpage aboutpage checkoutpage collectionpage contactpage faqpage itempage medicalwebpage profilepage qapage
realestatelisting searchresultspage website webcontent webpageelement wpfooter wpheader wpsidebar
article advertisercontentarticle newsarticle analysisnewsarticle askpublicnewsarticle backgroundnewsarticle
opinionnewsarticle reportagenewsarticle reviewnewsarticle report satiricalarticle scholarlyarticle
medicalscholarlyarticle socialmediaposting blogposting liveblogposting discussionforumposting techarticle apireference
blog creativework howto recipe learningresource chapter digitaldocument textdigitaldocument
document item post work text
"""
PAGE_TYPES = frozenset(_PAGE_TYPES.split())
"""Types of schema.org, FOAF, SIOC, ccREL and DCMI, in lower case, that a page itself has."""
FILES = "jpg jpeg png gif svg webp tif tiff bmp avif mp3 mp4 ogg ogv wav flac webm mov pdf zip gz epub"
FILE = re.compile(rf"\.(?:{FILES.replace(' ', '|')})\b", re.I)
TAG = re.compile(r"<[^>]*>?")
BLOCK_TAG = re.compile(
    rb"<(?:/?(?:p|div|li|ul|ol|dl|dt|dd|td|th|tr|table|h[1-6]|figure|figcaption|footer|header|section|article|aside|main"
    rb"|nav|blockquote|body|form)\b[^>]*|br\b[^>]*|hr\b[^>]*|!--.*?--)>",
    re.I | re.S,
)
MAIN = ("mainEntity", "mainEntityOfPage")
"""The properties of schema.org by which a thing names what it is mainly about."""
HEADING = re.compile(rb"<h[1-6]\b[^>]*>(.*?)</h[1-6]", re.I | re.S)
CREDITS = re.compile(r"credit|attribution|sources?\b|licen[cs]e|crédits|bildnachweis|quellen|nachweis", re.I)
"""Words of a heading whose section names the licences of parts."""
BEFORE, AFTER = 800, 300
"""Bytes around a link that are looked at."""
CLAUSE = re.compile(r"[.;!?|•·]\s")
RESERVED = re.compile(
    "all rights reserved|alle rechte vorbehalten|tous droits r[ée]serv[ée]s|todos los derechos reservados"
    "|todos os direitos reservados|tutti i diritti riservati|alle rechten voorbehouden|все права защищены"
    "|wszelkie prawa zastrze|版权所有|無断転載",
    re.I,
)
OTHERS_WORK = re.compile(
    r"\b(?:photo|image|picture|illustration|icon|drawing|painting|graphic|figure|map|video|audio|music|song|sound"
    r"|font|logo|code\b|software|program\b|source|dataset|data\b|theme|template|design|credit|courtesy|comment|foto|bild"
    r"|abbildung|grafik|imagen|imagem|immagin|fotograf|ilustra|illustra|crédit|kredit|kuva|zdj)",
    re.I,
)
PAGES_WORK = re.compile(
    r"\b(?:this|these|our|my|all|its|the|except where|unless)\s+(?:[\w’'-]+\s+){0,4}?(?:works?|pages?|articles?|texts?"
    r"|posts?|blogs?|sites?|websites?|contents?|books?|wikis?|documents?|documentation|publications?|papers?|essays?"
    r"|story|stories|chapters?|lessons?|courses?|tutorials?|materials?|resources?|noted|stated)\b"
    r"|^\W*(?:text|content)s?\s+(?:of this \w+ )?(?:is|are)?\b"
    r"|\bdiese[rs]?\s+(?:werk|text|artikel|inhalt|beitrag|seite|website|buch)|\b(?:cette|cet|ce|ces)\s+(?:œuvre|oeuvre"
    r"|article|texte|site|page|contenu|document|création)|\best[aeo]s?\s+(?:obra|artículo|artigo|texto|sitio|site|página"
    r"|contenido|conteúdo|trabajo|trabalho)|\bquest[aoe'’]\s*(?:opera|articolo|testo|sito|pagina|contenuto)"
    r"|\b(?:dit|deze)\s+(?:werk|artikel|tekst|pagina|website)",
    re.I,
)


class LicencePlaces:
    """The places of licences on one page."""

    def __init__(self, scan: Scan, of_parts: Collection[int]) -> None:
        """Takes the page, and the numbers of the elements whose microdata and RDFa are about something else."""
        self._scan, self._of_parts = scan, of_parts
        records = scan.records[: scan.registers[R.elements]]
        names = records[:, E.name]
        self._half = int(scan.registers[R.text]) / 2
        self._half_of_articles, end = 0.0, 0
        for element in (names == NAMES.index("article")).nonzero()[0].tolist():
            if records[element, E.text_start] >= end:  # not in the one before
                self._half_of_articles += self._size(element) / 2
                end = int(records[element, E.text_end])

    def of(self, name: str, element: int, start: int) -> str:
        """Returns the fact that the licence is whose value begins at the byte ``start``, in ``element``.

        Args:
            name: how it is named (page_facts.py).
        """
        page, records = self._scan.page, self._scan.records
        tag = page[max(start - BEFORE, 0) : start].tobytes().rfind(b"<") + max(start - BEFORE, 0)
        is_link = page[tag : tag + 2].tobytes().lower() == b"<a"
        clause, line, heading = self._words(tag, start) if is_link else ("", "", "")
        others, own = OTHERS_WORK.search(clause), PAGES_WORK.search(clause)
        is_own = own is not None and (others is None or own.start() < others.start())
        is_foot = is_entry = is_aside = False
        for around in self._around(element):
            kind, classes = NAMES[records[around, E.name]], int(records[around, E.purposes])
            if kind in EXAMPLES:
                return MENTIONED
            is_small = self._size(around) <= self._half
            is_part = kind == "article" and self._size(around) < self._half_of_articles
            if kind in PARTS or is_part or around in self._of_parts or (is_small and classes & PART_CLASSES):
                return OF_PART
            if kind == "footer" or (is_small and classes & BITS["foot"]):
                is_foot, is_entry = True, False
            is_entry = is_entry or (kind in ENTRIES and is_small)
            is_aside = is_aside or kind == "aside"
        if is_own:
            return OWN
        if others or CREDITS.search(heading) or is_aside or (is_entry and name != CC_LINK):
            return OF_PART
        if name != CC_LINK:
            return OWN
        return OWN if is_foot and not is_entry and not RESERVED.search(line) else MENTIONED

    def _around(self, element: int) -> Iterator[int]:
        """Yields ``element`` and each one around it, from the inside; not the page."""
        while element > 0:
            yield element
            element = int(self._scan.records[element, E.parent])

    def _size(self, element: int) -> int:
        return int(self._scan.records[element, E.text_end] - self._scan.records[element, E.text_start])

    def _words(self, tag: int, start: int) -> tuple[str, str, str]:
        """Returns the words before the link that begins at ``tag`` in its clause, else its own and those after it; all
        of its block; and the heading before it, if it is near."""
        page = self._scan.page
        before = page[max(tag - BEFORE, 0) : tag].tobytes()
        after = _text(BLOCK_TAG.split(page[start : start + AFTER].tobytes())[0].partition(b">")[2])
        line = _text(BLOCK_TAG.split(before)[-1])
        clause = CLAUSE.split(line)[-1]
        headings = HEADING.findall(before)
        return clause if re.search(r"\w", clause) else after, f"{line} {after}", _text(b"".join(headings[-1:]))


def _text(markup: bytes) -> str:
    """Returns the words of a piece of a page, which may begin inside a tag."""
    first, end, rest = markup.partition(b">")
    markup = rest if end and b"<" not in first else markup
    return " ".join(html.unescape(TAG.sub("", markup.decode(errors="replace"))).split())


def is_of_part(subject: str) -> bool:
    """Whether an address that RDFa is about is that of a file."""
    return FILE.search(subject) is not None


def is_page(types: Sequence[str]) -> bool:
    """Whether one of ``types``, names or addresses, is a type of pages; or there is none."""
    names = {re.split("[/#:]", name)[-1].lower() for name in types}
    return not names or not names.isdisjoint(PAGE_TYPES)


def _address(thing: Mapping[str, Any]) -> Any:
    return next((thing[name] for name in ("url", "@id", "name") if thing.get(name)), None)


def linked_licences(nodes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yields the fact and the value of each licence of the outermost things of linked data, and of all inside them.

    What a thing is mainly about is the page, too, if its type is one of pages; a thing without a type is named only.
    """
    waiting: list[tuple[Any, bool]] = [(node, True) for node in reversed(nodes)]
    while waiting:
        value, is_outer = waiting.pop()
        if isinstance(value, list):
            waiting += [(item, is_outer) for item in reversed(value)]
        elif isinstance(value, dict):
            types = value.get("@type")
            names = [name for name in (types if isinstance(types, list) else [types]) if isinstance(name, str)]
            if licence := value.get("license"):
                fact = OF_PART if not is_outer or not is_page(names) else OWN if names else MENTIONED
                listed = licence if isinstance(licence, list) else [licence]
                yield fact, [_address(item) if isinstance(item, dict) else item for item in listed]
            for name, item in reversed(value.items()):
                if name not in ("license", "@graph"):  # the outermost things have those of the graph
                    waiting.append((item, is_outer and name in MAIN))
