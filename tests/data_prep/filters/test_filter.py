"""Our filters in datatrove's pipeline, datatrove's in ours, and the messages about wrong ones."""

import copy
import pickle

import pytest
from datatrove.data import Document
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.filters import RegexFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from pydantic import TypeAdapter

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import Drop, read_documents
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.c4.lines import C4Lines, PageLength
from headrace.data_prep.filters.datatrove_filter import DatatroveFilter
from headrace.data_prep.filters.fasttext_model import language_model
from headrace.data_prep.filters.filter import HARD_WRAPPED, REMOVED_UNITS, Filter, count_removed, removed_parts
from headrace.datatrove import Clean
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.setting_classes import classes_of
from headrace.pipeline.core.settings import canonical, decode
from tests.data_prep.small_classifier import write_classifier
from tests.unique_documents import write_documents

TEXT = "The mill stood at the end of it. The wheel was turning all day. Nobody came to see it."


def test_ours_in_a_datatrove_pipeline(tmp_path) -> None:
    (tmp_path / "in").mkdir()
    documents = [Document(TEXT, "a:0"), Document("too short", "a:1"), Document(TEXT * 99, "a:2")]
    write_documents(tmp_path / "in" / "00000.jsonl.zst", documents)
    executor = LocalPipelineExecutor(
        pipeline=[
            JsonlReader(str(tmp_path / "in"), glob_pattern="*.jsonl.zst", compression="zstd"),
            Clean([PageLength(max_characters=1000)]),
            Clean([C4Lines()]),
            RegexFilter("nothing has this"),
            JsonlWriter(str(tmp_path / "out"), compression=None, output_filename="${rank}.jsonl"),
        ],
        logging_dir=str(tmp_path / "logs"),
        tasks=1,
    )
    stats = executor.run()
    assert '"id":"a:0"' in (tmp_path / "out" / "00000.jsonl").read_text(encoding="utf-8")
    counts = [{label: stat.total for label, stat in step.stats.items()} for step in stats.stats]
    assert counts[1]["dropped_page_length"] == 1
    assert counts[2]["dropped_c4_lines.sentences"] == 1


def test_datatroves_in_ours(run_clean, tmp_path) -> None:
    from headrace.data_prep.sources.jsonl import Jsonl

    (tmp_path / "in.jsonl").write_text('{"text": "a secret"}\n{"text": "a word"}\n', encoding="utf-8")
    entry = {
        "type": "datatrove",
        "path": "datatrove.pipeline.filters.RegexFilter",
        "arguments": {"regex_exp": "secret"},
    }
    cleaning = decode(Cleaning, {"filters": [entry]})
    assert canonical(cleaning)["filters"] == [entry]
    artifact = run_clean(Jsonl(paths=(str(tmp_path / "in.jsonl"),)), cleaning, tmp_path / "out")
    assert [d.text for path in artifact.shards("documents") for d in read_documents(path)] == ["a word"]
    assert artifact.counts["dropped:datatrove.RegexFilter"] == 1


def test_the_reason_of_a_datatrove_filter_is_the_value() -> None:
    rule = DatatroveFilter(path="datatrove.pipeline.filters.C4ParagraphFilter", arguments={})
    assert rule.judge(Document("short", "a:0")) == Drop("datatrove.C4ParagraphFilter", "< 3 paragraphs")
    assert rule.judge(Document("\n".join(["long enough " * 20] * 3), "a:0")) is None


@pytest.mark.parametrize(
    ("path", "arguments", "message"),
    [
        (
            "datatrove.pipeline.filters.RegexFiltr",
            {},
            "datatrove path: datatrove.pipeline.filters has no filter 'RegexFiltr'; did you mean 'RegexFilter'?",
        ),
        (
            "datatrove.pipeline.filtrs.RegexFilter",
            {},
            "datatrove path: 'datatrove.pipeline.filtrs.RegexFilter' cannot be imported (No module named "
            "'datatrove.pipeline.filtrs'); name a class as <module>.<class>, "
            "such as datatrove.pipeline.filters.RegexFilter",
        ),
        (
            "datatrove.pipeline.filters.RegexFilter",
            {"regex_expr": "x"},
            "datatrove datatrove.pipeline.filters.RegexFilter: has no argument 'regex_expr'; did you mean 'regex_exp'?",
        ),
        (
            "datatrove.pipeline.filters.RegexFilter",
            {},
            "datatrove datatrove.pipeline.filters.RegexFilter: refuses {} (RegexFilter.__init__() missing 1 required "
            "positional argument: 'regex_exp'); correct the arguments",
        ),
    ],
)
def test_wrong_path_or_arguments(path, arguments, message) -> None:
    with pytest.raises(ConfigError) as caught:
        decode(Cleaning, {"filters": [{"type": "datatrove", "path": path, "arguments": arguments}]}).filters[0].check()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"type": "page_lenght"}, "filters.0: unknown type 'page_lenght'; did you mean 'page_length'?"),
        (
            {"type": "page_length", "max_chars": 1},
            "filters.0.max_chars: unknown key 'max_chars'; did you mean 'max_characters'?",
        ),
        (
            {"type": "c4_lines", "rules": [{"type": "few_wrds"}]},
            "filters.0.rules.0: unknown type 'few_wrds'; did you mean 'few_words'?",
        ),
        (
            {"type": "bad_words", "filter_fraction": 2},
            "filters.0.filter_fraction: must be at most 1 (got 2); correct the value",
        ),
    ],
)
def test_wrong_settings(values, message) -> None:
    with pytest.raises(ConfigError) as caught:
        decode(Cleaning, {"filters": [values]})
    assert str(caught.value) == message


FILTERS = {
    "stripped_lines": {},
    "page_length": {"max_characters": 80},
    "allowed_domains": {"path": "sites.json"},
    "blocked_domains": {"domains_path": "domains.txt"},
    "without_addresses": {},
    "long_lines": {"min_lines": 1, "min_characters": 80},
    "c4_lines": {},
    "language": {"min_score": 0.9},
    "language_fasttext": {},
    "by_language": {
        "filters": [{"type": "gopher_quality", "rules": [{"type": "word_count", "min_words": 20}]}],
        "languages": {"default": {}},
    },
    "bad_words": {},
    "gopher_quality": {"rules": [{"type": "word_count", "min_words": 6}]},
    "gopher_repetition": {"rules": [{"type": "duplicate_parts"}]},
    "fineweb_quality": {},
    "line_corrections": {},
    "fasttext_classifier": {"path": language_model(), "label": "en", "min_score": 0.5},
    "linear_classifier": {"path": "mill.model", "label": "mill", "min_score": 0.5},
    "pii": {},
    "robots": {},
    "licence": {},
    "datatrove": {"path": "datatrove.pipeline.filters.RegexFilter", "arguments": {"regex_exp": "secret"}},
    "python": {"path": "own:Secrets", "settings": {"word": "secret"}},
}
"""Settings of every filter that sees one document: with them it drops or changes one of ``PAGES`` and keeps another."""
PAGES = [
    TEXT,
    TEXT + " Write to ann@a.org or see http://a.org/x for the secret.",
    "HOME\n" + TEXT * 3,
    "Der Fluss treibt das Rad der alten Mühle an. So ist es seit hundert Jahren. Niemand wundert sich.",
    "This porn page of two lines is about nothing. Nobody should read it. Nobody will.",
    "Home\nAbout\nHome\n\nAbout\nHome",
    "The river turned the wheel\nof the mill for years, and\nthen it stopped. Nobody in\nthe village was surprised.",
]
OWN = """
from typing import Literal

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings


@filter_settings
class Secrets(Filter):
    type: Literal["secrets"] = "secrets"
    word: str

    def judge(self, document):
        return Drop("secrets.word", self.word) if self.word in document.text else None
"""
LISTS = {"sites.json": '{"a.org": true}', "urls.txt": "http://a.org/219\n", "domains.txt": "b.org\n", "own.py": OWN}


@pytest.fixture
def pages(tmp_path, monkeypatch) -> list[Document]:
    """``PAGES`` at a.org and b.org in turn, a.org/221 in C4's validation split, the first reserved, the others free to
    use; the current folder holds the lists that ``FILTERS`` name."""
    monkeypatch.chdir(tmp_path)
    for name, text in LISTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    write_classifier(tmp_path / "mill.model")
    urls = [f"http://{'ab'[n % 2]}.org/{219 + n}" for n in range(len(PAGES))]
    free = {"licence": "https://creativecommons.org/licenses/by/4.0/"}
    return [
        Document(text, f"a:{n}", metadata={"url": urls[n], "page": free if n else {"robots": "noai"}})
        for n, text in enumerate(PAGES)
    ]


def built(name: str) -> Filter:
    return TypeAdapter(AnyFilter).validate_python({"type": name, **FILTERS[name]})


def test_every_filter_of_the_union_is_tried() -> None:
    classes = classes_of(AnyFilter)
    assert {cls.type for cls in classes if issubclass(cls, Filter)} == set(FILTERS)
    assert {cls.type for cls in classes if not issubclass(cls, Filter)} == {
        "one_page_per_url",
        "unique_lines",
        "unique_spans",
    }


@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_has_one_verdict_in_datatrove_and_in_worker_processes(name, pages) -> None:
    """A dropped page is as it was, but for the note that its lines are hard-wrapped, which the stage counts."""
    rule = built(name)
    there, step = pickle.loads(pickle.dumps(rule)), Clean([built(name)])
    assert there == rule
    assert canonical(there) == canonical(rule)
    changed, kept = 0, 0
    for page in pages:
        here, yonder, theirs = (copy.deepcopy(page) for _ in range(3))
        drop = rule.judge(here)
        assert there.judge(yonder) == drop
        assert step.filter(theirs) == (True if drop is None else (False, drop.rule))
        assert here == yonder
        assert theirs == (here if drop is None else page)
        kept += drop is None
        changed += drop is not None or here.text != page.text
        here.metadata.pop(HARD_WRAPPED, None)
        assert drop is None or here == page
    assert kept
    assert changed


def test_a_package_that_a_datatrove_filter_lacks_is_named(monkeypatch) -> None:
    def filter_without(*_: object) -> bool:
        raise ImportError("No module named 'spacy'")

    rule = DatatroveFilter(path="datatrove.pipeline.filters.RegexFilter", arguments={"regex_exp": "secret"})
    monkeypatch.setattr(RegexFilter, "filter", filter_without)
    with pytest.raises(
        ConfigError, match=r"RegexFilter: cannot run \(No module named 'spacy'\); install what it needs"
    ):
        rule.judge(Document("a page", "a:0"))


def test_removed_parts_of_every_unit_are_listed():
    document = Document("text", "a:0")
    for unit in REMOVED_UNITS:
        count_removed(document, "rule", 2, unit)
    assert list(removed_parts(document)) == [(unit, "rule", 2) for unit in REMOVED_UNITS]
