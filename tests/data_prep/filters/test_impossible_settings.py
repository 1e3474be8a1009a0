"""Settings with which a filter could keep no page, or find nothing, are refused before a run starts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.data_prep.filters.c4.rules import Policy
from headrace.data_prep.filters.domains import AllowedDomains, AllowedUrls, BlockedDomains
from headrace.data_prep.filters.gopher.quality import WordCount, WordLength
from headrace.data_prep.filters.gopher.stop_words import StopWords
from headrace.data_prep.filters.line_corrections import CounterLine
from headrace.pipeline.core.errors import ConfigError


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


def test_settings_that_are_possible() -> None:
    assert StopWords(words=("der", "und", "straße"), min_words=3).min_words == 3
    assert WordCount(min_words=3, max_words=3).min_words == 3


NO_SITE = "write names such as example.org, without http:// and path"


@pytest.mark.parametrize(
    ("kind", "field", "text", "wrong", "remedy"),
    [
        (AllowedDomains, "path", "{}", "lists no site", NO_SITE),
        (
            AllowedDomains,
            "path",
            '{"https://b.org/": true, "https://a.org": [""]}',
            "lists no site ('https://a.org' is not the name of a host)",
            NO_SITE,
        ),
        (AllowedDomains, "path", '{"https://a.org": true, "b.org": true}', None, None),
        (BlockedDomains, "domains_path", "# none\n\n", "lists no site", NO_SITE),
        (BlockedDomains, "domains_path", "a.org/x\n", "lists no site ('a.org/x' is not the name of a host)", NO_SITE),
        (BlockedDomains, "domains_path", "a.org\nb.org/x\n", None, None),
        (AllowedUrls, "path", "\n \n", "lists no URL", "write one URL a line"),
        (AllowedUrls, "path", "http://a.org/x\n", None, None),
    ],
)
def test_lists_that_match_no_page(tmp_path: Path, kind, field, text, wrong, remedy) -> None:
    path = tmp_path / "list"
    path.write_text(text)
    rule = kind(**{field: str(path)})
    if wrong is None:
        rule.check()
    else:
        with pytest.raises(ConfigError) as caught:
            rule.check()
        assert str(caught.value) == f"{rule.type}.{field}: {path} {wrong}; {remedy}"


def test_no_list_of_sites_is_needed() -> None:
    BlockedDomains().check()
