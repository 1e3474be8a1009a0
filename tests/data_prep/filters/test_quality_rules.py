"""Each MassiveText rule at its threshold; n-grams against a plain count."""

from collections import Counter
from collections.abc import Callable

import pytest
from datatrove.data import Document
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.lines import Policy
from headrace.data_prep.filters.line_corrections import CounterLine
from headrace.data_prep.filters.page_statistics import DatatroveStatistics, PageStatistics
from headrace.data_prep.filters.quality_rules import (
    AlphabeticWords,
    BulletLines,
    DuplicateLines,
    DuplicateNgrams,
    DuplicateParts,
    EllipsisLines,
    FineWebQuality,
    GopherQuality,
    GopherRepetition,
    LineBreaks,
    LinePunctuation,
    ShortLines,
    StopWords,
    Symbols,
    TopNgram,
    WordCount,
    WordLength,
)
from headrace.pipeline.core.errors import ConfigError

LINES = "one two\n" * 10


@pytest.mark.parametrize(
    ("rule", "text", "value"),
    [
        (WordCount(), "a " * 50, None),
        (WordCount(), "a " * 49, "49"),
        (WordCount(), "a " * 100_000, None),
        (WordCount(), "a " * 100_001, "100001"),
        (WordLength(), "abc def", None),
        (WordLength(), "abc de", "2.5000"),
        (WordLength(), "a" * 10, None),
        (WordLength(), "a" * 10 + " " + "b" * 11, "10.5000"),
        (WordLength(), "", "0.0000"),
        (Symbols(), "# " + "a " * 9, None),
        (Symbols(), "## " + "a " * 9, "0.2000"),
        (Symbols(), "a... b… " + "c " * 8, "0.2000"),
        (Symbols(), "a... b# " + "c " * 8, None),
        (BulletLines(), "• a\n" * 9 + "b", None),
        (BulletLines(), "  - a\n" * 10 + "b", "0.9091"),
        (EllipsisLines(), "a…\n" * 3 + "b\n" * 7, None),
        (EllipsisLines(), "a...\n" * 4 + "b\n" * 6, "0.4000"),
        (AlphabeticWords(), "a1 b c d 5", None),
        (AlphabeticWords(), "a b c 4 5", "0.6000"),
        (StopWords(), 'The mill "of" it', None),
        (StopWords(), "The mill, the wheel", "1"),
        (DuplicateParts(), "aa\naa\naa\nbbbbb\nccccc\nddddd\neeeee", None),
        (DuplicateParts(), "aa\naa\naa\nbbbbbb\ncccccc\ndddddd", "0.3333"),
        (DuplicateParts(), "aaaaaa\naaaaaa\nb\nc\nd\ne", "0.3750"),
        (DuplicateParts(part="paragraphs"), "a\na\n\nb\n\nc\n\nd", None),
        (DuplicateParts(part="paragraphs"), "a\n\n a\n \na\n\nb", "0.5000"),
        (TopNgram(words=2, max_fraction=0.20), "a b " + "c d e f g h i j", None),
        (TopNgram(words=2, max_fraction=0.20), "a b x a b c d e f g", "0.4000"),
        (TopNgram(words=2, max_fraction=0.20), "a", None),
        (DuplicateNgrams(words=5, max_fraction=0.15), "a b c d e x a b c d e", "0.9091"),
        (DuplicateNgrams(words=5, max_fraction=0.15), "a b c d e x a b c d f", None),
    ],
)
def test_rule(rule, text, value) -> None:
    assert rule.failure(PageStatistics(text)) == value


def test_the_first_failure_is_the_reason() -> None:
    assert GopherQuality().judge(Document("a b", "a:0")) == Drop("gopher_quality.word_count", "2")
    assert GopherRepetition().judge(Document(LINES, "a:0")) == Drop("gopher_repetition.duplicate_parts_lines", "0.9000")
    only = GopherRepetition(rules=(TopNgram(words=3, max_fraction=0.1),))
    assert only.judge(Document("a b c", "a:0")) == Drop("gopher_repetition.top_ngram_3", "1.0000")


words = st.lists(st.sampled_from(["a", "bb", "ccc"]), max_size=14)


def covered(words: list[str], n: int, wanted) -> float:
    marked = set()
    for start in range(len(words) - n + 1):
        if wanted(tuple(words[start : start + n])):
            marked |= set(range(start, start + n))
    return sum(len(words[i]) for i in marked) / max(sum(map(len, words)), 1)


@given(words=words, n=st.integers(2, 6))
def test_ngrams_equal_a_plain_count(words, n) -> None:
    page = PageStatistics(" ".join(words))
    counts = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
    repeated = covered(words, n, lambda gram: counts[gram] > 1)
    failure = DuplicateNgrams(words=n, max_fraction=0).failure(page)
    assert failure == (f"{repeated:.4f}" if repeated > 0 else None)
    if counts:
        size = max((number, sum(map(len, gram))) for gram, number in counts.items())
        tops = [gram for gram, number in counts.items() if (number, sum(map(len, gram))) == size]
        fractions = [f"{covered(words, n, lambda gram, top=top: gram == top):.4f}" for top in tops]
        assert TopNgram(words=n, max_fraction=0).failure(page) in fractions


@pytest.mark.parametrize(
    ("rule", "text", "value"),
    [
        (LinePunctuation(), "a.\n" * 3 + "b\n" * 22, None),
        (LinePunctuation(), "a.\n" * 2 + "b\n" * 22, "0.0833"),
        (LinePunctuation(), "你好。\n" + "b\n\n" * 7, None),
        (LinePunctuation(marks=(".",)), "你好。\nb", "0.0000"),
        (LinePunctuation(), " \n", "0.0000"),
        (ShortLines(), "x" * 30 + "\n" + "y" * 31, None),
        (ShortLines(), "x" * 30 + "\n" + "y" * 30 + "\n\n" + "z" * 31, None),
        (ShortLines(), ("x" * 30 + "\n") * 3 + "z" * 31, "0.7500"),
        (DuplicateLines(), "a" * 99 + "\nb\nb", None),
        (DuplicateLines(), "a" * 98 + "\nb\nb\nb", "0.0198"),
        (DuplicateLines(), "\n \n \n" + "a" * 96, None),
        (LineBreaks(), "a b c d e f g\nh\ni\nj", None),
        (LineBreaks(), "a\nb\n\nc", "1.0000"),
    ],
)
def test_rule_of_fineweb(rule, text, value) -> None:
    assert rule.failure(DatatroveStatistics(text)) == value


def test_the_first_failure_of_fineweb_is_the_reason() -> None:
    assert FineWebQuality().judge(Document("Home\nAbout\nContact", "a:0")) == Drop(
        "fineweb_quality.line_punctuation", "0.0000"
    )
    prose = "The wheel of the old mill was turning all day, and nobody came to see it.\nThen it rained for three days."
    assert FineWebQuality().judge(Document(prose, "a:0")) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: StopWords(words=("the", "of", "of"), min_words=3),
            "stop_words.min_words: 3 of 2 different words: every page would be dropped; give at most 2, or more words",
        ),
        (
            lambda: StopWords(words=("der", "Und")),
            "stop_words.words: 'Und' is never found in text in lower case; write 'und'",
        ),
        (
            lambda: Policy(phrases=("Cookie policy",)),
            "policy.phrases: 'Cookie policy' is never found in text in lower case; write 'cookie policy'",
        ),
        (
            lambda: CounterLine(counted=("likes", "Views")),
            "counter_line.counted: 'Views' is never found in text in lower case; write 'views'",
        ),
        (
            lambda: WordCount(min_words=9, max_words=3),
            "word_count.min_words: 9 is above max_words = 3: every page would be dropped; exchange them",
        ),
        (
            lambda: WordLength(min_characters=5, max_characters=4),
            "word_length.min_characters: 5 is above max_characters = 4: every page would be dropped; exchange them",
        ),
    ],
)
def test_refused_settings(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value) == message
