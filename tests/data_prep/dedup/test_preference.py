"""The copy that stays: ranks by hand, and survivors against a brute force that sorts by plain keys."""

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
from datatrove.data import Document

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.preference import LARGEST_SCORE, LAST, Preference, hours_of, number_at, ordered
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.report.stage_warnings import warnings
from tests.data_prep.dedup.corpus import deal, deduplicate, family, slow_jaccard
from tests.stage_run import RunStage

LENIENT = Dedup(bands=40, rows=2, buckets=3)
DATES = ("", "2019-05-01", "2023-11-30T23:59:59Z", "2023-12-01T00:00:00Z", "2024-02-30", "yesterday")
HOURS = {"2019-05-01": 432_408, "2023-11-30T23:59:59Z": 472_607, "2023-12-01T00:00:00Z": 472_608}
SCORES: tuple[Any, ...] = (0.5, 0.5001, 0.99, -2, -2.5, 0, -0.0, 3_000_000_000, "0.7", True, None)
HOSTS = ("wikipedia.org", "en.wikipedia.org", "notwikipedia.org", "example.com")


@pytest.mark.parametrize(
    ("date", "hours"),
    [
        *HOURS.items(),
        ("1970-01-01", 0),
        *((date, 472_615) for date in ("2023-12-01 07:30", "Fri, 01 Dec 2023 09:30:00 +0200", "1701415800")),
        *((bad, None) for bad in (*DATES[:1], *DATES[4:])),
    ],
)
def test_dates(date: str, hours: int | None) -> None:
    assert hours_of(date) == hours


@pytest.mark.parametrize("date", ["1969-12-31", "0001-01-01", "9999-01-01", "2023-13-01", "2023-1-1", "²⁰²³-01-01"])
def test_what_is_no_date_of_our_time_is_none(date: str) -> None:
    assert hours_of(date) is None


@pytest.mark.parametrize("keep", ["longest", "most_letters", "newest", "oldest", "highest"])
@pytest.mark.parametrize("preferred", [(), ("wikipedia.org", "b/")])
def test_survivors_are_those_of_brute_force(
    run_stage: RunStage, tmp_path: Path, keep: Any, preferred: tuple[str, ...]
) -> None:
    chance = random.Random(f"{keep} {preferred}")
    texts, metadata = {}, {}
    for number in range(12):
        for copy, text in enumerate(family(chance, 4, n_words=60, changes=2)):
            name = f"{chance.choice('abc')}/{number}.jsonl:{copy}"
            spaced = text.replace(" ", chance.choice((" ", "  ", " - ")))
            texts[name] = spaced
            metadata[name] = {"date": chance.choice(DATES), "url": f"https://{chance.choice(HOSTS)}/x"}
            metadata[name]["classifier"] = {"hq": chance.choice(SCORES)}
    score = "classifier.hq" if keep == "highest" else None
    dedup = dataclasses.replace(LENIENT, keep=keep, score=score, preferred=preferred)
    result = deduplicate(run_stage, tmp_path, deal(texts, 3), dedup, metadata)
    assert set(result.kept()) == kept_by_hand(texts, metadata, keep, bool(preferred))
    assert len(result.kept()) < len(texts)
    undated = sum(metadata[name]["date"] not in HOURS for name in texts)
    unscored = sum(metadata[name]["classifier"]["hq"] in SCORES[-3:] for name in texts)
    counts = {"undated": undated if keep in ("newest", "oldest") else 0, "unscored": unscored if score else 0}
    assert {name: result.duplicates.counts[name] for name in counts} == counts
    shown = warnings("duplicates", result.duplicates)
    assert len(shown) == (keep in ("newest", "oldest", "highest"))
    if score:
        assert f"{unscored} of 48 documents have no number in metadata.classifier.hq" in shown[0]


def kept_by_hand(texts: dict[str, str], metadata: dict[str, dict[str, Any]], keep: str, prefers: bool) -> set[str]:
    def key(name: str) -> tuple[Any, ...]:
        host, hours = metadata[name]["url"].split("/")[2], HOURS.get(metadata[name]["date"])
        of_wikipedia, of_b = host in HOSTS[:2], name.startswith("b/")
        place = (0 if of_wikipedia else 1 if of_b else 2) if prefers else 0
        letters = len([character for character in texts[name] if character.isalpha()])
        score = metadata[name]["classifier"]["hq"]
        is_score = type(score) in (int, float)
        value = {
            "highest": (not is_score, -score if is_score else 0),
            "longest": 0,
            "most_letters": -letters,
            "newest": (hours is None, -(hours or 0)),
            "oldest": (hours is None, hours or 0),
        }[keep]
        length = len(texts[name]) if keep == "most_letters" else -len(texts[name])
        return place, value, length, name.encode()

    kept: list[str] = []
    for name in sorted(texts, key=key):
        if not any(slow_jaccard(texts[name], texts[other]) >= LENIENT.threshold for other in kept):
            kept.append(name)
    return set(kept)


def test_scores_keep_their_order() -> None:
    chance = random.Random(5)
    scores = [chance.choice((-1, 1)) * 10.0 ** chance.uniform(-40, 40) for _ in range(2000)]
    scores = sorted([*scores, 0.0, -0.0, 1e300, -1e300, float("inf"), float("-inf"), *(i / 1000 for i in range(1000))])
    numbers = [ordered(number_at({"score": score}, "score") or 0.0) for score in scores]
    assert numbers == sorted(numbers)
    assert all(0 < number <= LAST for number in numbers)
    assert ordered(0.0) == ordered(-0.0)
    for score in (1e-30, 0.1, 0.9, 1.0, 7.0, 1e30):
        assert ordered(-score * (1 + 2**-15)) < ordered(-score) < ordered(score) < ordered(score * (1 + 2**-15))


@pytest.mark.parametrize(
    ("path", "number"),
    [("a", 1), ("b.c", 0.5), ("b.d.e", -3), ("b", None), ("a.b", None), ("x.y", None), ("", None), ("text", None)],
)
def test_numbers_of_metadata(path: str, number: float | None) -> None:
    metadata = {"a": 1, "b": {"c": 0.5, "d": {"e": -3}, "nan": float("nan")}, "text": "0.7", "big": 10**400}
    assert number_at(metadata, path) == number
    assert number_at(metadata, "b.nan") is None
    assert ordered(number_at(metadata, "big") or 0.0) == ordered(LARGEST_SCORE)


def test_doubled_spaces_and_soft_hyphens_do_not_win(run_stage: RunStage, tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(60)]
    texts = {
        "doubled": "  ".join(words),
        "hyphens": " ".join(f"wo\u00ad{word[2:]}" for word in words),
        "plain": " ".join(words),
        "cut": " ".join(words[:-1]),
    }
    result = deduplicate(run_stage, tmp_path, [texts], dataclasses.replace(LENIENT, keep="most_letters"))
    assert result.kept().keys() == {"plain"}


def test_only_most_letters_has_another_address() -> None:
    assert Dedup().preference == Preference()
    assert Dedup(keep="newest").preference == Preference(keep="newest")


def test_a_setting_that_changes_nothing_reads_no_document() -> None:
    assert not Preference().reads_documents
    assert Preference(keep="newest").reads_documents
    assert Preference(preferred=("a",)).reads_documents
    assert Preference(keep="most_letters").ranks([Document("12 …", "a:0")]).tolist() == [LAST]


def test_wrong_settings() -> None:
    with pytest.raises(ConfigError, match="keep: must be 'longest', 'most_letters', 'newest', 'oldest' or 'highest'"):
        decode(Dedup, {"keep": "latest"})
    with pytest.raises(ConfigError, match="preferred"):
        decode(Dedup, {"preferred": ["a"] * 200})
    with pytest.raises(ConfigError, match=r"dedup\.score: is null, and dedup\.keep=highest compares scores; name"):
        decode(Dedup, {"keep": "highest"})
    with pytest.raises(ConfigError, match=r"dedup\.score: is 'a', and dedup\.keep=newest compares no scores; give"):
        decode(Dedup, {"keep": "newest", "score": "a"})
