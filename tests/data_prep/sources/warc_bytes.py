"""WARC records made by hand, whole or wrong, for the tests."""

PAGE = b"<html><head><title>t</title></head><body><main><p>%s</p></main></body></html>"


def http(body: bytes, content_type: bytes = b"text/html", status: bytes = b"200 OK", extra: bytes = b"") -> bytes:
    return b"HTTP/1.1 " + status + b"\r\nContent-Type: " + content_type + b"\r\n" + extra + b"\r\n" + body


def record(
    block: bytes,
    kind: bytes = b"response",
    url: bytes = b"http://example.org/",
    content_type: bytes = b"application/http; msgtype=response",
    length: bytes | None = None,
) -> bytes:
    """One record; ``length`` overrides the true Content-Length."""
    return (
        b"WARC/1.1\r\nWARC-Type: " + kind + b"\r\nWARC-Date: 2026-01-02T03:04:05Z\r\nWARC-Target-URI: " + url
        + b"\r\nContent-Type: " + content_type + b"\r\nContent-Length: " + (length or b"%d" % len(block))
        + b"\r\n\r\n" + block + b"\r\n\r\n"
    )  # fmt: skip


def page(number: int) -> bytes:
    """Returns a whole record whose page holds ``page <number>`` and a few more words."""
    return record(http(PAGE % (b"page %d, with a few more words" % number)), url=b"http://example.org/%d" % number)
