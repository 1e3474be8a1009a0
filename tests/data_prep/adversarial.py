"""Texts made to cost more than linear time: by backtracking, nesting, repetition or a missing end.

``TEXTS`` gives, by name, a function from a number of characters to a text of about that length. The pieces of
``PREFIXES`` are the beginnings of matches of some expression of the project, so each is tried again and again.
"""

import bz2
import functools
import gzip
from collections.abc import Callable
from random import Random

import zstandard

PREFIXES = (
    "http://", "www.", "a@", "@a.", "a@a.", "1.", "1.1.", "1 1-", "+1 ", "4111-", "[1", "[edit", "[citation needed",
    "<", "</", "<!--", "<a href='", "<meta charset=", "&", "&#", "{", "\\", '"', '"""', "'", "'''", '"""\\', ":a", "a:",
    ". ", ". . ", "? ", "!", "a.b. ", "ab. ", "mr. ", "--", "...", "…", "``", "''", "('", ",--", "$", "%s",
    "lorem ipsu", "javascrip", "privacy polic", "terms of us", "read more..", "items in car", "sign-i", "1.2k ",
    "\n\n", "\r\n", "\n \n", "\t", "\x1f", "WARC/1.0\n", "#", "# ", "- ", "| ", ">>> ", ".. a::", "a (b): ", "def f(",
    "a\u0301\u0316", "\u0301\u0316", "\u0345", "\u0130", "\u03a3", "\u1ed9", "\ufb03", "\u200b", "\u200d", "\xad",
    "\u4e2d", "\u304b", "\u0e01", "\uac00", "\u1100\u1161", "\uf900", "\U0001f600", "\u0661", "\xa0", "\u2028",
)  # fmt: skip
WORDS = ("the", "river", "mill", "of", "and", "wheel", "turns", "water", "stone", "have", "that", "season")
"""Words of ordinary prose, some of them stop words."""


def repeated(piece: str) -> Callable[[int], str]:
    """Nothing but ``piece``."""
    return lambda length: (piece * (length // len(piece) + 1))[:length]


def run_in_word(character: str) -> Callable[[int], str]:
    """A run of ``character`` that neither begins nor ends the text."""
    return lambda length: f"a{character * length}b"


def _numbered(piece: str) -> Callable[[int], str]:
    """Returns ``piece`` with a number that changes, so nothing occurs twice."""
    return lambda length: "".join(piece.format(n) for n in range(length // (len(piece) + 4)))


@functools.lru_cache(maxsize=4)
def _mixed(length: int) -> str:
    """Returns all prefixes and words in a random order with a fixed seed."""
    chance = Random(0)
    return "".join(chance.choices((*PREFIXES, *WORDS, " ", "\n"), k=length // 4))[:length]


@functools.lru_cache(maxsize=4)
def _letters(length: int) -> str:
    """One word of random letters."""
    return "".join(Random(0).choices("abcdefghijklmnopqrst", k=length))


@functools.lru_cache(maxsize=4)
def _prose(length: int) -> str:
    """Sentences on one line."""
    chance = Random(1)
    sentences = (" ".join(chance.choices(WORDS, k=9)).capitalize() for _ in range(length // 50 + 1))
    return ". ".join(sentences)[: max(length - 1, 0)] + "."


TEXTS: dict[str, Callable[[int], str]] = {
    **{f"only {piece!a}": repeated(piece) for piece in ("a", " ", ".", "1", "\n", "\r", "\0", "@", "[", "(", "x ")},
    **{f"only {piece!a}": repeated(piece) for piece in PREFIXES},
    **{f"a word with {piece!a}": run_in_word(piece) for piece in (" ", ".", "-", "!", "\xa0", "\t", "\u0301")},
    "letters": _letters,
    "a line of sentences": _prose,
    "many distinct lines": _numbered("line number {} of many.\n"),
    "repeated lines": repeated("The same line as all of the others on this page.\n"),
    "two lines in turn": repeated("The one line of this long page.\nAnd the other line of this page.\n"),
    "distinct words": _numbered("w{} "),
    "nested tags": lambda length: "<div>" * (length // 11) + "</div>" * (length // 11),
    "unclosed nesting": repeated("<table><tr><td>"),
    "nested brackets": lambda length: "[" * (length // 2) + "]" * (length // 2),
    "a long address": lambda length: "http://example.org/" + "a" * length,
    "a long host": lambda length: "http://" + "a." * (length // 2) + "org/",
    "addresses": _numbered("http://e{}.org/a?b#c "),
    "marks out of order": lambda length: "a" + "\u0301\u0316" * (length // 2),
    "mixture": _mixed,
}  # fmt: skip
"""Functions by name: each makes a text of about this number of characters."""

GZIP_MAGIC = b"\x1f\x8b\x08\0"
STORED = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x00\xff\x7f\x00\x80"
"""A gzip header and that of a block of 32,767 stored bytes."""


def _bytes(piece: bytes) -> Callable[[int], bytes]:
    return lambda length: (piece * (length // len(piece) + 1))[:length]


def _noise(piece: bytes) -> Callable[[int], bytes]:
    """``piece`` before noise that is drawn at random, always the same, again and again."""
    chance = Random(2)
    return _bytes(b"".join(piece + chance.randbytes(chance.randrange(40)) for _ in range(999)))


JUNK: dict[str, Callable[[int], bytes]] = {
    "gzip magics": _bytes(GZIP_MAGIC),
    "gzip magics and noise": _noise(GZIP_MAGIC),
    "gzip stored blocks, nested": _bytes(STORED),
    "gzip with an endless name": _bytes(b"\x1f\x8b\x08\x08\0\0\0\0\0\xffn"),
    "empty gzip members": _bytes(gzip.compress(b"", mtime=0)),
    "gzip members that end early": _bytes(gzip.compress(b"text " * 50, mtime=0)[:-9]),
    "zstd magics": _bytes(b"\x28\xb5\x2f\xfd"),
    "zstd magics and noise": _noise(b"\x28\xb5\x2f\xfd"),
    "zstd raw blocks, nested": _bytes(b"\x28\xb5\x2f\xfd\x00\x58\xf8\xff\x03"),
    "empty zstd frames": _bytes(zstandard.ZstdCompressor().compress(b"")),
    "zstd skippable frames": _bytes(b"\x28\xb5\x2f\xfd\x50\x2a\x4d\x18\0\0\0\0"),
    "zstd dictionaries": _bytes(b"\x5d\x2a\x4d\x18\x04\0\0\0\x28\xb5\x2f\xfd"),
    "bz2 magics": _bytes(b"BZh9"),
    "bz2 block magics": _bytes(b"BZh91AY&SY"),
    "bz2 magics and noise": _noise(b"BZh91AY&SY"),
    "empty bz2 members": _bytes(bz2.compress(b"")),
    "WARC starts": _bytes(b"WARC/1.0\n"),
    "WARC headers without length": _bytes(b"WARC/1.0\n" * 7000 + b"\n\n"),
    "WARC records without content": _bytes(b"WARC/1.0\nContent-Length: 0\n\n\n\n"),
    "WARC records, nested": _bytes(b"WARC/1.0\nContent-Length: 100000\n\n"),
    "WARC records before line ends": lambda length: (
        b"".join(b"WARC/1.0\nContent-Length: %08d\n\n" % (length // 2 - 35 * n - 35) for n in range(length // 70))
        + b"\r" * (length // 2)
    ),
    "line ends": _bytes(b"\r"),
    "JSON lines": _bytes(b'{"text": "a"}\n'),
    "JSON brackets": _bytes(b"["),
    "JSON escapes": lambda length: b'{"text": "' + b"\\ud800" * (length // 6) + b'"}',
    "JSON digits": lambda length: b'{"text": ' + b"9" * length + b"}",
    "random bytes": lambda length: Random(3).randbytes(length),
}
"""Functions by name: each makes the content of a file of about this number of bytes."""


def hostile_text(chance: Random, most_characters: int) -> str:
    """Returns one of TEXTS with at most this number of characters."""
    return chance.choice(sorted(TEXTS.items()))[1](chance.randrange(1, most_characters))


def hostile_bytes(chance: Random, most_bytes: int) -> bytes:
    """Returns one of JUNK with at most this number of bytes."""
    return chance.choice(sorted(JUNK.items()))[1](chance.randrange(1, most_bytes))
