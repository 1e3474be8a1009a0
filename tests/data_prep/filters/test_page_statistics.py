"""conf/cleaning/fineweb.yaml against datatrove's own filters: same pages, same reasons, same text.

datatrove cuts words and sentences with spaCy, which it does not install. Here it gets our words and sentences: those
of datatrove at the time of FineWeb.
"""

import gzip
import json
from pathlib import Path

import pytest
import yaml
from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
    c4_filters,
    fineweb_quality_filter,
    gopher_quality_filter,
    gopher_repetition_filter,
)
from datatrove.pipeline.filters.base_filter import BaseFilter, get_filter_result
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import headrace
from examples import fineweb
from headrace.data_prep.clean import Cleaning
from headrace.data_prep.filters.filter import Filter
from headrace.data_prep.filters.page_statistics import words_of
from headrace.data_prep.filters.punkt import sentences_of
from headrace.datatrove import Clean
from headrace.pipeline.core.settings import decode

PRESET = Path(__file__).parents[3] / "conf" / "cleaning" / "fineweb.yaml"
THEIRS: dict[str, BaseFilter] = {
    "gopher_repetition": GopherRepetitionFilter(),
    "gopher_quality": GopherQualityFilter(),
    "c4_lines": C4QualityFilter(filter_no_terminal_punct=False),
    "fineweb_quality": FineWebQualityFilter(),
}
REASONS = {
    "duplicate_parts_lines": ("dup_line_frac", "dup_line_char_frac"),
    "duplicate_parts_paragraphs": ("dup_para_frac", "dup_para_char_frac"),
    **{f"top_ngram_{n}": (f"top_{n}_gram",) for n in (2, 3, 4)},
    **{f"duplicate_ngrams_{n}": (f"duplicated_{n}_n_grams",) for n in range(5, 11)},
    "word_count": ("gopher_short_doc", "gopher_long_doc"),
    "word_length": ("gopher_below_avg_threshold", "gopher_above_avg_threshold"),
    "symbols": ("gopher_too_many_hashes", "gopher_too_many_ellipsis"),
    "bullet_lines": ("gopher_too_many_bullets",),
    "ellipsis_lines": ("gopher_too_many_end_ellipsis",),
    "alphabetic_words": ("gopher_below_alpha_threshold",),
    "stop_words": ("gopher_enough_stop_words",),
    "curly_bracket": ("curly_bracket",),
    "lorem_ipsum": ("lorem_ipsum",),
    "sentences": ("too_few_sentences",),
    "line_punctuation": ("line_punct_ratio", "empty"),
    "short_lines": ("short_line_ratio",),
    "duplicate_lines": ("char_dup_ratio",),
    "line_breaks": ("list_ratio",),
}
"""Our rule → datatrove's names for it."""


@pytest.fixture(scope="module", autouse=True)
def same_words():
    with pytest.MonkeyPatch.context() as patch:
        for module in (gopher_quality_filter, gopher_repetition_filter, fineweb_quality_filter):
            patch.setattr(module, "split_into_words", lambda text, language: words_of(text))
        patch.setattr(c4_filters, "split_into_sentences", lambda text, language: sentences_of(text))
        yield


@pytest.fixture(scope="module")
def ours() -> dict[str, Filter]:
    filters = decode(Cleaning, yaml.safe_load(PRESET.read_text(encoding="utf-8"))).filters
    return {rule.type: rule for rule in filters if rule.type in THEIRS}


def difference(text: str, name: str, ours: dict[str, Filter]) -> str | None:
    """Returns the difference between the verdicts of the two filters ``name`` on ``text``."""
    mine, other = Document(text, "a:0"), Document(text, "a:0")
    drop = ours[name].judge(mine)
    stays, reason = get_filter_result(THEIRS[name].filter(other))
    if stays or drop is None:
        return None if stays and drop is None and mine.text == other.text else f"{name}: {drop} {reason}"
    return None if reason in REASONS[drop.rule.partition(".")[2]] else f"{name}: {drop} {reason}"


def differences(texts: list[str], ours: dict[str, Filter]) -> list[str]:
    """Returns what ``difference`` finds. All filters of a page come one after the other: they share its words."""
    return [found for text in texts for name in THEIRS if text and (found := difference(text, name, ours))]


def test_equal_to_datatrove_on_some_real_pages(ours, web_texts) -> None:
    assert differences(web_texts[::15], ours) == []


def test_the_example_of_fineweb_decides_as_the_script_of_datatrove(web_texts) -> None:
    preset = yaml.safe_load(PRESET.read_text(encoding="utf-8"))["filters"]
    block = Clean([rule for rule in preset if rule["type"] in THEIRS])
    kept = 0
    for text in filter(None, web_texts[3::15]):
        mine, other = Document(text, "a:0"), Document(text, "a:0")
        stays = all(get_filter_result(step.filter(other))[0] for step in fineweb.original_rules(lambda name: None))
        assert get_filter_result(block.filter(mine))[0] == stays
        assert not stays or mine.text == other.text
        kept += stays
    assert kept > 3


@pytest.mark.slow
def test_the_example_of_fineweb_runs(real_pages, tmp_path, monkeypatch) -> None:
    pages = [page["html"] for page in real_pages[:40]]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps({"text": page}) + "\n" for page in pages))
    monkeypatch.setattr("sys.argv", ["fineweb.py", f"{tmp_path}/*.jsonl", str(tmp_path), "--workers", "1"])
    fineweb.main()
    rows = map(json.loads, gzip.decompress(next(tmp_path.glob("output/*.gz")).read_bytes()).splitlines())
    verdicts = map(headrace.Cleaner("fineweb"), map(headrace.text, pages))
    assert [row["text"] for row in rows] == [verdict.text for verdict in verdicts if verdict]


WORDS = ["the", "a", "of", "Have", "mill", "mill.", "#", "...", "…", "- x", "•", "12", "extraordinarily", "end. Next"]
RARE = ["[1]", "{", "Lorem ipsum", "JavaScript", "uses cookies", "x" * 1001, " "]
LINE = st.lists(st.sampled_from([*WORDS, *WORDS, *RARE]), max_size=9).map(" ".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(lines=st.lists(LINE, min_size=1, max_size=40), times=st.sampled_from([1, 1, 3, 12]))
@example(lines=["- a mill"], times=12)
@example(lines=["the mill of water.", "", "the mill of water."], times=3)
def test_equal_to_datatrove_on_made_up_pages(lines, times, ours) -> None:
    text = "\n".join(lines * times)
    if any(any(c.isalnum() for c in word) for word in words_of(text)):  # datatrove divides by the number of words
        assert differences([text], ours) == []
