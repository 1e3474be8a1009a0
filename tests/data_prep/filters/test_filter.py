"""Ours in datatrove's pipeline, datatrove's in ours, and what a wrong one says."""

import pickle

import pytest
from datatrove.data import Document
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.filters import RegexFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

from data_prep.clean import Cleaning
from data_prep.document import Drop, read_documents, write_documents
from data_prep.filters.c4 import C4Lines
from data_prep.filters.datatrove_filter import DatatroveFilter
from data_prep.filters.gopher_quality import GopherQuality
from data_prep.filters.language import Language
from data_prep.filters.length import PageLength
from pipeline.core.errors import ConfigError
from pipeline.core.settings import canonical, decode

TEXT = "The mill stood at the end of it. The wheel was turning all day. Nobody came to see it."


def test_ours_in_a_datatrove_pipeline(tmp_path) -> None:
    (tmp_path / "in").mkdir()
    documents = [Document(TEXT, "a:0"), Document("too short", "a:1"), Document(TEXT * 99, "a:2")]
    write_documents(tmp_path / "in" / "00000.jsonl.zst", documents)
    executor = LocalPipelineExecutor(
        pipeline=[
            JsonlReader(str(tmp_path / "in"), glob_pattern="*.jsonl.zst", compression="zstd"),
            PageLength(max_characters=1000),
            C4Lines(),
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


def test_datatroves_in_ours(run_stage, tmp_path) -> None:
    from data_prep.clean import Clean
    from data_prep.sources.jsonl import Jsonl

    (tmp_path / "in.jsonl").write_text('{"text": "a secret"}\n{"text": "a word"}\n', encoding="utf-8")
    entry = {
        "type": "datatrove",
        "path": "datatrove.pipeline.filters.RegexFilter",
        "arguments": {"regex_exp": "secret"},
    }
    cleaning = decode(Cleaning, {"filters": [entry]})
    assert canonical(cleaning)["filters"] == [entry]
    stage = Clean(source=Jsonl(paths=(str(tmp_path / "in.jsonl"),)), cleaning=cleaning)
    artifact = run_stage(stage, {}, tmp_path / "out")
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
        decode(Cleaning, {"filters": [{"type": "datatrove", "path": path, "arguments": arguments}]})
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
            "filters.0.filter_fraction: Input should be less than or equal to 1 (got 2); correct the value",
        ),
    ],
)
def test_wrong_settings(values, message) -> None:
    with pytest.raises(ConfigError) as caught:
        decode(Cleaning, {"filters": [values]})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "rule",
    [
        PageLength(max_characters=7),
        C4Lines(min_sentences=1),
        Language(languages=("de",)),
        GopherQuality(),
        DatatroveFilter(path="datatrove.pipeline.filters.RegexFilter", arguments={"regex_exp": "x"}),
    ],
)
def test_filters_travel_to_worker_processes(rule) -> None:
    there = pickle.loads(pickle.dumps(rule))
    assert there == rule
    assert canonical(there) == canonical(rule)
    assert there.judge(Document("A word x.", "a:0")) == rule.judge(Document("A word x.", "a:0"))
