"""The encoding that a page declares, as the HTML standard reads it."""

import time

import pytest

from headrace.data_prep.sources.prescan import LATE_BYTES, declared_encoding

META = b"<meta charset=koi8-r>"
PRAGMA = b"http-equiv=content-type"


@pytest.mark.parametrize(
    ("page", "encoding"),
    [
        # how an attribute is written
        (b"<meta charset=koi8-r>", "koi8-r"),
        (b'<META CHARSET="KOI8-R">', "koi8-r"),
        (b"<meta\tcharset\n=\f'koi8-r'\r>", "koi8-r"),
        (b"<meta/charset=koi8-r>", "koi8-r"),
        (b"<meta charset=koi8-r/>", None),
        (b"<meta charset=koi8-r />", "koi8-r"),
        (b'<meta charset="koi8-r"/>', "koi8-r"),
        (b'<meta charset=" koi8-r\n">', "koi8-r"),
        (b"<meta charset=\"koi8-r'>", None),
        (b"<meta a=b charset=koi8-r c>", "koi8-r"),
        (b"<meta a='>' charset=koi8-r>", "koi8-r"),
        (b'<meta " charset=koi8-r>', "koi8-r"),
        (b"<meta a charset=koi8-r>", "koi8-r"),
        (b"<meta a = charset=koi8-r>", None),
        (b"<meta = charset=koi8-r>", "koi8-r"),
        (b"<meta charset= >" + META, "koi8-r"),
        (b"<meta charset>" + META, "koi8-r"),
        (b"<meta charset=ascii charset=koi8-r>", "windows-1252"),
        (b"<meta charset=big5><meta charset=koi8-r>", "big5"),
        (b"<meta charset=no-such><meta charset=koi8-r>", "koi8-r"),
        (b"<meta charset=\xeb><meta charset=koi8-r>", "koi8-r"),
        (b"<meta charset=koi8-r", None),
        (b"<meta charset='koi8-r", None),
        (b"<meta charset=", None),
        (b"<meta", None),
        (b"<", None),
        (b"", None),
        # what is no <meta>
        (b"<metax charset=koi8-r>", None),
        (b"<metacharset=koi8-r>", None),
        (b"<meta>charset=koi8-r", None),
        (b"</meta charset=koi8-r>", None),
        (b"<\xc3\xa9 <meta charset=koi8-r>", "koi8-r"),
        (b"&lt;meta charset=big5>" + META, "koi8-r"),
        (b"<p title='<meta charset=big5>'>" + META, "koi8-r"),
        (b"<p title=<meta charset=big5>" + META, "koi8-r"),
        (b"<p title=\"<meta charset=big5>'>" + META, None),
        (b"</p title='<meta charset=big5>'>" + META, "koi8-r"),
        # comments and other markup
        (b"<!-- <meta charset=big5> -->" + META, "koi8-r"),
        (b"<!-->" + META, "koi8-r"),
        (b"<!--->" + META, "koi8-r"),
        (b"<!-- > <meta charset=big5> --!> -->" + META, "koi8-r"),
        (b"<!-- <meta charset=koi8-r>", None),
        (b"<!doctype html '<meta charset=big5>'>" + META, "koi8-r"),
        (b"<! <meta charset=big5>" + META, "koi8-r"),
        (b"<? <meta charset=big5>" + META, "koi8-r"),
        (b"</ <meta charset=big5>" + META, "koi8-r"),
        (b"</>" + META, "koi8-r"),
        (b"<!", None),
        # http-equiv
        (b"<meta " + PRAGMA + b" content='text/html; charset=koi8-r'>", "koi8-r"),
        (b"<meta content='text/html; charset=koi8-r' " + PRAGMA + b">", "koi8-r"),
        (b"<meta HTTP-EQUIV=Content-Type CONTENT='Charset=KOI8-R'>", "koi8-r"),
        (b"<meta content='text/html; charset=koi8-r'>", None),
        (b"<meta http-equiv=refresh content='text/html; charset=koi8-r'>", None),
        (b"<meta http-equiv='content-type ' content='charset=koi8-r'>", None),
        (b"<meta name=content-type content='charset=koi8-r'>", None),
        (b"<meta " + PRAGMA + b" content='charset=koi8-r' charset=big5>", "big5"),
        (b"<meta " + PRAGMA + b" charset=big5 content='charset=koi8-r'>", "big5"),
        (b"<meta " + PRAGMA + b" charset=no-such content='charset=koi8-r'>", None),
        (b"<meta content='charset=no-such' charset=big5>", "big5"),
        (b"<meta charset=big5 content='charset=koi8-r'>", "big5"),
        # extracting an encoding from the value of content
        (b"<meta " + PRAGMA + b" content='charset  =\n koi8-r ; x'>", "koi8-r"),
        (b"<meta " + PRAGMA + b" content='charset=\"koi8-r\"'>", "koi8-r"),
        (b"<meta " + PRAGMA + b" content='charset=\"koi8-r'>", None),
        (b"<meta " + PRAGMA + b" content=\"charset='koi8-r'\">", "koi8-r"),
        (b"<meta " + PRAGMA + b" content='charset charset=koi8-r'>", "koi8-r"),
        (b"<meta " + PRAGMA + b" content='xcharset=koi8-r'>", "koi8-r"),
        (b"<meta " + PRAGMA + b" content='charset=koi8-r,charset=big5'>", None),
        (b"<meta " + PRAGMA + b" content='charset='>", None),
        (b"<meta " + PRAGMA + b" content='koi8-r'>", None),
        # encodings that a declaration in ASCII cannot mean
        (b"<meta charset=utf-16>", "utf-8"),
        (b"<meta charset=UTF-16BE>", "utf-8"),
        (b"<meta charset=ucs-2>", "utf-8"),
        (b"<meta charset=x-user-defined>", "windows-1252"),
        (b"<meta charset=iso-2022-kr>", "replacement"),
        # XML
        (b"<?xml version='1.0' encoding='koi8-r'?><p>", "koi8-r"),
        (b'<?xml version="1.0" encoding = "utf-16"?>', "utf-8"),
        (b"<?xml encoding='koi8-r'?><meta charset=big5>", "big5"),
        (b"<?xml encoding='koi8-r'", None),
        (b"<?xml encoding=koi8-r?>", None),
        (b"<?xml encoding='koi8-r\"?>", None),
        (b"<?xml encoding='koi8 -r'?>", None),
        (b"<?XML encoding='koi8-r'?>", None),
        (b" <?xml encoding='koi8-r'?>", None),
        (b"<?xml encoding encoding='koi8-r'?>", None),
        ("<?xml version='1.0'?>".encode("utf-16-le"), "utf-16le"),
        ("<?xml version='1.0'?>".encode("utf-16-be"), "utf-16be"),
        # where the parser of a browser sees no tag
        (b"<script>'<meta charset=big5>'</script>" + META, "koi8-r"),
        (b"<SCRIPT type=x>if (a<b) x = \"'\" + '<meta charset=big5>'</SCRIPT >" + META, "koi8-r"),
        (b"<style><meta charset=big5></style>" + META, "koi8-r"),
        (b"<title><meta charset=big5></title>" + META, "koi8-r"),
        (b"<textarea></title><meta charset=big5></textarea>" + META, "koi8-r"),
        (b"<scripts><meta charset=big5></scripts>" + META, "big5"),
        (b"<script>'<meta charset=big5>'</script>", "big5"),
        (b"<script>'<meta charset=big5>'", "big5"),
        (b"<script></scripty>'<meta charset=big5>'</script>" + META, "koi8-r"),
        # after the first 1,024 bytes
        (b"<!--" + b"x" * 2000 + b"-->" + META, "koi8-r"),
        (b"<p>" * 1000 + META, "koi8-r"),
        (b"<style>" + b"x" * 20_000 + b"</style>" + META, "koi8-r"),
        (b" " * LATE_BYTES + META, None),
        (b" " * 2000 + b"<script>'<meta charset=big5>'</script>", None),
    ],
)
def test_declarations(page, encoding):
    assert declared_encoding(page) == encoding


@pytest.mark.parametrize(
    "piece",
    [b"<", b"<!--", b"<a ", b"<meta ", b"<meta charset", b"<p a='", b"=", b"charset=", b"<script>", b"</", b"<?xml "],
)
def test_the_time_does_not_grow_with_the_square_of_the_bytes(piece):
    start = time.process_time()
    declared_encoding((b"charset=" + piece * LATE_BYTES)[:LATE_BYTES])
    assert time.process_time() - start < 1
