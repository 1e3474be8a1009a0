"""Estimates against counts by hand, and limits against the shares of pages that fail them."""

import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.data import language_estimation
from benchmarks.data.language_estimation import (
    FEWEST_PAGES,
    FEWEST_WORDS,
    MOST_WORDS,
    estimated,
    frequent_words,
    numbers,
    transferred,
)
from headrace.data_prep.filters.language.by_language import LanguageValues, adapted
from headrace.data_prep.filters.page_statistics import DatatroveStatistics, ScriptStatistics
from headrace.data_prep.filters.quality_rules import (
    FineWebQuality,
    GopherQuality,
    GopherRepetition,
    StopWords,
    WordCount,
    WordLength,
)
from headrace.pipeline.core.settings import decode
from tests.command_line import headrace_here

TEXT = "The mill is old - and # the wheel of it...\n- It was in the river.\n\nIt was in the river.\nNobody saw it…"


@pytest.mark.parametrize("filter_type", [GopherQuality, GopherRepetition, FineWebQuality])
def test_a_threshold_has_the_number_that_its_rule_compares(filter_type) -> None:
    """A page passes with a limit at its number and fails with one just beyond."""
    rules = [rule for rule in filter_type().rules if not isinstance(rule, StopWords)]
    found = numbers([TEXT], [filter_type(counting="datatrove")])
    assert [index for index, _ in found] == [place for place, rule in enumerate(rules) for _ in rule.thresholds]
    for (index, limit), [number] in found.items():
        is_floor, others = limit.startswith("min_"), dict.fromkeys(rules[index].thresholds, 1e9)
        open_ = {name: -1e9 if name.startswith("min_") else value for name, value in others.items()}
        for shift, passes in ((0.001, True), (-0.001, False)):
            copied = object.__new__(type(rules[index]))
            copied.__dict__.update(vars(rules[index]) | open_ | {limit: number - shift if is_floor else number + shift})
            assert (copied.failure(DatatroveStatistics(TEXT)) is None) == passes, (rules[index], limit)


def test_stop_words_are_the_most_frequent_words() -> None:
    source = random.Random(0)
    words = [f"w{n}" for n in range(300)]
    weights = [1 / (n + 1) for n in range(300)]
    pages = [source.choices(words, weights, k=400) for _ in range(50)]
    counts = Counter(word for page in pages for word in page)
    expected = [word for word in words if counts[word] >= 0.008 * counts.total()]
    assert set(frequent_words(pages)) == set(expected)
    assert FEWEST_WORDS <= len(expected) <= MOST_WORDS
    assert frequent_words(pages)[0] == "w0"


def test_numbers_and_marks_are_no_stop_words_and_there_are_at_least_eight() -> None:
    page = ["1", ".", ",", "The", "the", *(f"x{n}" for n in range(500))]
    words = frequent_words([page])
    assert len(words) == FEWEST_WORDS
    assert words[0] == "the"


@pytest.mark.parametrize("is_floor", [True, False])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_as_large_a_share_fails(share, is_floor) -> None:
    source = np.random.default_rng(0)
    reference, own = source.normal(10, 2, 1000), source.normal(30, 9, 2000)
    limit = float(np.quantile(reference, share if is_floor else 1 - share))
    new = transferred(limit, is_floor, reference, own)
    failing = np.mean(own < new if is_floor else own > new)
    assert failing == pytest.approx(share, abs=0.002)


def test_a_limit_that_no_page_fails_keeps_its_ratio_to_the_median() -> None:
    reference, own = np.array([4.0, 5.0, 6.0]), np.array([8.0, 10.0, 12.0])
    assert transferred(3.0, True, reference, own) == 6.0
    assert transferred(9.0, False, reference, own) == 18.0
    assert transferred(0.3, False, np.zeros(3), own) == 0.3


def made_pages(letters: int, number: int, seed: int) -> list[str]:
    """Pages of made words of ``letters`` to twice as many letters."""
    source = random.Random(seed)
    words = ["".join(source.choices("abcdeio", k=source.randint(letters, 2 * letters))) for _ in range(200)]
    return [" ".join(source.choices(words, k=source.randint(30, 120))) for _ in range(number)]


def test_the_estimate_drops_as_many_pages_as_in_the_reference() -> None:
    filters = (GopherQuality(counting="scripts", rules=(WordCount(), WordLength(), StopWords())),)
    pages = {"en_Latn": made_pages(3, 400, 0), "xx_Latn": made_pages(7, 300, 1), "yy_Latn": made_pages(3, 99, 2)}
    values = estimated(pages, filters, "en_Latn", {})
    assert list(values) == ["xx_Latn"]
    assert len(pages["yy_Latn"]) < FEWEST_PAGES
    [own] = (adapted(template, decode(LanguageValues, values["xx_Latn"])) for template in filters)
    for rule, other in zip(filters[0].rules[:1], own.rules[:1], strict=True):
        before, after = (
            sum(judge.failure(ScriptStatistics(page)) is not None for page in pages[name]) / len(pages[name])
            for judge, name in ((rule, "en_Latn"), (other, "xx_Latn"))
        )
        assert before > 0.1
        assert after == pytest.approx(before, abs=0.02)
    assert own.rules[1].max_characters > 20
    assert len(own.rules[2].words) >= FEWEST_WORDS
    kept = [own.rules[2].failure(ScriptStatistics(page)) is None for page in pages["xx_Latn"]]
    assert sum(kept) > 0.8 * len(kept)


def test_values_of_a_language_without_spaces_are_for_letters() -> None:
    filters = (GopherRepetition(counting="scripts"), GopherQuality(counting="scripts"))
    pages = {"en_Latn": made_pages(3, 120, 0), "zh_Hani": ["今天天气很好我们去公园散步" * 9] * 120}
    values = estimated(pages, filters, "en_Latn", {"zh_Hani": 1.6})["zh_Hani"]
    assert values["rules"]["top_ngram_2"]["words"] == 3
    assert "characters_per_word" not in values
    repetition = adapted(filters[0], decode(LanguageValues, values))
    assert [rule.words for rule in repetition.rules[2:]] == [3, 5, 6, 8, 10, 11, 13, 14, 16]


@pytest.mark.slow
def test_values_of_each_language_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pages in Swahili pass the estimated rules of a second run, in as large a share as those in English."""
    text = "na ya wa kwa ni katika watu mto maji nyumba kubwa siku hii leo kesho jana mji wetu sana hapa kama ili"
    swahili = text.split()
    english = (
        "the mill of the town and the wheel have turned to the river that we know "
        + "it was in a day of the year with all that came."
    ).split()
    source, rows = random.Random(0), []
    for words in (english, swahili):
        for number in range(120):
            text = ".\n".join(" ".join(source.choices(words, k=12)) for _ in range(2 + number // 15))
            rows.append(json.dumps({"text": f"{text}."}) + "\n")
    (tmp_path / "a.jsonl").write_text("".join(rows))
    given = [
        "source=jsonl",
        f"source.paths={tmp_path}/a.jsonl",
        "cleaning=multilingual",
        "until=clean",
        "name=multilingual",
    ]
    given += [f"root={tmp_path}/runs", "cleaning.filters.language_fasttext.min_score=0", "~cleaning.filters.pii"]
    given += ["cleaning.filters.by_language.filters.gopher_repetition.rules=[]"]
    assert headrace_here("run", *given).returncode == 0
    target = tmp_path / "values.json"
    language_estimation.main(["multilingual", "--to", str(target), "--root", f"{tmp_path}/runs"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == f"written  {target}"
    values = json.loads(target.read_text(encoding="utf-8"))
    assert [line.partition(" ")[0] for line in printed] == ["sw_Latn", "written"]
    assert {"en_Latn", "de_Latn", "km_Khmr"} < values.keys()
    assert set(values["sw_Latn"]["rules"]["stop_words"]["words"]) <= set(swahili)
    given += [f"cleaning.filters.by_language.path={target}"]
    assert headrace_here("run", *given, "name=again").returncode == 0
    rates = {}
    for folder in (tmp_path / "runs" / "clean").glob("*/manifest.json"):
        counts = json.loads(folder.read_text(encoding="utf-8"))["counts"]
        rates[folder] = [counts.get(f"routed:{name}:kept", 0) for name in ("en_Latn", "sw_Latn")]
    assert len(rates) == 2
    assert any(60 < kept[0] < 120 and abs(kept[0] - kept[1]) <= 8 for kept in rates.values()), rates


def test_values_need_a_run_with_the_filter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "One page."}\n')
    given = ["source=jsonl", f"source.paths={tmp_path}/a.jsonl", "cleaning=none", "until=clean", "name=plain"]
    assert headrace_here("run", *given, f"root={tmp_path}/runs").returncode == 0
    with pytest.raises(SystemExit):
        language_estimation.main(["plain", "--to", f"{tmp_path}/values.json", "--root", f"{tmp_path}/runs"])
    assert "RUN: has no filter by_language; give a run with cleaning=multilingual" in capsys.readouterr().err
