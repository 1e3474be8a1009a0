"""What differs between settings is shown: what is shown, applied to one of them, gives the other."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace
from headrace.pipeline.command_line.choice import chosen_run
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.experiments.comparison import Contestant, contestants, decisive, differing_settings
from headrace.pipeline.experiments.setting_differences import (
    ABSENT,
    cells,
    differing_leaves,
    leaves,
    parting_lines,
    setting_lines,
)
from headrace.pipeline.run.planner import plan, save
from tests.command_line import headrace_here

NAMES = st.sampled_from(["type", "name", "path", "a", "b", "steps", "a.b", "0", "x#2", ""])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text(max_size=3)
SETTINGS = st.dictionaries(
    NAMES,
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4)),
    max_size=5,
)


def plain(value: Any) -> str:
    """JSON of ``value``, with one form of each number."""
    value = json.loads(
        json.dumps(value), parse_float=lambda text: int(float(text)) if float(text) % 1 == 0 else float(text)
    )
    return json.dumps(value, sort_keys=True)


def built(found: dict[tuple[str, ...], str]) -> Any:
    """The value whose leaves are ``found`` (path → JSON)."""
    if list(found) == [()]:
        return json.loads(found[()])
    below: dict[str, dict[tuple[str, ...], str]] = {}
    for path, text in found.items():
        if path:
            below.setdefault(path[0], {})[path[1:]] = text
    inner = {name: built(entries) for name, entries in below.items()}
    return [inner[name] for name in json.loads(found[()])] if () in found else inner


def applied(one: Any, other: Any) -> Any:
    """``one`` with the differences from ``other`` that are found."""
    found = {path: json.dumps(leaf) for path, leaf in leaves(one)}
    for path, (_, text) in differing_leaves([one, other]).items():
        found.pop(path, None)
        found |= {} if text is None else {path: text}
    return built(found or {(): "{}"})


@settings(max_examples=30)
@given(SETTINGS, SETTINGS)
def test_what_is_found_applied_to_one_gives_the_other(one: Any, other: Any) -> None:
    assert plain(applied(one, other)) == plain(other)
    assert plain(applied(one, one)) == plain(one)
    assert setting_lines([one, one]) == []


@pytest.mark.parametrize(
    ("one", "other", "lines"),
    [
        ([], ["training.unique_rows=5"], [["training.unique_rows", "null", "5"]]),
        ([], ["training.unique_rows=null"], []),
        (["optimizer.learning_rate=1"], ["optimizer.learning_rate=1.0"], []),
        (
            ["cleaning.filters=[{type: page_length}]"],
            ["cleaning.filters=[{type: c4_bad_words},{type: page_length}]"],
            [["cleaning.filters", '["page_length"]', '["c4_bad_words", "page_length"]']],
        ),
        (
            ["cleaning.filters=[{type: python, path: 'm:A', settings: {x: 1}}]"],
            ["cleaning.filters=[{type: python, path: 'm:A', settings: {x: 2}}]"],
            [["cleaning.filters.A.settings.x", "1", "2"]],
        ),
        (
            [],
            ["+evaluation.benchmarks.own.type=agreement"],
            [["evaluation.benchmarks.own.type", ABSENT, '"agreement"']],
        ),
        (
            ["mixture.sources=[{name: own, weight: 1},{name: web, weight: 2, packed: p}]"],
            ["mixture.sources=[{name: own, weight: 1},{name: web, weight: 3, packed: p}]"],
            [["mixture.sources.web.weight", "2", "3"]],
        ),
        (
            ["mixture.sources=[{name: own, weight: 1}]"],
            ["mixture.sources=[{name: own, weight: 1},{name: web, weight: 2, packed: p}]"],
            [
                ["mixture.sources", '["own"]', '["own", "web"]'],
                ["mixture.sources.web.name", ABSENT, '"web"'],
                ["mixture.sources.web.weight", ABSENT, "2"],
                ["mixture.sources.web.packed", ABSENT, '"p"'],
            ],
        ),
        (["root=a", "workers=3", "cluster=local"], ["root=b", "ranks=2", "tracking=file", "name=x"], []),
    ],
)
def test_lines_of_settings(one: list[str], other: list[str], lines: list[list[str]]) -> None:
    found = setting_lines([decisive(compose(one)), decisive(compose(other))])
    assert [line for line in found if line in lines or not lines] == lines
    assert all(line[0].startswith(lines[0][0].rpartition(".")[0]) for line in found)


@pytest.mark.parametrize(
    "texts",
    [
        ["a" * 2000 + "b", "a" * 2000 + "c"],
        ["a" * 2000, "a" * 2001],
        ["x\u202e", "x\u2066"],
        ["a" * 2000 + "b" * 2000 + "1", "a" * 2000 + "b" * 2000 + "2", "c"],
        ["x" * 400, None, "x" * 400 + "\x1b"],
        ["a\nb", "a⏎b"],
    ],
)
def test_cells_of_values_that_differ_differ(texts: list[str | None]) -> None:
    shown = cells(texts)
    assert len({*shown}) == len({*texts})
    assert max(map(len, shown)) < 340
    assert [cell == ABSENT for cell in shown] == [text is None for text in texts]


def started(root, name: str, *overrides: str) -> None:
    line = [f"name={name}", f"root={root}", "source=jsonl", "cleaning=none", *overrides]
    values = compose(line)
    save(decoded(values), values, plan(decoded(values)), line)


def test_other_data_of_the_same_settings(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("first", "One page."), ("second", "Another.")):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        for number in range(5):
            (folder / f"{number}.jsonl").write_text(json.dumps({"text": text if number else "Equal."}) + "\n")
        started(tmp_path / "runs" / name, name, "source.paths=.", "until=weights")
    runs = [str(chosen_run([f"root={tmp_path}/runs/{name}"], name).file) for name in ("first", "second")]
    result = headrace_here("compare", *runs)
    assert result.returncode == 0, result.stderr
    head, _, line, *_ = result.stdout.splitlines()
    assert head == "| setting | first | second |"
    file = r"5 files, \d+ B; 1.jsonl \w{12}; 2.jsonl \w{12}; 3.jsonl \w{12}; and 1 more"
    assert re.fullmatch(rf"\| texts.raw_files \| {file} \| {file} \|", line)


def test_other_models_in_the_folder_that_is_fine_tuned() -> None:
    """Their names are those of a scored folder's model, which are left out where scores are compared."""
    of_runs = [
        Contestant(
            name, None, Path("weights"), {}, {"model": 1}, {"finetuned": {"raw_files": [file]}}, {"finetuned": name}
        )
        for name, file in (
            ("one", {"name": "model/config.json", "bytes": 3, "sha256": "1f0c" * 16}),
            ("other", {"name": "model/config.json", "bytes": 3, "sha256": "77aa" * 16}),
        )
    ]
    assert [line[0] for line in differing_settings(of_runs)] == ["finetuned.raw_files"]


def test_a_file_more_and_what_else_an_address_covers(tmp_path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.jsonl").write_text('{"text": "One."}\n')
    started(tmp_path, "less", f"source.paths={tmp_path}/data")
    (tmp_path / "data/b.jsonl").write_text('{"text": "Two."}\n')
    started(tmp_path, "more", f"source.paths={tmp_path}/data", "training.seed=3")
    less, more = contestants(["less", "more"], str(tmp_path))
    assert [line[0] for line in differing_settings([less, more])] == ["training.seed", "texts.raw_files"]
    described = {**more.descriptions, "texts": {**less.descriptions["texts"], "version": 99}}
    described["duplicates"] = {**described["duplicates"], "hashed": {"against": [{"address": "77aa"}], "revision": 2}}
    found = {
        line[0]: line[1:] for line in differing_settings([less, type(more)(**vars(more) | {"descriptions": described})])
    }
    assert found["texts.version"][1] == "99"
    assert found["duplicates.against.0.address"] == [ABSENT, '"77aa"']
    assert found["duplicates.revision"] == [ABSENT, "2"]


def pages(folder: Path, *names: str) -> str:
    """Files with one page each, as a setting of a run."""
    for name in names:
        (folder / f"{name}.jsonl").write_text(json.dumps({"text": f"The page {name}."}) + "\n")
    return f"source.paths=[{','.join(f'{folder}/{name}.jsonl' for name in names)}]"


KINDS: tuple[tuple[list[str], list[str], str, str, list[Any]], ...] = (
    ([], ["training.steps=9"], "weights", "training.steps", ["700", "9"]),
    ([], ["training.unique_rows=5"], "weights", "training.unique_rows", ["null", "5"]),
    (["cleaning=c4"], ["cleaning=none"], "clean", "cleaning.filters.page_length.type", ['"page_length"', ABSENT]),
    (["cleaning=none"], ["cleaning=unfiltered"], "clean", "cleaning.filters.language.type", [ABSENT, '"language"']),
    (
        ["cleaning.filters=[{type: page_length},{type: c4_lines}]"],
        ["cleaning.filters=[{type: c4_lines},{type: page_length}]"],
        *("clean", "cleaning.filters", ['["page_length", "c4_lines"]', '["c4_lines", "page_length"]']),
    ),
    ([], ["dedup.threshold=0.7"], "duplicates", "dedup.threshold", ["0.8", "0.7"]),
    ([], ["tokenizer=byte"], "tokenizer", "tokenizer.type", ['"train"', '"byte"']),
    ([], ["optimizer=muon"], "weights", "optimizer.momentum", [ABSENT, "0.95"]),
    ([], ["objective=prefix"], "weights", "objective.type", ['"causal"', '"prefix"']),
    (
        [],
        ["+evaluation.benchmarks.own.type=agreement"],
        "scores",
        "evaluation.benchmarks.own.type",
        [ABSENT, '"agreement"'],
    ),
)
"""The settings of two runs, the first stage that differs, and a line of the settings that differ."""


@pytest.mark.parametrize(("one", "other", "stage", "setting", "shown"), KINDS)
def test_each_kind_of_difference_and_the_stage_at_which_runs_part(
    tmp_path: Path, one: list[str], other: list[str], stage: str, setting: str, shown: list[Any]
) -> None:
    """The other run is in another root."""
    files = []
    for name, overrides in (("one", one), ("other", other)):
        started(tmp_path / name, name, pages(tmp_path, "a"), *overrides)
        files.append(str(chosen_run([f"root={tmp_path}/{name}"], name).file))
    table = headrace.differences(*files)
    assert table.columns == ("kind", "name", "one", "other")
    found = {(row["kind"], row["name"]): [row["one"], row["other"]] for row in table}
    assert found["setting", setting] == shown
    stages = {name: addresses for (kind, name), addresses in found.items() if kind == "stage"}
    assert [*stages] == [stage]
    assert [*map(len, stages[stage])] == [12, 12]


def test_three_runs_of_which_one_differs(tmp_path: Path) -> None:
    for name, overrides in (("one", []), ("same", ["workers=2"]), ("other", ["training.steps=9"])):
        started(tmp_path / name, name, pages(tmp_path, "a"), *overrides)
    paths = [str(chosen_run([f"root={tmp_path}/{name}"], name).file) for name in ("one", "same", "other")]
    setting, stage = headrace.differences(*paths)
    assert [*setting.values()] == ["setting", "training.steps", "700", "700", "9"]
    assert (stage["kind"], stage["name"]) == ("stage", "weights")
    assert stage["one"] == stage["same"] != stage["other"]
    assert headrace.differences(*paths[:2]) == []
    shown = headrace_here("compare", *paths[:2]).stdout
    assert shown.startswith("All stages of the runs are the same artifacts: they have the same settings and data.\n")


@pytest.mark.parametrize(
    ("addresses", "lines"),
    [
        (["ab", "ab", "ab"], []),
        (["ab", "ac"], [["2", "b", "c"]]),
        (["abx", "acy"], [["2", "b", "c"]]),
        (["abx", "aby", "acz"], [["2", "b", "b", "c"], ["3", "x", "y", "z"]]),
        (["ab", "abx"], [["3", ABSENT, "x"]]),
        (["axb", "axc", "ayd", "aye"], [["2", "x", "x", "y", "y"], ["3", "b", "c", "d", "e"]]),
        (["xq", "yq"], [["1", "x", "y"]]),
    ],
)
def test_runs_part_where_they_first_differ(addresses: list[str], lines: list[list[str]]) -> None:
    of_runs = [{str(number): letter for number, letter in enumerate(one, 1)} for one in addresses]
    assert parting_lines(of_runs) == lines
