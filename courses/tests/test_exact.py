"""The exact study: every row equals the publication, but for round figures of papers that its remarks explain."""

from pathlib import Path

from courses.tests.command_line import courses_here
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.train.cost.flops import Compute
from headrace_courses.exact import equality, exact_rows

STUDIES = Path(__file__).parents[1] / "docs/studies.md"
LAYERS = "layers, n = 4,096, d = 768, k = 3, r = 127"
LENGTHS = "LLaMA 7B by the length n of a row"
DIFFER = {
    "t5_large, millions",
    "t5_3b, millions",
    "encoder–decoder: parameters, P",
    "encoder–decoder, shared: parameters, P",
    "encoder–decoder, 6 layers: parameters, P",
    *(f"epochs of {name}, 300 B tokens" for name in ("crawl", "webtext2", "books1", "wikipedia")),
}


def test_rows_equal_the_publications():
    rows = list(exact_rows())
    assert {row.what for row in rows if not row.is_equal} == DIFFER
    assert all(row.remark for row in rows if not row.is_equal)
    assert len({row.topic for row in rows}) == 13


def test_a_number_that_is_computed_here_is_not_called_published():
    origins = {}
    for row in exact_rows():
        origins.setdefault(row.topic, set()).add((row.origin, row.source))
    for topic in ("matrices of a block", "key-value cache", "packing", "masks", "mixing of tasks", LAYERS, LENGTHS):
        assert {origin for origin, _ in origins[topic]} == {"formula"}, topic
    (operations,) = origins["training, FLOP = 6 N D"]
    assert operations[0] == "publication"
    assert operations[1].startswith("Brown et al. 2020, table D.1"), "Kaplan et al. wrote before GPT-3"
    cache = {source for _, source in origins["key-value cache"]}
    assert not any("2019" in source for source in cache), "LLaMA is of 2023"


def test_the_page_of_studies_has_the_rows_that_differ():
    page = STUDIES.read_text()
    rows = list(exact_rows())
    assert f"computes {len(rows)} rows" in page
    for row in rows:
        cells = [row.topic, row.what, row.expected, row.own, equality(row), row.origin, row.source]
        assert (f"| {' | '.join(cells)} |" in page) is not row.is_equal


def test_positions_of_bert_are_those_that_the_page_says():
    config = decoded(compose(["experiment=bert_base", "source.paths=[a.jsonl]"]))
    compute = Compute.of(config.model, config.vocabulary, config.packing.row_tokens, config.training)
    assert compute.tokens == 131_072_000_000
    assert f"{compute.parameter_flops:.1e}" == "8.7e+19"
    assert "131 billion positions or 8.7e19 FLOP" in " ".join(STUDIES.read_text().split())


def test_the_command_prints_and_writes_them(tmp_path):
    page = tmp_path / "exact.html"
    printed = courses_here("exact", f"--page={page}", f"--json={tmp_path / 'exact.json'}").stdout
    assert "| packing | texts of 2, 6, 3, 4 tokens, rows of 9: packed, with separators | 94% | 94% | yes |" in printed
    result = "what publications state: 17 of 26 are equal; what the code of others computes: 16 of 16 are equal; "
    assert f"{result}what formulas give: 48 of 48 are equal" in page.read_text()
    assert result in printed
