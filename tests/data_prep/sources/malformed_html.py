"""Pages that parsers, extractors and decoders may trip over, made by chance."""

from collections.abc import Callable
from random import Random

SENTENCES = (
    "The mill {} stands where the old road crosses the river, and nobody remembers who built it. "
    "Its wheel {} has turned day and night since the great flood. Every winter {} the ice stops it for a week or two."
)
TAGS = (
    "div", "b", "i", "a", "p", "table", "tr", "td", "select", "option", "svg", "math", "template", "frameset", "form",
    "nobr", "font", "li", "ul", "dl", "dd", "button", "object", "noscript", "script", "style", "textarea", "title",
    "pre",
    "iframe", "plaintext", "x-y", "image", "mi", "foreignObject", "annotation-xml", "ruby", "rt", "h1", "marquee",
    "body",
)  # fmt: skip
ENTITIES = (
    "&#0;", "&#xD800;", "&#x110000;", "&#99999999999999;", "&amp", "&notit;", "&#x;", "&#128;", "&;",
    "&CounterClockwiseContourIntegral;",
)  # fmt: skip
DEPTHS = (3, 50, 400, 999, 1001, 3000)
ENCODINGS = (
    "utf-8", "utf-16", "utf-16-be", "utf-32", "latin-1", "cp1251", "shift_jis", "gb18030", "big5", "euc_kr",
    "iso2022_jp",
    "utf-7", "cp037",
)  # fmt: skip


def sentence(number: int) -> str:
    """Three sentences that C4's rules keep, with ``number`` in them."""
    return SENTENCES.format(number, number, number)


def good_page(chance: Random, number: int) -> bytes:
    """A page whose text is ``sentence(number)``."""
    return f"<html><head><title>t</title></head><body><main><p>{sentence(number)}</p></main></body></html>".encode()


def odd_page(chance: Random) -> bytes:
    """A page that is wrong in its markup or its encoding, or both."""
    pieces = [chance.choice(PIECES)(chance) for _ in range(chance.choice([1, 1, 2, 5]))]
    text = chance.choice(["<!doctype html><html><body>", "", "<p>", "<html><meta charset=utf-8>"]) + "".join(pieces)
    kind = chance.random()
    if kind < 0.6:
        return text.encode("utf-8", "surrogatepass")
    if kind < 0.8:
        label = chance.choice([*ENCODINGS, "replacement", "x-user-defined", "no-such", "utf8\0", "\u00e9" * 40])
        page = f"<meta charset='{label}'>{text} мир 日本語 naïve".encode(chance.choice(ENCODINGS), "replace")
        return page[: chance.randrange(len(page))] if chance.random() < 0.3 else page
    noise = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(chance.choice([1, 5, 100])):
        if noise:
            noise[chance.randrange(len(noise))] = chance.randrange(256)
    return chance.choice([b"", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0\0\xfe\xff"]) + bytes(noise)


def _prose(chance: Random) -> str:
    return f"<p>{sentence(chance.randrange(9))}</p>" * chance.choice([1, 3])


def _soup(chance: Random) -> str:
    """Tags that open and close in any order."""
    tags = (f"<{chance.choice(['', '/'])}{chance.choice(TAGS)}>" for _ in range(chance.choice([10, 100, 600])))
    return "".join(tag + chance.choice(["", "word ", "\0", "\n"]) for tag in tags)


def _deep(chance: Random) -> str:
    tag, depth = chance.choice(TAGS), chance.choice(DEPTHS)
    if chance.random() < 0.002:
        depth = 1_000_000
    return f"<{tag}>" * depth + "deep" + f"</{tag}>" * (depth if chance.random() < 0.5 else 0)


def _formatting(chance: Random) -> str:
    """Misnested formatting: the adoption agency algorithm copies what is open."""
    tags = [
        chance.choice(["b", "i", "u", "em", "a", "font", "nobr", "code"]) for _ in range(chance.choice([5, 30, 200]))
    ]
    return "".join(f"<{tag} c={i}>" for i, tag in enumerate(tags)) + "<p>x" + "".join(f"</{tag}>" for tag in tags)


def _attributes(chance: Random) -> str:
    many = chance.choice([1, 50, 3000])
    one = chance.choice(["a='", 'b="', "x=", "=", "href=javascript:", "\0=", "class='a ", "é=1 ", "<=", "/", "on'"])
    return f"<div {(one + ' ') * many}" + chance.choice([">", "/>", "", "'>", '">']) + "words"


def _long(chance: Random) -> str:
    size = chance.choice([10_000, 100_000]) if chance.random() < 0.1 else 2000
    return chance.choice(["<" * size, "<!--" * (size // 4), "x" * size, "<p>" + "\u00a0" * size, "&" * size,
        "</" * size, "\0" * size, "\n" * size, "<a href=" + "y" * size, "&#x" + "0" * size + "41;",
    "<![CDATA[" * (size // 9), "<!doctype " + "z" * size, "<?" * size, "]]>" * size])  # fmt: skip


def _entities(chance: Random) -> str:
    return "".join(chance.choice(ENTITIES) for _ in range(chance.choice([3, 300])))


def _unclosed(chance: Random) -> str:
    opening = (
        "<!--",
        "<script>",
        "<style>",
        "<textarea>",
        "<title>",
        "<![CDATA[",
        "<a href='",
        "<svg><script>",
        "<!",
        "<?",
    )
    return chance.choice(opening) + sentence(1) + chance.choice(["", "-->", "</script", "</style >", "]]"])


def _characters(chance: Random) -> str:
    ranges = [(0, 32), (0x80, 0xA0), (0xD800, 0xE000), (0xFDD0, 0xFDF0), (0xFFF0, 0x10000), (0x10FFF0, 0x110000),
        (0x300, 0x370), (0x2028, 0x202F)]  # fmt: skip
    low, high = chance.choice(ranges)
    return "".join(chr(chance.randrange(low, high)) for _ in range(chance.choice([5, 500])))


def _table(chance: Random) -> str:
    cell = chance.choice(
        ["<td colspan=99999999>", "<td rowspan=-1>", "<tr>x", "<caption>", "<col span=1000000>", "<td><table>"]
    )
    return "<table>" + cell * chance.choice([1, 40, 400]) + "words" + chance.choice(["", "</table>"])


def _head(chance: Random) -> str:
    return chance.choice([
        "<base href=x><link rel=canonical href='\ud800'>", "<link rel=canonical>",
        "<link rel='canonical' href='http://x/\0'>",
        "<meta http-equiv=content-type content='text/html; charset=utf-16'>", "<meta charset=>", "<title></title>" * 50,
        "<?xml version='1.0' encoding='utf-32'?>", "<link rel=canonical href=" + "u" * 100_000 + ">",
        "<frameset><frame src=x>",
    ])  # fmt: skip


PIECES: tuple[Callable[[Random], str], ...] = (
    _prose, _prose, _soup, _deep, _formatting, _attributes, _long, _entities, _unclosed, _characters, _table, _head,
)  # fmt: skip
