"""Training on labelled pages, and its command."""

import json

import pytest

from headrace.data_prep.extraction.main_text.labels import labelled_pages
from headrace.data_prep.extraction.main_text.training import cross_validated, part_of, train, word_f1
from headrace.data_prep.sources.html import Html
from tests.command_line import headrace_here
from tests.data_prep.extraction.labelled import labelled_page

pytest.importorskip("lightgbm", reason="lightgbm trains the models: pip install headrace[extractor-training]")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "pages.jsonl"
    path.write_text("\n".join(json.dumps(labelled_page(number)) for number in range(240)))
    return path


def test_pages_of_other_sites_are_read_right(file):
    pages = list(labelled_pages([file]))
    found = list(cross_validated(pages, 3, 1, lambda some: train(some, 20, 1, {})))
    assert len(found) == len(pages) == 240
    scores = [one.f1 for one in found if one.f1 is not None]
    assert len(scores) == 192
    assert sum(scores) / len(scores) > 0.98
    assert all(all(one.wanted) for one in found)
    assert not any(any(one.unwanted) for one in found)


def test_sites_are_in_one_part():
    assert {part_of("a.org", 5, 1) for _ in range(3)} == {part_of("a.org", 5, 1)}
    assert {part_of(f"{number}.org", 5, 1) for number in range(100)} == set(range(5))


def test_word_f1():
    assert word_f1("a b b", "B c") == pytest.approx((1 / 3, 1 / 2, 2 / 5))
    assert word_f1("", "a") == (0.0, 0.0, 0.0)


def test_the_command_writes_a_model_that_a_source_uses(file, tmp_path):
    one, two = tmp_path / "one.npz", tmp_path / "two.npz"
    judged = headrace_here("train-extractor", str(file), "--folds", "2", "--trees", "20", "--out", str(one))
    assert judged.returncode == 0, judged.stderr
    head, _, *rows, written = judged.stdout.splitlines()
    assert head == "| pages | number | F1 | precision | recall | wanted found | unwanted found |"
    assert [row.split(" | ")[:2] for row in rows] == [["| all", "240"], ["| article", "120"], ["| forum", "120"]]
    assert written.split() == ["written", str(one)]
    assert (
        headrace_here("train-extractor", str(file), "--folds", "0", "--trees", "20", "--out", str(two)).returncode == 0
    )
    assert one.read_bytes() == two.read_bytes()
    (tmp_path / "a.html").write_text(labelled_page(1001)["html"])
    source = Html(paths=(str(tmp_path / "a.html"),), extractor_model=str(one))
    ((document, drop),) = source.read("a.html")
    assert drop is None
    assert document.text.split("\n") == labelled_page(1001)["truth"].split("\n")


def test_what_the_command_refuses(tmp_path):
    refused = headrace_here("train-extractor", str(tmp_path / "no.jsonl"))
    assert (refused.returncode, refused.stderr.split(";")[1].strip()) == (2, "name JSONL files of labelled pages")
    (tmp_path / "one.jsonl").write_text(json.dumps(labelled_page(1)))
    for options, message in {
        ("--folds", "1"): "--folds: 1 parts judge nothing",
        ("--folds", "-1"): "--folds: -1 parts judge nothing",
        ("--trees", "0"): "trees=0",
        ("--seed", "-1"): "seed=-1",
        ("--out", str(tmp_path / "no" / "m.npz")): f"--out: there is no folder {tmp_path / 'no'}",
        ("--folds", "0"): "labelled blocks on 1 pages are too few",
        ("--folds", "2"): "labelled blocks on 0 pages are too few",
    }.items():
        refused = headrace_here("train-extractor", str(tmp_path / "one.jsonl"), *options)
        assert (refused.returncode, message in refused.stderr) == (2, True), refused.stderr
    (tmp_path / "empty.jsonl").touch()
    assert "no page could be read" in headrace_here("train-extractor", str(tmp_path / "empty.jsonl")).stderr
