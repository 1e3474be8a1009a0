"""The type and charset of a page from its Content-Type headers, as they occur."""

import pytest

from headrace.data_prep.sources.body_types import ContentType, content_type


@pytest.mark.parametrize(
    ("headers", "essence", "charset"),
    [
        # one header
        ([], "", None),
        ([""], "", None),
        (["text/html"], "text/html", None),
        (["TEXT/HTML; CHARSET=UTF-8"], "text/html", "UTF-8"),
        (["\ttext/html ;\tcharset=utf-8 "], "text/html", "utf-8"),
        (['text/html; charset="utf-8"'], "text/html", "utf-8"),
        (['text/html; charset="ut\\f-8'], "text/html", "utf-8"),
        (['text/html; charset="utf-8" ignored'], "text/html", "utf-8"),
        (["text/html;charset=utf-8;charset=koi8-r"], "text/html", "utf-8"),
        (["text/html;charset=;charset=koi8-r"], "text/html", "koi8-r"),
        (["text/html;a=b;;c;charset=koi8-r"], "text/html", "koi8-r"),
        (['text/html;a=";charset=big5";charset=koi8-r'], "text/html", "koi8-r"),
        (['text/html;a=",";charset=koi8-r'], "text/html", "koi8-r"),
        (["application/xhtml+xml;charset=koi8-r"], "application/xhtml+xml", "koi8-r"),
        (["*/*"], "", None),
        (["text/"], "", None),
        (["/html"], "", None),
        (["html"], "", None),
        (["text/html/xml"], "", None),
        (["text html"], "", None),
        # several headers, and lists
        (["text/html, text/html; charset=utf-8"], "text/html", "utf-8"),
        (["text/html; charset=utf-8", "text/html"], "text/html", "utf-8"),
        (["text/html; charset=utf-8, text/html; charset=koi8-r"], "text/html", "koi8-r"),
        (["text/plain; charset=koi8-r", "text/html"], "text/html", None),
        (["text/html", "text/plain"], "text/plain", None),
        (["text/html, */*"], "text/html", None),
        (["text/html,,"], "text/html", None),
        (["text/html;a=\",\", text/plain"], "text/plain", None),
        # what the standard refuses
        (["text/html charset=utf-8"], "text/html", "utf-8"),
        (["text/html, charset=utf-8"], "text/html", "utf-8"),
        (["text/html,charset=utf-8,text/html"], "text/html", "utf-8"),
        (["text/html;charset:utf-8"], "text/html", "utf-8"),
        (["text/html; x charset = 'utf-8'"], "text/html", "utf-8"),
        (['"text/html"'], "text/html", None),
        (["text/html (x)"], "text/html", None),
        (["charset=koi8-r"], "", "koi8-r"),
        (["; charset=koi8-r"], "", "koi8-r"),
        (["text/html; oldcharset=koi8-r"], "text/html", None),
        (["text/plain; charset=koi8-r", "text/html charset=utf-8"], "text/plain", "koi8-r"),
    ],
)  # fmt: skip
def test_content_types(headers, essence, charset):
    assert content_type(headers) == ContentType(essence, charset)
