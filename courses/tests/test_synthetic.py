"""Random sequences written several times: their form, what decides them, refusals, and a run from them to rows."""

import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace_courses.synthetic import PART_DOCUMENTS, Synthetic


def texts(source: Synthetic) -> list[str]:
    return [document.text for file in source.files() for document, _ in source.read(file.name)]


def test_a_sequence_comes_several_times():
    source = Synthetic(documents=300, symbols=30, least_symbols=3, most_symbols=5, copies=3, separator="=")
    lengths = set()
    for text in texts(source):
        first, *others = text.split(" = ")
        assert others == [first, first]
        assert all(len(symbol) == 2 and symbol.islower() for symbol in first.split())
        lengths.add(len(first.split()))
    assert lengths == {3, 4, 5}
    assert {symbol for text in texts(source) for symbol in text.split()} == {"=", *map(source.symbol, range(30))}
    assert [source.symbol(number) for number in (0, 25, 26, 29)] == ["aa", "az", "ba", "bd"]


def test_without_separator_and_without_repeats():
    for text in texts(Synthetic(documents=50, symbols=6, least_symbols=6, most_symbols=6, distinct=True)):
        symbols = text.split()
        assert symbols[:6] == symbols[6:]
        assert sorted(symbols[:6]) == list("abcdef")


def test_a_document_depends_on_the_settings_and_its_number_alone():
    few, many = Synthetic(documents=5), Synthetic(documents=PART_DOCUMENTS + 7)
    assert [file.name for file in many.files()] == ["part-00000", "part-00001"]
    assert len(list(many.read("part-00001"))) == 7
    ids = [document.id for document, _ in many.read("part-00001")]
    assert ids[:2] == ["part-00001:0", "part-00001:1"]
    assert texts(few) == [many.text(number) for number in range(5)] == texts(few)
    assert many.text(PART_DOCUMENTS) == next(many.read("part-00001"))[0].text != many.text(0)
    assert texts(Synthetic(documents=5, seed=1)) != texts(few)
    one, other = (source.files()[0] for source in (few, Synthetic(documents=5, seed=1)))
    assert one.sha256 == few.checksum("part-00000") != other.sha256
    assert texts(few)[0].startswith("bo by bf as ay")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"least_symbols": 26}, "source.least_symbols: is 26, and most_symbols is 25; give one that is not larger"),
        (
            {"symbols": 9, "distinct": True},
            "source.most_symbols: is 25, and there are 9 distinct symbols; make it smaller, or give more symbols",
        ),
        (
            {"separator": "ab"},
            "source.separator: 'ab' is a symbol, or has white space at its ends; give a word such as = or |",
        ),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigError) as caught:
        Synthetic(**settings)
    assert str(caught.value) == message
