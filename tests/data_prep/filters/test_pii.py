"""PII that is masked, look-alikes that are not, and real pages."""

import itertools

import pytest
from datatrove.data import Document
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.filters.pii import (
    ISSUERS,
    CardNumber,
    Email,
    IpAddress,
    MaskPii,
    PhoneNumber,
    is_card,
    is_public_address,
    luhn,
    mask,
)
from headrace.pipeline.core.errors import ConfigError


def found(kind, text: str) -> list[str]:
    return [text[start:end] for start, end in kind.matches(text)]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (
            Email(),
            "Write to Ann.Lee+x@mail.example.co.uk, or <b_c%d@e.org>.",
            ["Ann.Lee+x@mail.example.co.uk", "b_c%d@e.org"],
        ),
        (Email(), "mailto:a@b.org?subject=x", ["a@b.org"]),
        (Email(), "müller@exämple.de", ["müller@exämple.de"]),
        (Email(), "@name, a@b, logo@2x.png, a@b.c, user@@host.org, git@github", []),
        (Email(), "x" * 65 + "@a.org", []),
        (Email(), "a@b.xn--p1ai, a@b.org--x, c@d-e.org/f@d.org", ["a@b.xn--p1ai", "a@b.org", "c@d-e.org", "f@d.org"]),
        (
            IpAddress(),
            "from 8.8.8.8, 2001:4860:4860::8888 and 93.184.216.34:8080.",
            ["8.8.8.8", "2001:4860:4860::8888", "93.184.216.34"],
        ),
        (IpAddress(), "127.0.0.1 10.1.2.3 192.168.0.1 172.16.5.5 169.254.1.1 224.0.0.1 0.0.0.0 255.255.255.255", []),
        (IpAddress(), "addr:8.8.8.8 at:8.8.0.187 http://8.8.4.4/x", ["8.8.8.8", "8.8.0.187", "8.8.4.4"]),
        (IpAddress(), "9.4.0.187-9.4.0.188 2a00:1450::200e: x", ["9.4.0.187", "9.4.0.188", "2a00:1450::200e"]),
        (IpAddress(), "org:core:2.9.10.8, 1.2.3.4-1.2.3.9, nginx/93.184.216.34, x-93.184.216.34, 93.4.0.1-2", []),
        (IpAddress(), "256.1.1.1, 8.8.8, 8.8.8.8.8, 1.2.3.4-beta, 08.8.8.8, a8.8.8.8", []),
        (IpAddress(), "version 8.1.2.3, v. 8.1.2.3, Firmware: 8.1.2.3, Section 8.1.2.3, Chrome/80.1.2.3", []),
        (IpAddress(), "fe80::1, ::1, 12:30:45, std::face, 2001:db8::1, 2001::x, 3:4:5", []),
        (CardNumber(), "4111 1111 1111 1111 and 5555-5555-5555-4444", ["4111 1111 1111 1111", "5555-5555-5555-4444"]),
        (
            CardNumber(),
            "378282246310005, 3782 822463 10005 or 30569309025904.",
            ["378282246310005", "3782 822463 10005", "30569309025904"],
        ),
        (
            CardNumber(),
            "6011111111111117 3530111333300000 6200000000000005",
            ["6011111111111117", "3530111333300000", "6200000000000005"],
        ),
        (CardNumber(), "4111 1111 1111 1112, 4111 1111-1111 1111, 41111111111111110, x4111111111111111", []),
        (CardNumber(), "No:378282246310005,4111111111111111,12/25", ["378282246310005", "4111111111111111"]),
        (CardNumber(), "0,4111111111111111 4111111111111111,5 http://a.org/x:4111111111111111", []),
        (CardNumber(), "ISBN 978-0-306-40615-7, 9780306406157, 1234567812345670, 0.4111111111111111", []),
        (
            PhoneNumber(),
            "Call (415) 776-3109 or +44 20 7946 0958, 1-800-800-1504.",
            ["(415) 776-3109", "+44 20 7946 0958", "1-800-800-1504"],
        ),
        (PhoneNumber(), "Fax\n415.776.3109\n", ["415.776.3109"]),
        (PhoneNumber(), "Tel./Fax:415-776-3109/415-776-3108 (or", ["415-776-3109", "415-776-3108"]),
        (PhoneNumber(regions=("DE",)), "030 23125000 und (415) 776-3109", ["030 23125000"]),
        (PhoneNumber(regions=("DE", "US")), "030 23125000, (415) 776-3109", ["030 23125000", "(415) 776-3109"]),
        (PhoneNumber(regions=()), "(415) 776-3109 +14157763109", ["+14157763109"]),
        (PhoneNumber(), "4157763109 orders on 2019-04-18 12:30:45, 18/04/2019, 04.18.2019", []),
        (PhoneNumber(), "$1,234,567.89, 1 234 567, 100 000 000, 3.14159265358", []),
        (PhoneNumber(), "ISBN 0-306-40615-2, ISBN-13: 978-0-306-40615-7, ISBN-10 2-345-67890-1, ISSN 2049-3630", []),
        (PhoneNumber(), "v10.0.19041.1288, 123-45-6789, 192.168.100.200, id-415-776-3109, 1aaa-123-45-678-910.org", []),
        (PhoneNumber(), "600/800/1000, doi: 10.3389/fnins.2022.852506, 21.03.2000 23, http://a.org/415-776-3109", []),
        (PhoneNumber(), "a.org/Fax:415-776-3109 img/415-776-3109 http://x/Fax:415-776-3109", []),
    ],
)
def test_what_is_found(kind, text, expected) -> None:
    assert found(kind, text) == expected


def test_everything_is_masked_and_counted() -> None:
    document = Document("Ann: ann@a.org, (415) 776-3109.\nBob: bob@b.org, 4111 1111 1111 1111, 8.8.8.8", "a:0")
    assert MaskPii().judge(document) is None
    assert document.text == "Ann: <email>, <phone number>.\nBob: <email>, <card number>, <ip address>"
    assert document.metadata["masked_pii"] == {"email": 2, "ip_address": 1, "card_number": 1, "phone_number": 1}
    plain = Document("Nothing to see.", "a:1")
    assert MaskPii().judge(plain) is None
    assert (plain.text, plain.metadata) == ("Nothing to see.", {})


def test_replacements_and_kinds_are_settings() -> None:
    document = Document("a@b.org 8.8.8.8", "a:0")
    MaskPii(kinds=(Email(replacement="email@example.com"),)).judge(document)
    assert document.text == "email@example.com 8.8.8.8"
    MaskPii(kinds=(IpAddress(replacement=""),)).judge(document)
    assert document.text == "email@example.com "
    assert document.metadata["masked_pii"] == {"email": 1, "ip_address": 1}


def check_digit(digits: str) -> str:
    """The Luhn digit of ``digits``, by the rule as written: double every second from the right, sum the digits."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        total += sum(map(int, str(int(digit) * 2))) if place % 2 == 0 else int(digit)
    return str(-total % 10)


@st.composite
def cards(draw) -> str:
    first, last, lengths = draw(st.sampled_from(ISSUERS))
    beginning = str(draw(st.integers(first, last)))
    length = draw(st.sampled_from(lengths))
    rest = draw(st.text("0123456789", min_size=length - 1 - len(beginning), max_size=length - 1 - len(beginning)))
    return beginning + rest + check_digit(beginning + rest)


@given(number=cards(), separator=st.sampled_from([" ", "-"]), place=st.integers(0, 18), step=st.integers(1, 9))
def test_cards_are_masked_and_with_one_digit_changed_are_not(number, separator, place, step) -> None:
    grouped = separator.join(number[i : i + 4] for i in range(0, len(number), 4))
    assert is_card(number)
    assert found(CardNumber(), f"card: {number}.") == [number]
    if len(number) == 16:
        assert found(CardNumber(), f"card {grouped}!") == [grouped]
    place %= len(number)
    changed = number[:place] + str((int(number[place]) + step) % 10) + number[place + 1 :]
    assert not luhn(changed)
    assert found(CardNumber(), f"card: {changed}.") == []


@given(parts=st.lists(st.integers(0, 300), min_size=4, max_size=4))
def test_addresses_of_version_4_are_public_by_the_registries(parts) -> None:
    text = ".".join(map(str, parts))
    a, b = parts[:2]
    if max(parts) > 255 or a in (0, 10, 127) or a >= 224 or (a, b) in [(192, 168), (169, 254)]:
        assert not is_public_address(text)
    if max(parts) <= 255 and a in (8, 93, 151):
        assert found(IpAddress(), f"at {text},") == [text]


@given(text=st.text("ab1@.- \n(+", max_size=60))
def test_matches_do_not_overlap_and_masking_leaves_the_rest(text) -> None:
    for kind in MaskPii().kinds:
        matches = list(kind.matches(text))
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(matches))
        rest = text
        for start, end in reversed(matches):
            rest = rest[:start] + rest[end:]
        assert mask(text, matches, "") == rest


def test_long_texts_without_any_do_not_stall() -> None:
    for text in ("a" * 33_333, "1" * 33_333, "a.b-" * 8_000 + "@", "1.2." * 8_000, "2001:" * 3_333, "12 " * 1_700):
        assert MaskPii().judge(Document(text, "a:0")) is None


def test_unknown_region() -> None:
    with pytest.raises(ConfigError) as caught:
        PhoneNumber(regions=("UX",))
    assert str(caught.value).startswith("pii.kinds.phone_number.regions: unknown region 'UX'; known: AC, AD, AE, ")


def test_dates_prices_and_numbers_of_real_pages_stay(web_texts) -> None:
    """Years, prices and times that real pages hold are all there after masking."""
    total = 0
    for text in web_texts[:100]:
        document = Document(text, "a:0")
        MaskPii().judge(document)
        total += sum(document.metadata.get("masked_pii", {}).values())
        for mark in ("$", "€", "%", "ISBN", "©", "20 20"):
            assert document.text.count(mark) == text.count(mark)
    assert 0 < total < 50


WORDS = """
почта διεύθυνση إلى אל हिन्दी বাংলা தமிழ் తెలుగు ગુજરાતી ਪੰਜਾਬੀ ಕನ್ನಡ മലയാളം සිංහල ติดต่อที่ ຕິດຕໍ່ທີ່ សូមទាក់ទង မြန်မာ
བོད་ཡིག 联系 まで メール ﾒｰﾙ 문의는 ქართული հայերեն አማርኛ ᠮᠣᠩᠭᠣᠯ ꆈꌠ ㄅㄆ （： ²
"""
"""A word of each script, some of which begin or end in a combining mark."""
KINDS = {
    Email(): ("kefu@example.cn", "ann.lee_7+x@mail.example.co.uk", "123456@qq.com"),
    IpAddress(): ("8.8.4.4", "93.184.216.34", "2001:4860:4860::8888"),
    CardNumber(): ("4111111111111111", "4111 1111 1111 1111", "3782-822463-10005"),
    PhoneNumber(regions=("US", "JP")): ("+44 20 7946 0958", "(415) 776-3109", "03-3224-9999"),
}
SPACES = "\u0020\u00a0\u1680\u200b\u202f\u205f\u2060\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
HYPHENS = "\u002d\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d\u058a\u05be\u1806\u30fc\u00ad"
DOTS = "\u002e\u2024\ufe52\uff0e"
DIGITS = [chr(zero) for zero in (0x660, 0x6F0, 0x966, 0x9E6, 0xE50, 0xED0, 0x1040, 0x17E0, 0xFF10)]
FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


def test_it_is_found_beside_words_of_every_script_which_stay() -> None:
    for (kind, values), word, space in itertools.product(KINDS.items(), WORDS.split(), ("", " ")):
        for value, (before, after) in itertools.product(values, ((word, word), (word, "中"), ("中", word))):
            text = f"{before}{space}{value}{space}{after}"
            assert found(kind, text) == [value], text


def test_it_is_found_with_every_space_hyphen_and_dot() -> None:
    for kind, value, marks, mark in (
        (CardNumber(), "4111 1111 1111 1111", SPACES, " "),
        (CardNumber(), "4111-1111-1111-1111", HYPHENS, "-"),
        (IpAddress(), "93.184.216.34", DOTS + "\u3002\uff61\u06d4", "."),
        (Email(), "kefu@mail.example.cn", DOTS + "\u3002\uff61", "."),
        (Email(), "kefu@mail.example.cn", "@\uff20\ufe6b", "@"),
        (PhoneNumber(), "+44 20 7946 0958", SPACES, " "),
        (PhoneNumber(), "415-776-3109", HYPHENS, "-"),
        (PhoneNumber(), "415.776.3109", DOTS, "."),
    ):
        for other, (before, after) in itertools.product(marks, (("", ""), ("联系", "我们"), ("к ", " и"), ("ที่", "ที่"))):
            text = f"{before}{value.replace(mark, other)}{after}"
            assert found(kind, text) == [value.replace(mark, other)], ascii(text)


def test_it_is_found_in_digits_of_other_scripts_and_in_full_width() -> None:
    for zero, value in itertools.product(DIGITS, ("8.8.4.4", "4111 1111 1111 1111", "+44 20 7946 0958")):
        kind = {".": IpAddress(), "1": CardNumber(), "4": PhoneNumber()}[value[1]]
        written = "".join(chr(ord(zero) + int(one)) if one.isdigit() else one for one in value)
        assert found(kind, f"那{written}那") == [written]
    for kind, values in KINDS.items():
        for value in values:
            written = value.translate(FULL_WIDTH).replace(" ", "\u3000")
            assert found(kind, f"那{written}那") == [written]


def test_a_part_of_a_name_or_of_a_longer_number_is_not() -> None:
    numbers = [(kind, value) for kind, values in KINDS.items() for value in values if not isinstance(kind, Email)]
    for (kind, value), letter in itertools.product(
        numbers, ["a", "Z", "é", "ß", "ệ", "e\u0301", "ａ", "７", "٧", "7", "_"]
    ):
        is_phone = isinstance(kind, PhoneNumber)  # phonenumbers does not look at an underscore
        if not value.startswith(("+", "(")) and not (is_phone and letter == "_"):
            assert value not in found(kind, f"联{letter}{value}系"), (letter, value)
            assert value not in found(kind, f"联{value}{letter}系"), (value, letter)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("用户@例子.广告 我買@屋企.香港 二ノ宮@黒川.日本 사용자@예시.한국", "E E E E"),
        ("用户@例子.中国请联系 사용자@예시.한국으로 ทดสอบ@ตัวอย่าง.ไทยครับ", "E请联系 E으로 Eครับ"),
        ("δοκιμή@παράδειγμα.δοκιμή медведь@с-балалайкой.рф संपर्क@डाटामेल.भारत", "E E E"),
        ("Pelé@example.com, mu\u0308ller@exa\u0308mple.de, kefu@例子.cn, kefu@example.中国的", "E, E, E, E的"),
        ("иван7@почта.рф, номер7@mail.ru, info@example.рф, info@mail.com.Пишите", "E, номерE, E, E.Пишите"),
        ("Wir@例子.中国, 请随时发送电子邮件到我们公司@例子.中国", "E, 请随时发送电子邮件到我们公司@例子.中国"),
        (
            "请看a@b.com。Thanks。谢谢@CCTV。Thanks, logo@2x.png画像",
            "请看E。Thanks。谢谢@CCTV。Thanks, logo@2x.png画像",
        ),
        ("a@b.com.联系我们吧大家 ...ann@a.org - -ann@a.org ООО-ann@a.org", "E.联系我们吧大家 ...E - -E ООО-E"),
        ("a.org/ann@a.org, @ann.org, ann@a, ann@@a.org", "a.org/ann@a.org, @ann.org, ann@a, ann@@a.org"),
    ],
)
def test_addresses_of_other_scripts(text, expected) -> None:
    document = Document(text, "a:0")
    MaskPii(kinds=(Email(replacement="E"),)).judge(document)
    assert document.text == expected


VERSIONS = """## [1.10.0.0] - 2024-01-02|## [10.0.200.1]|## 1.2.3.4|# v1.2.3.4|### Version 8.1.2.3
== 1.2.3.4 / 2010-01-02|version 10.0.19.1|v. 8.1.2.3|pkg==1.2.3.4|pkg >= 1.2.3.4, != 1.2.3.5|~> 1.2.3.4
^1.2.3.4|"version": "1.2.3.4"|## MyLib 1.2.3.4 (2020-01-02)|## Changes in 1.2.3.4
* **1.2.3.4** - 2019-01-02|[1.2.3.4] - 2020-01-01|1.2.3.4 - January 2, 2019|1.2.3.4 / 2 March 2019
1.2.3.4 (2019.01.02)|What's new in 1.2.3.4|from version 1.2.3.4 to 1.2.3.5 and 1.2.3.6|since 1.2.3.4
4.1.2.3 Title|4.1.2.3. The scope of this part|  4.1.2.3 概要|Section 8.1.2.3|§ 4.1.2.3|第4.1.2.3节
раздел 4.1.2.3|п. 4.1.2.3|版本8.1.2.3|版本：8.1.2.3|8.1.2.3版|バージョン8.1.2.3|버전 8.1.2.3
เวอร์ชัน8.1.2.3|Версия 8.1.2.3|الإصدار 8.1.2.3|Verze 8.1.2.3|foo (1.2.3.4) unstable; urgency=low
foo 1.2.3.4.tar.gz|1.2.3.4-beta|1.2.3.4 beta|1.2.3.4.5|Chrome/80.1.2.3"""
ADDRESSES = """8.8.8.8|8.8.8.8 is a resolver|the host 8.8.8.8 Is up|# Host 8.8.4.4|## 93.184.216.34
93.184.216.34 Google|ip=8.8.8.8|8.8.8.8 - - [10/Oct/2000:13:55:36 -0700]|8.8.8.8 2020-01-02 12:00:01 GET
ip.addr == 8.8.8.8|ip.addr==8.8.8.8|IP:8.8.8.8|ב-8.8.8.8|地址:8.8.8.8|(8.8.8.8)|- 8.8.8.8
* 93.184.216.34 - down|root@8.8.8.8|8.8.8.8 是服务器。|8.8.8.8:80|8.8.8.0/24|8.8.8.8。2024年
version 3 at 8.8.8.8|무제45.33.32.156를|8.8.8.8-ში"""


def test_versions_and_sections_are_no_addresses() -> None:
    lines = [*VERSIONS.replace("\n", "|").split("|"), "1.2.3.4\n=======", "1.2.3.4\n\n- Faster\n- Smaller"]
    assert [line for line in lines if found(IpAddress(), line) or found(IpAddress(), f"Text.\n\n{line}\nText.")] == []
    assert [line for line in ADDRESSES.replace("\n", "|").split("|") if len(found(IpAddress(), line)) != 1] == []


def test_a_number_after_or_before_a_card_is_another() -> None:
    assert found(CardNumber(), "2012 5555 5555 5555 4444 21 슈팅, 4111\u00a01111\u202f1111 1111") == [
        "5555 5555 5555 4444",
        "4111\u00a01111\u202f1111 1111",
    ]
