"""ARC files made by hand, for the tests."""

VERSION_1 = b"1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n"
VERSION_1_1 = (
    b"1 1 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n"
    b'<?xml version="1.0" encoding="UTF-8"?>\n<arcmetadata><software>Heritrix 1.14</software></arcmetadata>\n'
)
VERSION_2 = (
    b"2 0 InternetArchive\n"
    b"URL IP-address Archive-date Content-type Result-code Checksum Location Offset Filename Archive-length\n"
)


def arc_record(
    block: bytes,
    url: bytes = b"http://example.org/",
    content_type: bytes = b"text/html",
    length: bytes | None = None,
    version: int = 1,
) -> bytes:
    """One record; ``length`` overrides the true one."""
    middle = content_type + b" 200 a1b2c3 - 1234 a.arc" if version == 2 else content_type
    return b"%s 192.0.2.7 20260102030405 %s %s\n%s\n" % (url, middle, length or b"%d" % len(block), block)


def description(block: bytes = VERSION_1) -> bytes:
    return arc_record(block, b"filedesc://a.arc", b"text/plain")
