"""Deduplication against older runs: ``dedup.against``."""

import dataclasses
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headrace.data_prep.dedup import corpus
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.corpus import look_up, numbers_of, rows_of, shards_of
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.signatures import Signatures
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import canonical, plain
from tests.data_prep.dedup.corpus import Deduplicated, Texts, deal, deduplicate, family, slow_jaccard
from tests.stage_run import RunStage

DEDUP = Dedup(bands=40, rows=2, buckets=3)
"""Misses a pair with J ≥ 0.8 with probability (1 - 0.64)^40 = 2e-18."""

Against = Callable[..., Deduplicated]


@pytest.fixture
def run_against(run_stage: RunStage, tmp_path: Path) -> Against:
    """``run_against(name, shards, against)`` deduplicates ``shards`` in its own folder."""

    def run(name: str, shards: list[Texts], *older: str, **how: bool) -> Deduplicated:
        folders = tuple(str(tmp_path / one / "unique" / "u") for one in older)
        return deduplicate(run_stage, tmp_path / name, shards, dataclasses.replace(DEDUP, against=folders), **how)

    return run


def text(start: int, n_words: int = 60) -> str:
    return " ".join(f"w{i}" for i in range(start, start + n_words))


def test_every_copy_of_an_older_document_is_removed(run_against: Against) -> None:
    """Three exact copies and two near duplicates, one longer, in two shards."""
    run_against("old", [{"x": "something else"}, {"y": "and more of it", "older": text(0)}])
    longer = text(0, 64)
    ours = [{"a": text(0), "b": text(0), "near": text(2)}, {"c": text(0), "longer": longer, "new": text(500)}]
    result = run_against("new", ours, "old")
    assert list(result.kept()) == ["new"]
    drops = result.drops()
    assert {name: drop["rule"] for name, drop in drops.items()} == {
        **dict.fromkeys("abc", "exact_duplicate"),
        **dict.fromkeys(["near", "longer"], "near_duplicate"),
    }
    assert drops["a"]["value"] == "older"
    assert drops["longer"]["value"] == f"older jaccard={slow_jaccard(longer, text(0)):.2f}"
    assert result.duplicates.counts["removed_for_older"] == 5
    survivors = [np.load(path)["survivor"].tolist() for path in result.duplicates.shards("removed")]
    assert survivors == [[(3 << 32) + 1] * 3, [(3 << 32) + 1] * 2]


def test_two_runs_keep_what_one_run_over_both_keeps(run_against: Against) -> None:
    """Each family has a kept document, no two kept documents are similar, all older ones are kept."""
    generator = random.Random(3)
    families = [family(generator, 6, n_words=60, changes=1) for _ in range(12)]
    old = {f"old{i}:{j}": text for i, one in enumerate(families) for j, text in enumerate(one[:3]) if i % 3}
    new = {f"new{i}:{j}": text for i, one in enumerate(families) for j, text in enumerate(one[3:])}
    first = run_against("old", deal(old, 2)).kept()
    second = run_against("new", deal(new, 3), "old").kept()
    both = first | second
    at_once = run_against("both", deal(old | new, 4)).kept()
    for kept in (both, at_once):
        texts = list(kept.values())
        similar = [slow_jaccard(one, two) for i, one in enumerate(texts) for two in texts[:i]]
        assert max(similar) < 0.8
        dropped = [(old | new)[name] for name in (old | new).keys() - kept.keys()]
        assert all(max(slow_jaccard(one, two) for two in texts) >= 0.8 for one in dropped)
    assert second
    assert len(second) < len(new) / 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowedSignatures(Signatures):
    """Signatures of a later version, with a setting whose value null is not its default."""

    window: int | None = 3


def test_a_setting_of_null_differs_from_one_at_its_default() -> None:
    older = Signatures.of(DEDUP)
    manifest = {"hashed": canonical(older), "settings": plain(older), "version": older.version}
    corpus._compare("old", manifest, WindowedSignatures(**vars(older)))
    with pytest.raises(ConfigError, match=r"were made with window=\(absent\), ours with window=None; use"):
        corpus._compare("old", manifest, WindowedSignatures(**vars(older), window=None))


@pytest.mark.slow
def test_survivors_do_not_depend_on_sharding(run_against: Against) -> None:
    generator = random.Random(4)
    families = [family(generator, 8, n_words=40, changes=6) for _ in range(6)]
    old = {f"{i}-{j}": text for i, one in enumerate(families) for j, text in enumerate(one[:4])}
    new = {f"{i}+{j}": text for i, one in enumerate(families) for j, text in enumerate(one[4:])}
    run_against("old", [old])
    run_against("old2", deal(old, 4, seed=4))
    first = run_against("new", [new], "old")
    second = run_against("new2", deal(new, 4, seed=9), "old2", backwards=True, twice=True)
    assert first.kept().keys() == second.kept().keys()
    assert first.drops() == second.drops()


def test_documents_removed_by_an_older_run_remove_nothing(run_against: Against) -> None:
    """Neighbours are similar, the ends are not: the middle one was removed, so its neighbour is kept."""
    one, two, three = (f"{text(start)}{' longer' * (start == 0)}" for start in (0, 5, 10))
    assert slow_jaccard(one, two) >= 0.8 <= slow_jaccard(two, three)
    assert slow_jaccard(one, three) < 0.8
    assert run_against("old", [{"one": one, "two": two}]).kept() == {"one": one}
    assert run_against("new", [{"three": three}], "old").kept() == {"three": three}


def test_a_third_run_knows_the_first_two(run_against: Against) -> None:
    run_against("first", [{"a": text(0), "b": text(100)}])
    run_against("second", [{"a2": text(0), "c": text(200)}], "first")
    third = run_against("third", [{"a3": text(0), "b3": text(100), "c3": text(200), "d": text(300)}], "first", "second")
    assert list(third.kept()) == ["d"]
    assert {name: drop["value"] for name, drop in third.drops().items()} == {"a3": "a", "b3": "b", "c3": "c"}
    survivors = np.load(third.duplicates.shard("clusters", 0, "npy")).tolist()
    assert survivors == [1 << 32, (1 << 32) + 1, (2 << 32) + 1, 3]


def test_the_address_depends_on_the_older_runs_not_on_their_path(run_against: Against, tmp_path: Path) -> None:
    run_against("old", [{"a": text(0)}])
    shutil.copytree(tmp_path / "old", tmp_path / "moved")
    shutil.copytree(tmp_path / "old" / "unique" / "u", tmp_path / "old" / "unique" / "other")
    addresses = {"clean": "0", "signatures": "1"}
    stages = [
        Duplicates.of(dataclasses.replace(DEDUP, against=tuple(str(tmp_path / one) for one in folders)))
        for folders in [(), ("old/unique/u",), ("moved/unique/u",), ("old/unique/other",)]
    ]
    none, here, moved, other = (stage.address(addresses) for stage in stages)
    assert here == moved
    assert len({none, here, other}) == 3
    assert {phase.name: phase.tasks for phase in stages[1].phases({"clean": 2})}["bands"] == 3


def test_folders_that_are_not_older_runs(run_against: Against, tmp_path: Path) -> None:
    run_against("old", [{"a": text(0)}])
    for folder in ("nowhere", str(tmp_path / "old" / "clean" / "c")):
        message = (
            f"dedup.against: {folder!r} is no finished artifact of stage unique; "
            "give the folder of an older run's artifact, like runs/unique/b8e44e9d7440"
        )
        with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
            Duplicates.of(Dedup(against=(folder,)))


def test_older_signatures_with_other_settings(run_against: Against, tmp_path: Path) -> None:
    run_against("old", [{"a": text(0)}])
    folder = str(tmp_path / "old" / "unique" / "u")
    message = (
        f"dedup.against: signatures of {folder!r} were made with bands=40, seed=1, ours with bands=20, seed=2; "
        "use the older run's dedup settings, or run it again with these"
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Duplicates.of(Dedup(bands=20, rows=2, seed=2, against=(folder,)))


def test_older_signatures_of_another_version(
    run_against: Against, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_against("old", [{"a": text(0)}])
    folder = str(tmp_path / "old" / "unique" / "u")
    monkeypatch.setattr("headrace.data_prep.signatures.Signatures.version", 99)
    with pytest.raises(
        ConfigError, match=r"have version \d+, ours version 99; run the older run again with this version"
    ):
        Duplicates.of(dataclasses.replace(DEDUP, against=(folder,)))


def test_missing_older_artifacts(run_against: Against, tmp_path: Path) -> None:
    run_against("old", [{"a": text(0)}])
    unique, signatures = tmp_path / "old" / "unique" / "u", tmp_path / "old" / "signatures" / "s"
    shutil.rmtree(signatures)
    message = (
        f"dedup.against: {tmp_path / 'old' / 'duplicates' / 'd'} was made from {signatures}, which does not exist; "
        "keep the inputs of an older run's unique below the same root"
    )
    with pytest.raises(ArtifactError, match=f"^{re.escape(message)}$"):
        Duplicates.of(dataclasses.replace(DEDUP, against=(str(unique),)))


def test_numbers_hold_shard_and_row():
    numbers = numbers_of(70_000, np.array([0, 41, 2**32 - 1]))
    assert numbers.tolist() == [70_000 * 2**32, 70_000 * 2**32 + 41, 70_001 * 2**32 - 1]
    assert shards_of(numbers).tolist() == [70_000] * 3
    assert rows_of(numbers).tolist() == [0, 41, 2**32 - 1]


def test_look_up_keeps_the_order_asked_for():
    shards = [np.array([b"a", b"bbbb"], "S4"), np.array([], "S2"), np.array([b"cc"], "S2")]
    numbers = np.concatenate([numbers_of(2, np.array([0])), numbers_of(0, np.array([1, 0, 1]))])
    assert look_up(shards.__getitem__, numbers).tolist() == [b"cc", b"bbbb", b"a", b"bbbb"]
    assert look_up(shards.__getitem__, numbers[:0]).tolist() == []
