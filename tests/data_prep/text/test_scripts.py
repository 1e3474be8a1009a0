import pytest

from headrace.data_prep.text.scripts import UNKNOWN, main_script, script_counts, script_of

TEXTS = {
    "Der Fluss treibt die Mühle.": "Latn",
    "Река течёт": "Cyrl",
    "Το ποτάμι": "Grek",
    "النهر يجري": "Arab",
    "הנהר זורם": "Hebr",
    "नदी बहती है": "Deva",
    "নদী বয়ে যায়": "Beng",
    "แม่น้ำไหล": "Thai",
    "ແມ່ນ້ຳໄຫຼ": "Laoo",
    "ទន្លេហូរ": "Khmr",
    "မြစ်စီးဆင်း": "Mymr",
    "강이 흐른다": "Hang",
    "川が流れる。東京都千代田区": "Jpan",
    "河水流动": "Hani",
    "カタカナ": "Jpan",
    "ﾊﾝｶｸ": "Jpan",
    "ＦＵＬＬ": "Latn",
    "მდინარე": "Geor",
    "գետը": "Armn",
    "ወንዙ": "Ethi",
    "12:30 … 47 %": UNKNOWN,
    "": UNKNOWN,
    "abc где": "Cyrl",
    "Moscow is Москва": "Latn",
}


@pytest.mark.parametrize(("text", "script"), TEXTS.items())
def test_the_script_of_most_letters(text, script) -> None:
    assert main_script(text) == script


def test_every_letter_is_counted_once() -> None:
    text = "Москва (Moscow) 東京 1,000"
    assert script_counts(text) == {"Cyrl": 6, "Latn": 6, "Hani": 2}
    assert sum(script_counts(text).values()) == sum(map(str.isalpha, text))
    assert script_of("1") == ""


def test_chinese_that_names_a_japanese_product_is_chinese() -> None:
    assert main_script("这家公司在日本销售的产品名称是の字开头的商品，消费者都很喜欢") == "Hani"
