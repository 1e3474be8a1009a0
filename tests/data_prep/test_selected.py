"""Selection against a brute force over all documents at once, in plain Python."""

import hashlib
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.data_prep.column import column_stage
from headrace.data_prep.columns.scorer import VALUES, ScoreKind, values_array
from headrace.data_prep.selected import COPIES, REASONS, Selected, SelectionRules
from headrace.data_prep.selection_rules.rules import ascending
from headrace.data_prep.shuffle.records import save_array
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish, missing_tasks
from headrace.pipeline.core.errors import ConfigError, RetryableError
from headrace.pipeline.core.settings import decode
from tests.stage_run import run_here
from tests.unique_documents import unique_documents

Value = float | str | None
Columns = dict[str, list[list[Value]]]
KINDS: dict[str, ScoreKind] = {"quality": float, "length": float, "topic": str}


def corpus(seed: int, sizes: tuple[int, ...] = (40, 0, 7, 90, 1)) -> tuple[list[list[str]], Columns]:
    """Ids, and columns with many ties and missing values."""
    chooser = random.Random(seed)
    ids = [[f"{seed}-{shard}.jsonl:{number}" for number in range(size)] for shard, size in enumerate(sizes)]
    columns: Columns = {
        "quality": [[chooser.choice([0.0, -0.0, 0.25, 0.5, 0.9, 1.0, None]) for _ in shard] for shard in ids],
        "length": [[float(chooser.randrange(-5, 60)) for _ in shard] for shard in ids],
        "topic": [[chooser.choice(["news", "science", "", "sport"]) for _ in shard] for shard in ids],
    }
    return ids, columns


def artifacts(folder: Path, ids: list[list[str]], columns: Columns) -> dict[str, Artifact]:
    unique = unique_documents(folder / "unique" / "u", [[f"text {i}" for i in shard] for shard in ids], ids)
    made = {"unique": unique}
    for name, shards in columns.items():
        path = folder / name
        for task, values in enumerate(shards):
            out = TaskOutput(path, "column", task)
            with out.shard(VALUES, "npy") as file:
                save_array(file, values_array(values, KINDS[name]))
            out.done({"documents": len(values)})
        made[column_stage(name)] = finish(path, {"stage": "column"}, {"column": len(shards)})
    return made


def brute_force(rules: list[dict[str, Any]], ids: list[str], columns: dict[str, list[Value]]) -> list[tuple[int, str]]:
    """The copies and the reason of each document."""
    copies, reasons = [1] * len(ids), [""] * len(ids)
    for rule in rules:
        kind, column = rule["type"], rule["column"]
        for i, value in enumerate(columns[column]):
            if value in (None, "") and kind != "copies" and copies[i]:
                copies[i], reasons[i] = 0, f"missing.{column}"
        left = [i for i in range(len(ids)) if copies[i]]
        best: set[int] = set()
        if kind == "share":
            sign = 1 if rule.get("best") == "lowest" else -1
            tie = {i: digest(f"share {column}", ids[i]) for i in left}
            ranked = sorted(left, key=lambda i: (sign * columns[column][i], tie[i]))
            best = set(ranked[: math.ceil(Fraction(str(rule["share"])) * len(ranked))])
        for i in left:
            total = copies[i] * factor(rule, columns[column][i], i in best)
            copies[i] = math.floor(total)
            copies[i] += digest(f"{kind} {column} {rule.get('seed', 0)}", ids[i]) / 2**64 < total - math.floor(total)
            reasons[i] = "" if copies[i] else f"{kind}.{column}"
    return list(zip(copies, reasons, strict=True))


def factor(rule: dict[str, Any], value: Any, is_best: bool) -> float:
    match rule["type"]:
        case "threshold":
            return rule.get("min", -math.inf) <= value <= rule.get("max", math.inf)
        case "any_of":
            return value in rule["texts"]
        case "share":
            return is_best
    if "texts" in rule:
        return rule["texts"].get(value, rule.get("otherwise", 1))
    steps = [step["copies"] for step in rule["steps"] if value is not None and step["at_least"] <= value]
    return steps[-1] if steps else rule.get("otherwise", 1)


def digest(purpose: str, identity: str) -> int:
    return int.from_bytes(hashlib.sha256(purpose.encode() + b"\0" + identity.encode()).digest()[:8], "little")


STEPS = [{"at_least": 0.25, "copies": 0.5}, {"at_least": 0.9, "copies": 2.5}]
RULES: dict[str, list[dict[str, Any]]] = {
    "threshold": [{"type": "threshold", "column": "length", "min": 0, "max": 50}],
    "any_of": [{"type": "any_of", "column": "topic", "texts": ["news", "sport"]}],
    "share": [{"type": "share", "column": "quality", "share": 0.3}],
    "lowest": [{"type": "share", "column": "length", "share": 0.07, "best": "lowest"}],
    "all": [{"type": "share", "column": "quality", "share": 1.0}],
    "constant": [{"type": "copies", "column": "quality", "steps": [], "otherwise": 0.5, "seed": 3}],
    "steps": [{"type": "copies", "column": "quality", "steps": STEPS, "otherwise": 0}],
    "texts": [{"type": "copies", "column": "topic", "texts": {"news": 0.25, "science": 3}, "otherwise": 1.5}],
    "in order": [
        {"type": "threshold", "column": "length", "min": 3},
        {"type": "share", "column": "quality", "share": 0.75},
        {"type": "copies", "column": "topic", "texts": {"news": 2.5, "sport": 0}},
        {"type": "share", "column": "length", "share": 0.5},
        {"type": "copies", "column": "quality", "steps": STEPS},
    ],
}


def stage(rules: list[dict[str, Any]]) -> Selected:
    return Selected(selection=decode(SelectionRules, {"rules": rules}))


def chosen(artifact: Artifact, shards: int) -> list[list[tuple[int, str]]]:
    names = decode(SelectionRules, artifact.settings["selection"]).reason_names
    shards_chosen = []
    for shard in range(shards):
        copies, reasons = (np.load(artifact.shard(kind, shard, "npy")).tolist() for kind in (COPIES, REASONS))
        shards_chosen.append([(number, names[reason]) for number, reason in zip(copies, reasons, strict=True)])
    return shards_chosen


def joined(shards: Iterable[Iterable[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(shards))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", [1, 2])
def test_it_is_the_brute_force(name: str, seed: int, tmp_path: Path) -> None:
    ids, columns = corpus(seed)
    inputs = artifacts(tmp_path / "in", ids, columns)
    selected = stage(RULES[name])
    made = run_here(
        selected, {key: inputs[key] for key in selected.inputs}, tmp_path / "selected", backwards=True, twice=True
    )
    flat = {column: [value for shard in shards for value in shard] for column, shards in columns.items()}
    expected = brute_force(RULES[name], joined(ids), flat)
    assert joined(chosen(made, len(ids))) == expected
    reasons = Counter(reason for _, reason in expected)
    assert made.counts["kept"] == reasons.pop("") > 0
    assert made.counts["copies"] == sum(copies for copies, _ in expected)
    assert {key.removeprefix("dropped:"): n for key, n in made.counts.items() if key.startswith("dropped:")} == reasons


def test_a_share_is_exact_where_all_values_are_equal(tmp_path: Path) -> None:
    ids = [[f"a:{n}" for n in range(60)], [f"b:{n}" for n in range(41)]]
    inputs = artifacts(tmp_path, ids, {"quality": [[0.5] * 60, [0.5] * 41]})
    for share, kept in ((0.1, 11), (0.5, 51), (0.001, 1), (1.0, 101)):
        made = run_here(stage([{"type": "share", "column": "quality", "share": share}]), inputs, tmp_path / str(share))
        assert made.counts["kept"] == kept == math.ceil(Fraction(str(share)) * 101)


def test_other_shards_in_another_order_select_the_same_documents(tmp_path: Path) -> None:
    ids, columns = corpus(5)
    rules = RULES["in order"]
    both = []
    for order in ([0, 1, 2, 3, 4], [3, 0, 4, 2, 1]):
        own_ids = [ids[n] for n in order]
        inputs = artifacts(tmp_path / str(order), own_ids, {c: [s[n] for n in order] for c, s in columns.items()})
        made = run_here(stage(rules), inputs, tmp_path / f"out {order}")
        both.append(dict(zip(joined(own_ids), joined(chosen(made, 5)), strict=True)))
    assert both[0] == both[1]


def test_a_fraction_of_copies_is_that_share_of_documents(tmp_path: Path) -> None:
    ids = [[f"a:{n}" for n in range(4000)]]
    inputs = artifacts(tmp_path, ids, {"quality": [[1.0] * 4000]})
    copies = {}
    for seed in (0, 1):
        rules = [{"type": "copies", "column": "quality", "otherwise": 2.25, "seed": seed}]
        copies[seed] = [n for n, _ in chosen(run_here(stage(rules), inputs, tmp_path / str(seed)), 1)[0]]
        assert set(copies[seed]) == {2, 3}
        assert sum(copies[seed]) / 4000 == pytest.approx(2.25, abs=5 * math.sqrt(0.25 * 0.75 / 4000))
    assert copies[0] != copies[1]


def test_integers_are_in_the_order_of_numbers() -> None:
    numbers = [-math.inf, -1e300, -2.0, -1e-310, -0.0, 0.0, 5e-324, 1.0, 1.0000000000000002, math.inf]
    integers = ascending(np.array(numbers)).tolist()
    assert integers == sorted(integers)
    assert integers[4] == integers[5]
    assert len(set(integers)) == len(numbers) - 1


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"type": "threshold", "column": "quality"}, "selection.rules.1: min and max are null"),
        (
            {"type": "threshold", "column": "quality", "min": 2, "max": 1},
            "selection.rules.1: min = 2.0 is above max = 1.0",
        ),
        (
            {"type": "copies", "column": "topic", "steps": STEPS, "texts": {"a": 1}},
            "selection.rules.1: 2 steps and 1 texts",
        ),
        (
            {"type": "copies", "column": "quality", "steps": STEPS[::-1]},
            "selection.rules.1.steps: .* no ascending order",
        ),
        ({"type": "share", "column": "quality", "share": 0}, "share"),
        ({"type": "share", "column": "qualty", "share": 1}, "there is no column 'qualty'; did you mean 'quality'"),
        ({"type": "any_of", "column": "quality", "texts": ["a"]}, "'quality' holds numbers, which any_of cannot read"),
        ({"type": "share", "column": "topic", "share": 0.5}, "'topic' holds texts, which share cannot read"),
        (
            {"type": "copies", "column": "topic", "steps": [{"at_least": 0.5, "copies": 2}]},
            "'topic' holds texts, which copies with steps cannot read",
        ),
        (
            {"type": "copies", "column": "quality", "texts": {"news": 2}},
            "'quality' holds numbers, which copies with texts cannot read",
        ),
    ],
)
def test_what_cannot_be_is_refused(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stage([*RULES["any_of"], rule]).selection.check_columns({"quality": float, "topic": str})


def test_too_many_copies_are_refused(tmp_path: Path) -> None:
    inputs = artifacts(tmp_path, [["a:0"]], {"quality": [[1.0]]})
    with pytest.raises(ConfigError, match="1,000,000,000 copies of a document"):
        run_here(stage([{"type": "copies", "column": "quality", "otherwise": 1000}] * 3), inputs, tmp_path / "out")


@pytest.mark.parametrize("killed_after", range(0, 26, 5))
def test_a_killed_run_resumes_to_the_same_bytes(killed_after: int, tmp_path: Path) -> None:
    """The tasks before the kill are done; the one that it meets has left an unfinished file."""
    ids, columns = corpus(7)
    inputs = artifacts(tmp_path / "in", ids, columns)
    selected = stage(RULES["in order"])
    whole = run_here(selected, inputs, tmp_path / "a" / "whole")
    folder = tmp_path / "b" / "killed"
    tasks = [(phase, task) for phase in selected.phases({"unique": 5}) for task in range(phase.tasks)]
    for number, (phase, task) in enumerate(tasks):
        out = TaskOutput(folder, phase.name, task)
        if number < killed_after:
            out.done(phase.run(task, inputs, out))
        elif number == killed_after:
            phase.run(task, inputs, out)  # no part record: as after a kill before it
    for phase, task in tasks:
        if task in missing_tasks(folder, phase.name, phase.tasks):
            out = TaskOutput(folder, phase.name, task)
            out.done(phase.run(task, inputs, out))
    phases = {phase.name: phase.tasks for phase in selected.phases({"unique": 5})}
    addresses = {name: artifact.folder.name for name, artifact in inputs.items()}
    assert finish(folder, selected.description(addresses), phases).identity == whole.identity


def test_a_damaged_rank_is_found_and_made_again(tmp_path: Path) -> None:
    ids, columns = corpus(8)
    inputs = artifacts(tmp_path / "in", ids, columns)
    selected, folder = stage(RULES["share"]), tmp_path / "out"
    rank, cut, _ = selected.phases({"unique": 5})
    for task in range(5):
        out = TaskOutput(folder, rank.name, task)
        out.done(rank.run(task, inputs, out))
    (folder / "scratch" / "rank0" / "rank" / "00003.npy").write_bytes(b"damaged")
    with pytest.raises(RetryableError, match="task 3 of phase 'rank0' is repeated"):
        cut.run(0, inputs, TaskOutput(folder, cut.name, 0))
    assert missing_tasks(folder, rank.name, 5) == [3]
