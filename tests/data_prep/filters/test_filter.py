"""Our filters in datatrove's pipeline, datatrove's in ours, and the messages about wrong ones."""

import copy
import inspect
import json
import pickle

import datatrove.pipeline.filters
import pytest
from datatrove.data import Document
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.filters import RegexFilter
from datatrove.pipeline.filters.base_filter import BaseFilter, get_filter_result
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from pydantic import TypeAdapter

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import Drop, read_documents
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.c4.lines import C4Lines
from headrace.data_prep.filters.c4.page_length import PageLength
from headrace.data_prep.filters.datatrove_filter import DatatroveFilter
from headrace.data_prep.filters.datatrove_step import DatatroveStep
from headrace.data_prep.filters.fasttext_model import language_model
from headrace.data_prep.filters.filter import HARD_WRAPPED, REMOVED_UNITS, Filter, count_removed, removed_parts
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
            DatatroveStep(PageLength(max_characters=1000)),
            DatatroveStep(C4Lines()),
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
    "unwrapped_lines": {},
    "page_length": {"max_characters": 80},
    "allowed_domains": {"path": "sites.json"},
    "allowed_urls": {"path": "urls.txt"},
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
    "c4_split": {"split": "validation"},
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
        "unique_paragraphs",
    }


@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_works_in_a_datatrove_pipeline(name, pages, tmp_path) -> None:
    (tmp_path / "in").mkdir()
    write_documents(tmp_path / "in" / "00000.jsonl.zst", pages)
    stats = LocalPipelineExecutor(
        pipeline=[
            JsonlReader(str(tmp_path / "in"), compression="zstd"),
            DatatroveStep(built(name)),
            JsonlWriter(str(tmp_path / "out"), compression=None, output_filename="${rank}.jsonl"),
        ],
        logging_dir=str(tmp_path / "logs"),
        tasks=1,
    ).run()
    rule, kept, drops = built(name), [], []
    for page in copy.deepcopy(pages):
        drop = rule.judge(page)
        (drops if drop else kept).append(drop or page)
    rows = [json.loads(line) for line in (tmp_path / "out" / "00000.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["id"], row["text"]) for row in rows] == [(page.id, page.text) for page in kept]
    assert all(page.metadata.items() <= row["metadata"].items() for page, row in zip(kept, rows, strict=True))
    counts = {label: stat.total for label, stat in stats.stats[1].stats.items()}
    assert counts.get("dropped", 0) == len(drops)
    for drop in drops:
        assert counts[f"dropped_{drop.rule}"] == sum(other.rule == drop.rule for other in drops)
    originals = {page.id: page.text for page in pages}
    assert kept
    assert drops or any(page.text != originals[page.id] for page in kept)


@pytest.mark.parametrize("name", FILTERS)
def test_filters_travel_to_worker_processes(name, pages) -> None:
    rule = built(name)
    there = pickle.loads(pickle.dumps(rule))
    assert there == rule
    assert canonical(there) == canonical(rule)
    for page in pages:
        here, yonder = copy.deepcopy(page), copy.deepcopy(page)
        assert there.judge(yonder) == rule.judge(here)
        assert yonder == here


@pytest.mark.parametrize("name", FILTERS)
def test_a_document_that_is_dropped_is_not_changed(name, pages) -> None:
    """Its metadata may only say that its lines are hard-wrapped, which the stage counts for kept and dropped pages."""
    rule = built(name)
    for page in pages:
        before = copy.deepcopy(page)
        dropped = rule.judge(page) is not None
        page.metadata.pop(HARD_WRAPPED, None)
        assert not dropped or page == before


THEIRS = [
    name
    for name, cls in vars(datatrove.pipeline.filters).items()
    if inspect.isclass(cls) and issubclass(cls, BaseFilter) and name not in ("LambdaFilter", "UnigramLogProbFilter")
]
"""datatrove's filters, but for one that takes a function and one that downloads when it is constructed."""
ARGUMENTS = {
    "RegexFilter": {"regex_exp": "secret"},
    "SamplerFilter": {"rate": 0.5, "seed": 1},
    "FastTextClassifierFilter": {"model_url": "model.bin"},
    "C4BadWordsFilter": {"fail_on_missing_language": False, "default_language": "xx"},
}


@pytest.mark.parametrize("name", THEIRS)
def test_every_filter_of_datatrove_works_in_ours(name, pages) -> None:
    """The same verdict and text; where it lacks a package, an error that names it."""
    path, arguments = f"datatrove.pipeline.filters.{name}", ARGUMENTS.get(name, {})
    theirs, wrong = outcome(lambda: getattr(datatrove.pipeline.filters, name)(**arguments))
    if wrong:
        with pytest.raises(ConfigError) as caught:
            DatatroveFilter(path=path, arguments=arguments).check()
        assert str(caught.value) == f"datatrove {path}: refuses {arguments} ({wrong}); correct the arguments"
        return
    rule = DatatroveFilter(path=path, arguments=arguments)
    for page in pages:
        other = copy.deepcopy(page)
        result, wrong = outcome(lambda other=other: get_filter_result(theirs.filter(other)))
        if wrong:
            with pytest.raises(ConfigError) as caught:
                rule.judge(page)
            assert str(caught.value) == f"datatrove {path}: cannot run ({wrong}); install what it needs"
            return
        stays, reason = result
        assert rule.judge(page) == (None if stays else Drop(f"datatrove.{name}", reason or ""))
        assert page.text == other.text


def outcome(call):
    """Returns the result of ``call``, or the package that it lacks."""
    try:
        return call(), None
    except ImportError as error:
        return None, str(error)


def test_removed_parts_of_every_unit_are_listed():
    document = Document("text", "a:0")
    for unit in REMOVED_UNITS:
        count_removed(document, "rule", 2, unit)
    assert list(removed_parts(document)) == [(unit, "rule", 2) for unit in REMOVED_UNITS]
