"""Dumps of Wikipedia: which pages are documents, and the text of their markup."""

import bz2
import gzip
import itertools
from pathlib import Path

import pytest

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.source import Record
from headrace.data_prep.sources.wikipedia import Wikipedia
from headrace.data_prep.sources.wikitext import plain_text

HEAD = (
    '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="de"><siteinfo>'
    "<base>https://de.wikipedia.org/wiki/Wikipedia:Hauptseite</base><namespaces>"
    '<namespace key="0" /><namespace key="1">Diskussion</namespace><namespace key="6">Datei</namespace>'
    '<namespace key="14">Kategorie</namespace></namespaces></siteinfo>'
)
REVISION = "<revision><id>9</id><timestamp>2024-06-01T00:00:00Z</timestamp><text>{}</text></revision>"


def page(number: int, title: str, text: str, inner: str = "<ns>0</ns>") -> str:
    return f"<page><title>{title}</title>{inner}<id>{number}</id>{REVISION.format(text)}</page>"


PAGES = [
    page(7, "Alte Mühle", "Die '''Mühle''' am [[Bach (Fluss)|Bach]].[[Datei:a.jpg|mini|Ein [[Rad]]]]"),
    page(8, "Diskussion:Mühle", "Nein.", "<ns>1</ns>"),
    page(9, "Muehle", "#WEITERLEITUNG [[Mühle]]", '<ns>0</ns><redirect title="Mühle" />'),
    page(10, "Leer", "{{Vorlage}}[[Kategorie:Leer]]"),
    page(11, "Diskussion:Bach", "Von 2006.", ""),
    page(12, "Muhle", "#REDIRECT [[Mühle]]", ""),
]
DUMP = (HEAD + "".join(PAGES) + "</mediawiki>").encode()


def read(path: Path, data: bytes, **options: object) -> list[Record]:
    path.write_bytes(data)
    return list(Wikipedia(paths=(str(path),), **options).read(path.name))


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress])
def test_articles_are_documents_and_other_pages_have_a_reason(tmp_path: Path, compress) -> None:
    (article, drop), *others = read(tmp_path / "a.xml", compress(DUMP))
    assert (article.id, article.text, drop) == ("a.xml:0", "Die Mühle am Bach.", None)
    assert article.metadata == {
        "url": "https://de.wikipedia.org/wiki/Alte_M%C3%BChle",
        "source_id": "7",
        "date": "2024-06-01T00:00:00Z",
        "extra": {"title": "Alte Mühle"},
    }
    assert [drop for _, drop in others] == [
        Drop("namespace", "1"),
        Drop("redirect", "Mühle"),
        Drop("no_text", "the page has no text"),
        Drop("namespace", "1"),
        Drop("redirect", "Mühle"),
    ]


def test_a_folder_is_searched_for_whole_dumps_and_their_parts(tmp_path: Path) -> None:
    dumps = [
        "enwiki-20240601-pages-articles-multistream1.xml-p1p41242.bz2",
        "enwiki-20240601-pages-articles1.xml-p1p41242",
        "simplewiki-latest-pages-articles.xml.bz2",
        "wiki.xml",
    ]
    others = ["enwiki-20240601-pages-articles-multistream-index1.txt-p1p41242.bz2", "a.xml-p1p2.lz4", "a.xml-old.bz2"]
    for name in (*dumps, *others):
        (tmp_path / name).write_bytes(b"<mediawiki>")
    source = Wikipedia(paths=(str(tmp_path),))
    assert [file.name for file in source.listing()] == dumps
    assert source.left_out.replace(f"{tmp_path}/", "").startswith(
        "1 with the suffix .xml-old.bz2 (a.xml-old.bz2), 1 with the unread compression .lz4 (a.xml-p1p2.lz4), "
        "1 with the suffix .txt.bz2 ("
    )


def test_members_of_a_multistream_dump_are_one_text(tmp_path: Path) -> None:
    parts = [HEAD, *PAGES, "</mediawiki>"]
    records = read(tmp_path / "a.xml", b"".join(bz2.compress(part.encode()) for part in parts))
    assert [(document.text, drop) for document, drop in records] == [
        (document.text, drop) for document, drop in read(tmp_path / "b.xml", DUMP)
    ]


def test_damage_ends_the_file_with_a_reason(tmp_path: Path) -> None:
    cut = DUMP[: DUMP.index(b"Nein.")]
    assert [drop and drop.rule for _, drop in read(tmp_path / "a.xml", cut)] == [None, "broken_file"]
    wrong = DUMP.replace(b"Nein.", b"Nein.<b>")
    assert [drop and drop.rule for _, drop in read(tmp_path / "b.xml", wrong)] == [None, "broken_file"]
    compressed = bz2.compress((HEAD + PAGES[0]).encode()) + bz2.compress(PAGES[1].encode())[:-20]
    assert [drop and drop.rule for _, drop in read(tmp_path / "c.xml", compressed)] == [None, "broken_compression"]
    assert [drop and drop.rule for _, drop in read(tmp_path / "d.xml", b"{}")] == ["broken_file"]


def test_entities_that_expand_without_end_are_damage(tmp_path: Path) -> None:
    names = [f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10)]
    bomb = f'<!DOCTYPE x [<!ENTITY e0 "{"a" * 100}">{"".join(names)}]><mediawiki><page><title>&e9;'
    assert [drop and drop.rule for _, drop in read(tmp_path / "a.xml", bomb.encode())] == ["broken_file"]


def test_pages_with_much_markup_are_dropped(tmp_path: Path) -> None:
    (_, drop), *_ = read(tmp_path / "a.xml", DUMP, record_bytes=20)
    markup = PAGES[0].partition("<text>")[2].partition("</text>")[0]
    assert drop == Drop("record_too_large", str(len(markup.encode())))


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("'''Mill''' and ''wheel''.", "Mill and wheel."),
        ("A [[mill]], [[mill|old]] [[mill]]s, [[mill (a)|]].", "A mill, old mills, mill (a)."),
        ("[[File:a.jpg|thumb|A [[mill]] of {{n|1}}]]Text.", "Text."),
        ("Text.[[Category:Mills]] [[de:Mühle]] [[zh-min-nan:A]]", "Text."),
        ("[[:Category:Mills]] and [[Star Trek: First Contact]]", "Category:Mills and Star Trek: First Contact"),
        ("A {{convert|3|km|{{x}}}} b<ref name=a>{{cite|[[x]]}}</ref> c<ref name=a />.", "A b c."),
        ("{|\n| a\n{|\n| b\n|}\n| c {{x|}}\n|}\nText.", "Text."),
        ("A.\n  {| class=x\n| b\n |}\nC.", "A.\nC."),
        ("See [https://a.org the page], [https://b.org] and [http://c.org/x y].", "See the page, and y."),
        ("'''A''' ({{IPA|x}}; , born) b ({{lang|x}}).", "A (born) b."),
        ("x<!-- a [[b]] -->y<br />z &nbsp;&amp;lt; <b>bold</b>__TOC__", "xy\nz &lt; bold"),
        ("<MATH>x^2</MATH>A<syntaxhighlight lang=a>{{</syntaxhighlight>.", "A."),
        ("== A ==\nText.\n== B ==\n=== C ===\n* one\n*# two\n== D ==\n", "A\nText.\nC\none\ntwo"),
        ("A {{open [[link|shown]] <ref>b", "A open shown b"),
        ("}} a ]] b |} </ref>", "a b |}"),
        ("{{a [[b }} c]]", "c"),
        ("", ""),
    ],
)
def test_text_of_markup(markup: str, text: str) -> None:
    assert plain_text(markup, {"file", "category"}) == text


def test_passages_alone() -> None:
    assert plain_text("A.\n== B ==\n* c\n: d\nE.", passages_alone=True) == "A.\nE."


@pytest.mark.parametrize("parts", [*itertools.product(("{{", "[[", "<ref>", "\n{|", "x"), repeat=2)], ids="".join)
def test_junk_that_opens_and_never_closes_is_text(parts: tuple[str, str]) -> None:
    """All of it is looked at once: a hundred thousand openings take no longer than as many words."""
    text = plain_text("{{" + "".join(parts) * 50_000 + "}} end")
    assert text.endswith("end")


def test_a_real_dump_becomes_articles_without_markup(data_folder) -> None:
    path = data_folder("text") / "enwik8_first_90MB.zst"
    source = Wikipedia(paths=(str(path),))
    records = list(itertools.islice(source.read(path.name), 600))
    kept = [document for document, drop in records if drop is None]
    assert {drop.rule for _, drop in records if drop} == {"redirect", "namespace"}
    assert len(kept) > 200
    marks = ("{{", "}}", "[[", "]]", "{|", "|}", "''", "<ref", "&nbsp;")
    assert [(document.id, mark) for document in kept for mark in marks if mark in document.text] == []
    (alabama,) = (document for document in kept if document.metadata["url"].endswith("/Alabama"))
    assert alabama.text.startswith("Alabama is a state located in the Southern United States.\nHistory\n")
