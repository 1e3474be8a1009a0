"""The stage: C4 exactly as the plain reference makes it, records conserved, same bytes in any order."""

import hashlib
import itertools
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import nltk
import orjson
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resiliparse.extract.html2text import extract_plain_text

from headrace.data_prep.clean import Clean, Cleaning, split_passes
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.c4.bad_words import LISTS
from headrace.data_prep.filters.punkt import punkt_folder
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.text_files import read_lines
from tests.data_prep.c4_reference import Page, c4, cleaned

CONF = Path(__file__).parents[2] / "conf" / "cleaning"


def preset(name: str, **changes: object) -> Cleaning:
    return decode(Cleaning, yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8")) | changes)


def write_pages(folder: Path, pages: list[Page], files: int) -> Jsonl:
    """``pages`` in order in ``files`` JSONL files, each its own task."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(pages) // files) or 1
    for number in range(files):
        rows = [{"url": p.url, "text": p.text, "date": p.timestamp} for p in pages[number * size : (number + 1) * size]]
        path = folder / f"{number:02d}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return Jsonl(paths=(str(folder),), task_bytes=1)


def kept(artifact: Artifact) -> list[tuple[str, str]]:
    return [(d.metadata["url"], d.text) for path in artifact.shards("documents") for d in read_documents(path)]


def dropped(artifact: Artifact) -> dict[str, str]:
    """Rule by URL."""
    documents = [d for path in artifact.shards("dropped") for d in read_documents(path)]
    return {d.metadata["url"]: d.metadata["drop"]["rule"] for d in documents}


def assert_conserved(artifact: Artifact) -> None:
    counts = artifact.counts
    drops = {key: number for key, number in counts.items() if key.startswith("dropped:")}
    assert counts["documents_in"] == counts["kept"] + sum(drops.values())
    assert counts["kept"] == len(kept(artifact))
    assert sum(drops.values()) == sum(1 for path in artifact.shards("dropped") for _ in read_documents(path))
    for kind in ("language:", "length:"):
        assert sum(number for key, number in counts.items() if key.startswith(kind)) == counts["kept"]


@pytest.fixture(scope="module")
def sentences() -> Callable[[str], list[str]]:
    """nltk's own English Punkt model, loaded as TFDS loads it."""
    nltk.data.path.insert(0, str(punkt_folder().parents[2]))
    tokenizer = nltk.data.load("tokenizers/punkt/english.pickle")
    return lambda text: list(tokenizer.tokenize(text))


@pytest.fixture(scope="module")
def bad_words() -> set[str]:
    """The English list of LDNOOBW commit 25e679f."""
    allowed = yaml.safe_load((CONF / "c4.yaml").read_text(encoding="utf-8"))["filters"][-1]["allowed"]["en"]
    words = set(json.loads((LISTS / "en.json").read_text(encoding="utf-8"))) - set(allowed)
    assert len(words) == 377
    return words


def web_pages(rows: Iterable[dict[str, Any]], text_of: Callable[[dict[str, Any]], str | None]) -> Iterator[Page]:
    """Real pages; some again under a variant of their URL, some with lines shared."""
    for number, row in enumerate(rows):
        text = text_of(row) or ""
        if not text.strip():
            continue
        yield Page(row["url"], text, f"2019-04-{number % 28 + 1:02d}T00:00:00Z")
        if number % 3 == 0:
            day = (number + number % 2 * 5 - 2) % 28 + 1
            other = row["url"].replace("https://", "http://").rstrip("/") + "/"
            yield Page(other, text + "\nThis line was added on a later visit.", f"2019-04-{day:02d}T00:00:00Z")
        if number % 5 == 0:
            half = "\n".join(text.split("\n")[::2])
            yield Page(row["url"] + "#copy", half, "2019-04-01T00:00:00Z")


def main_text(row: dict[str, Any]) -> str | None:
    """Returns the checked main text of a page."""
    return row["truth"]


def extracted(row: dict[str, Any]) -> str | None:
    """Returns the text that resiliparse extracts from a page."""
    return extract_plain_text(row["html"], main_content=True)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "text_of"), [(0, main_text), (4, extracted)], ids=["main_text", "extracted"])
def test_c4_equals_the_reference_on_every_eighth_real_page(
    first, text_of, data_folder, run_clean, tmp_path, sentences, bad_words
) -> None:
    """Both texts of all pages: benchmarks/records/clean_throughput_2core_epyc_2026-11.md, of c4_exact.py."""
    rows = map(orjson.loads, itertools.islice(read_lines(data_folder("web/wcxb_dev.jsonl.zst")), first, None, 8))
    pages = list(web_pages(rows, text_of))
    artifact = run_clean(write_pages(tmp_path / "in", pages, 5), preset("c4"), tmp_path / "out")
    assert kept(artifact) == c4(pages, sentences, bad_words)
    assert_conserved(artifact)
    rules = {rule.split(".")[0] for rule in dropped(artifact).values()}
    assert rules == {"one_page_per_url", "c4_lines", "unique_lines", "language", "bad_words"}


LINES = [
    "The river runs down the valley and turns the old wheel.",
    "It had rained for three days. Nobody was surprised that the bridge was gone.",
    "Mr. Smith of the U.S. went to see Dr. Jones about it.",
    "He asked what they would do with all that water?",
    '"We will build another mill," said the man with the hat."',
    "Only four words here.",
    "Exactly five words are here.",
    "Five words without the citation [1].",
    "Words before the mark at the end. [12]",
    "Some claim that this is true.[citation needed]",
    "This one has a heading mark[edit] in the middle of it.",
    "[] [2] [edit] four words left.",
    "This sentence trails off into nothing much...",
    "This one ends with two dots only..",
    "No end mark on this line at all",
    "Please enable JavaScript to see this page properly.",
    "Please enable javascript and { then } see the page.",
    "This page must not stay because of { one bracket.",
    "A bracket { in a line without an end",
    "Here is some Lorem Ipsum text to fill the page.",
    "lorem ipsum without an end mark",
    "By using this site you accept the Terms of Use.",
    "We use cookies to make this site a better one.",
    "Our Privacy Policy was changed { on the first of May.",
    "THE RIVER RUNS DOWN THE VALLEY AND TURNS THE OLD WHEEL.",
    "  The river runs down the valley and turns the old wheel.  ",
    "They found the anus of the old animal very odd.",
    "Sexual selection was what Darwin wrote about in it.",
    "Das Wasser fließt den Berg hinunter und treibt das alte Rad.",
    "Les eaux de la rivière descendent la vallée et tournent la roue.",
    "x" * 1000 + " is the longest word that may stay here.",
    "x" * 1001 + " is too long a word to stay here.",
    "A line that is split\u2028 by a separator in the middle of it.",
    "One line here.\x0bAnother line is after the vertical tab now.",
    "",
    "   ",
    "...",
    '"',
]
URLS = [
    "http://a.org/x",
    "https://www.a.org/x/",
    "https://a.org/x?utm_source=feed",
    "http://a.org/x?ref=1",
    "https://a.org/x?id=1&ref=2",
    "https://b.org/?feed=rss",
    "http://b.org///",
    "https://b.org/https://www.a.org/x",
    "http://",
    "https://c.org/ü",
    *[f"https://d.org/{n}" for n in range(6)],
]
DATES = ["2019-04-18T10:00:00Z", "2019-04-18T10:00:01Z", "2020-01-01T00:00:00Z"]
corpora = st.lists(
    st.builds(
        Page,
        st.sampled_from(URLS),
        st.lists(st.sampled_from(LINES), min_size=1, max_size=9).map("\n".join).filter(str.strip),
        st.sampled_from(DATES),
    ),
    max_size=8,
)


@pytest.mark.slow
@given(pages=corpora, files=st.integers(1, 3), buckets=st.integers(1, 4))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_c4_equals_the_reference_on_made_pages(pages, files, buckets, run_clean, sentences, bad_words) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = write_pages(Path(folder, "in"), pages, files)
        artifact = run_clean(source, preset("c4", buckets=buckets), Path(folder, "out"))
        assert kept(artifact) == c4(pages, sentences, bad_words)
        assert_conserved(artifact)


@pytest.mark.slow
def test_page_of_190000_characters_stays(run_clean, tmp_path, sentences, bad_words) -> None:
    line = "The river runs down the valley and it turns the old wheel number {:05d}."
    lines = [line.format(n) for n in range(3000)]
    text = "\n".join(lines)[: 190_000 - 60].rsplit("\n", 1)[0]
    text += "\n" + "And so it went for the rest of the day" + "y" * (190_000 - len(text) - 40) + "."
    assert len(text) == 190_000
    blank = text.replace("\n", "  \r\n\n")
    pages = [
        Page("http://a.org/1", text, ""),
        Page("http://a.org/2", text + "!", ""),
        Page("http://a.org/3", blank, ""),
    ]
    pages = [page._replace(text=page.text.replace("number", f"in {n}")) for n, page in enumerate(pages)]
    pages = [page._replace(text=page.text.replace(f"in {n}", "number", 1)) for n, page in enumerate(pages)]
    artifact = run_clean(write_pages(tmp_path / "in", pages, 1), preset("c4"), tmp_path / "out")
    assert kept(artifact) == c4(pages, sentences, bad_words)


@pytest.mark.parametrize("order", [{"backwards": True}, {"twice": True}])
def test_same_bytes_in_any_order(order, run_clean, tmp_path, real_pages) -> None:
    pages = list(web_pages(real_pages[:20], main_text))
    source, cleaning = write_pages(tmp_path / "in", pages, 4), preset("c4")
    plain = run_clean(source, cleaning, tmp_path / "plain")
    again = run_clean(source, cleaning, tmp_path / "again", **order)
    assert plain.manifest == again.manifest
    assert plain.manifest["shards"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["c4", "c4_paper"])
def test_buckets_and_memory_do_not_change_the_result(name, run_clean, tmp_path, real_pages) -> None:
    pages = list(web_pages(real_pages[:6], main_text))
    source = write_pages(tmp_path / "in", pages * 2, 2)
    runs = [
        run_clean(source, preset(name, buckets=n), tmp_path / str(n), memory)
        for n, memory in ((1, {}), (7, {"memory_bytes": 5000}))
    ]
    for part in ("files", "counts", "settings"):
        assert runs[0].manifest[part] == runs[1].manifest[part]
    assert any(":unique_" in rule for rule in runs[0].counts)


def test_phases_are_known_without_running() -> None:
    phases = Clean(cleaning=preset("c4", buckets=5)).phases({"texts": 3})
    assert [(phase.name, phase.tasks) for phase in phases] == [
        ("0-filter", 3),
        ("1-one_page_per_url", 5),
        ("2-filter", 3),
        ("3-unique_lines", 5),
        ("4-filter", 3),
    ]
    assert [phase.name for phase in Clean(cleaning=preset("none")).phases({"texts": 3})] == ["0-filter"]


def test_consecutive_global_filters_make_an_empty_pass() -> None:
    cleaning = decode(Cleaning, {"filters": [{"type": "one_page_per_url"}, {"type": "unique_lines"}]})
    passes = split_passes(cleaning.filters)
    assert [(p.opening is None, len(p.filters), p.closing is None) for p in passes] == [
        (True, 0, False),
        (False, 0, False),
        (False, 0, True),
    ]


def test_no_filters_keep_every_document(run_clean, tmp_path) -> None:
    source = write_pages(tmp_path / "in", [Page("http://a.org", "a\nb", ""), Page("http://b.org", "é", "")], 1)
    artifact = run_clean(source, preset("none"), tmp_path / "out")
    assert [text for _, text in kept(artifact)] == ["a\nb", "é"]
    assert artifact.counts == {
        "documents_in": 2,
        "kept": 2,
        "characters_kept": 4,
        "bytes_kept": 5,
        "length:1": 1,
        "length:2": 1,
        "language:unknown": 2,
    }


def test_every_drop_lies_in_the_shard_of_its_source(run_clean, tmp_path) -> None:
    line = "Nothing that this page says is said by another page {}."
    text = "\n".join(line.format(word) for word in ("today", "yesterday", "tomorrow"))
    pages = [
        Page("http://a.org/", text, "2"),
        Page("http://a.org", text, "1"),
        Page("http://b.org", "Short.", "1"),
        Page("http://c.org", text + "\n" + line.format("ever"), "1"),
    ]
    source, cleaning = write_pages(tmp_path / "in", pages, 4), preset("c4")
    artifact = run_clean(source, cleaning, tmp_path / "out")
    shards = [[d.metadata.get("drop") for d in read_documents(path)] for path in artifact.shards("dropped")]
    loser = min([0, 3], key=lambda n: -int(hashlib.md5(pages[n].url.encode()).hexdigest(), 16))
    assert shards[1] == [{"rule": "one_page_per_url", "value": "a.org"}]
    assert shards[2] == [{"rule": "c4_lines.sentences", "value": "0"}]
    assert [drop["rule"] for drop in shards[loser]] == [
        "unique_lines.sentences" if loser == 3 else "unique_lines.empty"
    ]
    assert len(artifact.shards("documents")) == len(artifact.shards("dropped")) == 4


@pytest.mark.parametrize("name", ["c4_paper", "c4_gopher"])
def test_presets_run_on_real_pages(name, run_clean, tmp_path, real_pages, sentences) -> None:
    pages = list(web_pages(real_pages[:40], main_text))
    artifact = run_clean(write_pages(tmp_path / "in", pages, 2), preset(name), tmp_path / "out")
    assert_conserved(artifact)
    assert 10 < artifact.counts["kept"] < len(pages)
    if name == "c4_gopher":
        assert all(cleaned(text, sentences) is not None for _, text in kept(artifact))


@pytest.mark.parametrize("name", ["c4", "c4_paper", "c4_gopher", "none"])
def test_presets_list_every_setting(name) -> None:
    """A setting that the YAML omits would be a hidden default."""
    from headrace.pipeline.core.settings import plain

    written = yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8"))
    assert plain(preset(name)) | {"buckets": 16} == written


def test_the_presets_are_the_defaults_in_code() -> None:
    """A filter named without settings is the published one."""
    for name in ("c4", "c4_gopher"):
        for rule in preset(name).filters:
            if rule.type != "bad_words":
                assert rule == type(rule)()


def test_what_was_masked_is_counted(run_clean, tmp_path) -> None:
    texts = ["Write to ann@a.org or bob@b.org.", "Call (415) 776-3109.", "Nothing."]
    source = write_pages(tmp_path / "in", [Page(f"http://{n}.org", text, "") for n, text in enumerate(texts)], 1)
    artifact = run_clean(source, preset("pii"), tmp_path / "out")
    assert {key: n for key, n in artifact.counts.items() if key.startswith("masked:")} == {
        "masked:email": 2,
        "masked:phone_number": 1,
    }
    assert [text for _, text in kept(artifact)] == ["Write to <email> or <email>.", "Call <phone number>.", "Nothing."]
