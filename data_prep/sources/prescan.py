"""The encoding that a page declares in its first bytes (HTML standard, 13.2.3.2, "prescan a byte stream").

    <!-- <meta charset=koi8-r> --><script>'<meta charset=big5>'</script><meta charset=utf-8>   ->   "utf-8"

Two things differ from the standard's algorithm, and agree with what the parser of a browser does afterwards (13.2.3.4,
"changing the encoding while parsing"): a declaration is also found after the first 1,024 bytes, and one in the text of
a script, style or title counts only if there is no other.
"""

import re
from collections.abc import Iterator

from headrace.data_prep.sources.encodings import encoding_of

PRESCAN_BYTES = 1024
"""The standard's limit."""
LATE_BYTES = 1 << 16
"""Bytes in which declarations of the page itself are searched for."""
MARKUP = re.compile(rb"<(?:!--|(meta)[\t\n\f\r /]|(/?)([a-z])|[!/?])", re.IGNORECASE)
TAG_NAME_END = re.compile(rb"[\t\n\f\r >]")
BEFORE_ATTRIBUTE = re.compile(rb"[\t\n\f\r /]*")
ATTRIBUTE_NAME = re.compile(rb"=?[^\t\n\f\r />=]*")
SPACES = re.compile(rb"[\t\n\f\r ]*")
UNQUOTED = re.compile(rb"[^\t\n\f\r >]*")
TEXT_ELEMENT = re.compile(rb"<(script|style|title|textarea|xmp|iframe|noembed|noframes)[\t\n\f\r />]", re.IGNORECASE)
"""Start tags of elements whose content has no tags (13.2.5)."""
CHARSET = re.compile(rb"charset[\t\n\f\r ]*=[\t\n\f\r ]*", re.IGNORECASE)
XML_ENCODING = re.compile(
    rb"<\?xml(?=[^>]*>)(?:(?!encoding).)*encoding[\x00- ]*=[\x00- ]*(?:\"([^\"]*)\"|'([^']*)')", re.DOTALL
)


class _BytesEndError(Exception):
    """The bytes end within markup."""


def declared_encoding(data: bytes) -> str | None:
    """Returns the encoding that the page ``data`` declares, or None.

    A declaration of UTF-16 that can be read as ASCII means UTF-8.
    """
    if data.startswith((b"<\0?\0x\0", b"\0<\0?\0x")):
        return "utf-16le" if data[0] else "utf-16be"
    head = data[:LATE_BYTES]
    encoding = None
    if CHARSET.search(head):
        encoding = next(_declarations(head, True), None) or next(_declarations(head[:PRESCAN_BYTES], False), None)
    encoding = encoding or _of_xml(head[:PRESCAN_BYTES])
    return {"utf-16le": "utf-8", "utf-16be": "utf-8"}.get(encoding, encoding) if encoding else None


def _declarations(data: bytes, passes_texts: bool) -> Iterator[str]:
    """Yields the encodings of the ``<meta>`` of ``data``, without those in scripts and the like if it passes them."""
    at = 0
    try:
        while markup := MARKUP.search(data, at):
            is_meta, slash, letter = markup.groups()
            if data.startswith(b"<!--", markup.start()):
                at = _after(data, b"-->", markup.start() + 2)  # <!--> is a comment
            elif is_meta:
                attributes = _Attributes(data, markup.end() - 1)
                encoding = _of_meta(attributes)
                at = attributes.at
                if encoding:
                    yield encoding
            elif letter:
                at = _after_tag(data, markup.start())
                if passes_texts and not slash and (text := TEXT_ELEMENT.match(data, markup.start())):
                    at = _after_text(data, text[1], at)
            else:
                at = _after(data, b">", markup.end() - 1)
    except _BytesEndError:
        return


class _Attributes:
    """The attributes of a tag, from ``at`` on ("get an attribute"): names in lower case, and values."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        while self._byte(BEFORE_ATTRIBUTE) != b">":
            start = self.at
            self._byte(ATTRIBUTE_NAME)
            name = self._data[start : self.at].lower()
            value = self._value() if self._byte(SPACES) == b"=" else b""
            yield name, value

    def _value(self) -> bytes:
        self.at += 1
        quote = self._byte(SPACES)
        start = self.at
        if quote in (b'"', b"'"):
            self.at = _after(self._data, quote, start + 1)
            return self._data[start + 1 : self.at - 1]
        self._byte(UNQUOTED)
        return self._data[start : self.at]

    def _byte(self, passed: re.Pattern[bytes]) -> bytes:
        """Returns the byte after ``passed``, a pattern that matches anywhere.

        Raises:
            _BytesEndError: when there is none.
        """
        match = passed.match(self._data, self.at)
        self.at = match.end() if match else self.at
        if self.at >= len(self._data):
            raise _BytesEndError
        return self._data[self.at : self.at + 1]


def _of_meta(attributes: _Attributes) -> str | None:
    """Returns the encoding that a ``<meta>`` with ``attributes`` declares."""
    seen = set()
    encoding, is_decided = None, False
    has_pragma, needs_pragma = False, False
    for name, value in attributes:
        if name in seen:
            continue
        seen.add(name)
        if name == b"http-equiv":
            has_pragma = value.lower() == b"content-type"
        elif name == b"content" and not is_decided and (in_content := _of_content(value)):
            encoding, is_decided, needs_pragma = in_content, True, True
        elif name == b"charset":
            encoding, is_decided, needs_pragma = encoding_of(value.decode("latin-1")), True, False
    if needs_pragma and not has_pragma:
        return None
    return "windows-1252" if encoding == "x-user-defined" else encoding


def _of_content(content: bytes) -> str | None:
    """Returns the encoding in the value of ``content`` ("extracting a character encoding from a meta element")."""
    if (match := CHARSET.search(content)) is None:
        return None
    rest = content[match.end() :]
    if rest[:1] in (b'"', b"'"):
        label, quote, _ = rest[1:].partition(rest[:1])
        return encoding_of(label.decode("latin-1")) if quote else None
    return encoding_of(re.split(rb"[\t\n\f\r ;]", rest, maxsplit=1)[0].decode("latin-1"))


def _of_xml(head: bytes) -> str | None:
    """Returns the encoding in the XML declaration of ``head`` ("get an XML encoding")."""
    match = XML_ENCODING.match(head)
    label = (match[1] or match[2] or b"") if match else b""
    return encoding_of(label.decode("latin-1")) if not any(byte <= 0x20 for byte in label) else None


def _after(data: bytes, what: bytes, start: int) -> int:
    """Returns the offset after the first ``what`` from ``start`` on.

    Raises:
        _BytesEndError: when there is none.
    """
    if (position := data.find(what, start)) < 0:
        raise _BytesEndError
    return position + len(what)


def _after_tag(data: bytes, start: int) -> int:
    """Returns the offset after the attributes of the tag at ``start``.

    Raises:
        _BytesEndError: when the tag does not end.
    """
    if (name_end := TAG_NAME_END.search(data, start)) is None:
        raise _BytesEndError
    attributes = _Attributes(data, name_end.start())
    for _ in attributes:
        pass
    return attributes.at


def _after_text(data: bytes, name: bytes, start: int) -> int:
    """Returns the offset of the end tag of the element ``name``, whose content begins at ``start``.

    Raises:
        _BytesEndError: when there is none.
    """
    if (end := re.compile(rb"</" + name + rb"[\t\n\f\r />]", re.IGNORECASE).search(data, start)) is None:
        raise _BytesEndError
    return end.start()
