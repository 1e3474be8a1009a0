"""``headrace forget``: its findings, its new packs, and the command that continues from there."""

import hashlib
import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from headrace.data_prep.document import read_documents
from headrace.data_prep.tokenization.shards import PackedRows
from headrace.pipeline.command_line.request import newest
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import FORMAT, Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.core.stage import address_of
from headrace.pipeline.documents import forgetting
from headrace.pipeline.run.planner import plan
from headrace.pipeline.run.saved_run import run_file
from tests.command_line import headrace_here
from tests.small_runs import Corpus, build, page, run_with


@pytest.fixture(scope="module")
def c4(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("c4"), "c4")


@pytest.fixture
def plain(tmp_path: Path) -> Corpus:
    return build(tmp_path, "none")


def facts_of(corpus: Corpus, *words: str) -> list[tuple[str, str]]:
    return list(forgetting.fate_facts(corpus.steps, forgetting.fates_of(corpus.steps, words)))


def test_what_is_in_tokens_is_listed_with_its_span_and_rows(c4: Corpus) -> None:
    """The same spans and rows as ``why`` names, for an id and for a URL."""
    for word in (f"{c4.first}:0", "https://a.example/?page=0"):
        found = facts_of(c4, word)
        last = int(np.load(c4.artifact("tokens").shard("bounds", 0, "npy"))[1])
        assert found[0] == ("id", f"{c4.first}:0")
        assert ("url", word) in found if "://" in word else "url" not in dict(found)
        assert dict(found)["tokens"] == f"{last - 1} in token shard 0, [1:{last}]"
        rows = [fact for fact in c4.why(f"{c4.first}:0") if fact[0] in ("split", "row")]
        assert [fact for fact in found if fact[0] in ("split", "row")] == rows
        assert len(rows) > 2


def test_what_is_not_in_tokens_is_listed_with_its_fate(c4: Corpus) -> None:
    removed, survivor = f"{c4.first}:5", f"{c4.second}:4"
    value = c4.values(removed, "value")[0]
    texts, other = c4.artifact("texts").folder, "http://www.a.example/?page=0/"
    assert facts_of(c4, f"{c4.second}:2", removed, f"{c4.first}:99", other, "") == [
        ("id", f"{c4.second}:2"),
        ("dropped by", "clean"),
        ("rule", "c4_lines.sentences"),
        ("value", "0"),
        ("meaning", "0 sentences left, 3 needed"),
        ("", ""),
        ("id", removed),
        ("dropped by", "unique"),
        ("rule", "near_duplicate"),
        ("value", value),
        ("meaning", f"similar to {value.replace(' jaccard=', ', Jaccard similarity ')}"),
        ("still there", f"{survivor} says the same: list it to forget that, too"),
        ("", ""),
        ("unknown", f"{c4.first}:99: neither an id nor a URL of {texts}"),
        ("", ""),
        ("unknown", f"{other}: neither an id nor a URL of {texts}; did you mean 'https://a.example/?page=0'?"),
        ("", ""),
        ("unknown", f": neither an id nor a URL of {texts}"),
        ("", ""),
    ]


def test_a_url_names_every_document_that_has_it(c4: Corpus) -> None:
    """One of the two was dropped for the other."""
    fates = forgetting.fates_of(c4.steps, ["https://a.example/?page=3"])
    assert [(fate.id, fate.dropped_by) for fate in fates if not fate.is_in_tokens] in (
        [(f"{c4.first}:3", "clean")],
        [(f"{c4.second}:3", "clean")],
    )
    assert sorted(fate.id for fate in fates) == [f"{c4.first}:3", f"{c4.second}:3"]


def spans(packed: Artifact) -> list[tuple[int, int]]:
    """(shard, position) of every position of every row of both splits."""
    found = []
    for split in ("train", "validation"):
        rows = PackedRows(packed, split)
        for row in range(len(rows)):
            for shard, start, length in rows.spans(row).tolist():
                found += [(shard, position) for position in range(start, start + length)]
    return found


def positions(corpus: Corpus, without: set[str]) -> list[tuple[int, int]]:
    """Returns the positions that ``spans`` must find, sorted: every document but ``without``, once."""
    found = []
    for shard, path in enumerate(corpus.artifact("unique").shards("documents")):
        bounds = np.load(corpus.artifact("tokens").shard("bounds", shard, "npy")).tolist()
        for row, document in enumerate(read_documents(path)):
            if document.id not in without:
                found += [(shard, position) for position in range(bounds[row], bounds[row + 1])]
    return found


def stored(corpus: Corpus, *stages: str) -> dict[Path, tuple[int, str]]:
    """Time and content of every file of the artifacts of ``stages``."""
    files = (path for stage in stages for path in corpus.artifact(stage).folder.rglob("*") if path.is_file())
    return {path: (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files}


def test_the_command_packs_again_without_them_and_touches_nothing_else(plain: Corpus, tmp_path: Path) -> None:
    gone = {f"{plain.first}:0", f"{plain.first}:7", f"{plain.second}:3"}
    before = stored(plain, "clean", "unique", "tokens", "packed")
    listed = tmp_path / "ids.txt"
    listed.write_text(f"{plain.first}:0\r\n\n{plain.first}:7\nhttps://d.example/?page=3\n{plain.first}:7\nnowhere\n")
    result = headrace_here("forget", "--ids", str(listed), *plain.overrides)
    assert result.returncode == 0, result.stderr
    assert stored(plain, "clean", "unique", "tokens", "packed") == before
    said = dict(line.split(None, 1) for line in result.stdout.splitlines() if line[:9] in ("packed   ", "list     "))
    packed = Artifact(Path(said["packed"]))
    assert packed.folder.parent == plain.artifact("packed").folder.parent
    assert sorted(spans(packed)) == positions(plain, gone)
    assert sorted(spans(plain.artifact("packed"))) == positions(plain, set())
    assert Path(said["list"]).read_text() == "".join(f"{one}\n" for one in sorted(gone))
    assert "unknown           nowhere: neither an id nor a URL" in result.stdout
    assert "forgotten         3 documents, " in result.stdout

    (line,) = (line for line in result.stdout.splitlines() if line.startswith("train without"))
    command = shlex.split(line.removeprefix("train without"))
    config = decoded(compose([*command[1:], "until=packed"]))
    assert command[0] == "headrace"
    assert plan(config)[-2].folder == packed.folder, "the printed command leads to these rows"
    assert plan(decoded(compose(command[1:])))[-2].name == "scores", "... and on to the end of the line"

    written = {path: path.read_bytes() for path in packed.folder.rglob("*.npy")}
    for path in (*packed.folder.glob("parts/*"), *packed.folder.glob("spans/*"), packed.folder / "manifest.json"):
        path.unlink()
    again = headrace_here("forget", "--ids", str(listed), *plain.overrides)
    assert again.returncode == 0, again.stderr
    assert {path: path.read_bytes() for path in packed.folder.rglob("*.npy")} == written, "as if it was never stopped"


def test_what_was_forgotten_before_stays_forgotten(plain: Corpus, tmp_path: Path) -> None:
    """The second time without settings: the newest run is the one that forgot already."""
    first, second = f"{plain.first}:0", f"{plain.second}:3"
    root = plain.config.root
    for word, more in ((first, plain.overrides), (second, [f"root={root}"])):
        (tmp_path / "ids.txt").write_text(word)
        result = headrace_here("forget", "--ids", str(tmp_path / "ids.txt"), *more)
        assert result.returncode == 0, result.stderr
    run = newest(root)
    assert sorted(spans(Artifact(run.stages[-2].folder))) == positions(plain, {first, second})
    assert [one for one in run.overrides if "forget" in one] == [f"packing.forget='{run.config.packing.forget}'"]
    assert [one for one in run.overrides if "until" in one] == []
    assert set(plain.overrides) - {"until=packed"} < set(run.overrides)
    shown = list(forgetting.fate_facts(run.stages, forgetting.fates_of(run.stages, [first])))
    assert ("row", "none: forgotten before") in shown


def write_manifest(weights: Path, packed: str, *sources: dict[str, str]) -> None:
    """Writes as much of the manifest of ``weights`` as ``forget`` reads."""
    mixture = {"mixture": {"sources": [{"name": "own", "packed": None}, *sources]}}
    manifest = {"format": FORMAT, "files": {}, "inputs": {"packed": packed}, "settings": mixture}
    write_sealed(weights / "manifest.json", manifest)


def test_weights_that_saw_them_are_named(plain: Corpus) -> None:
    """Finished weights by their manifest, unfinished ones by their run.json; no weights whose rows do not hold them."""
    root, packed = Path(plain.config.root), plain.artifact("packed")
    names = [f"{file}:{record}" for file in (plain.first, plain.second) for record in range(9)]
    seen = [name for name in names if ("split", "train") in plain.why(name)]
    ids = [*seen[:2], *(name for name in names if ("split", "validation") in plain.why(name))][:3]
    without = forgetting.without(plain.run, forgetting.fates_of(plain.steps, ids))
    write_manifest(root / "weights/finished", packed.folder.name)
    other = without.stages[-2].folder.name
    write_manifest(root / "weights/innocent", other)
    write_manifest(root / "weights/orphan", "deleted")
    write_manifest(root / "weights/mixed", other, {"name": "with them", "packed": packed.folder.name})
    description = {"stage": "weights", "inputs": {"packed": packed.folder.name}}
    (root / "weights" / address_of(description) / "checkpoints/step_00000001").mkdir(parents=True)
    (root / "weights/not-begun").mkdir()
    run_json = {"format": FORMAT, "config": {}, "descriptions": {"weights": description}}
    write_sealed(run_file(plain.config.root, plain.config.id), run_json)
    names = sorted(("finished", "mixed", address_of(description)))
    assert list(forgetting.seen_by(root, plain.artifact("tokens"), ids)) == [
        f"{root}/weights/{name}, trained on 2 of them" for name in names
    ]
    assert list(forgetting.seen_by(root, plain.artifact("tokens"), [])) == []


def test_weights_of_a_run_with_other_paths_are_named(plain: Corpus, tmp_path_factory) -> None:
    """Its documents have other ids, because its files have another common folder."""
    root, packed = Path(plain.config.root), plain.artifact("packed")
    more = tmp_path_factory.mktemp("more") / "b.jsonl"
    more.write_text(json.dumps({"text": page(900)}))
    paths = f"source.paths=[{plain.folder}/a.jsonl,{plain.folder}/second.jsonl,{more}]"
    other = run_with(plain.folder, [*plain.overrides, paths])
    write_manifest(root / "weights/here", packed.folder.name)
    write_manifest(root / "weights/there", other.artifact("packed").folder.name)
    trained = ("split", "train")
    ids = (f"{plain.first}:{n}" for n in range(9) if trained in plain.why(f"{plain.first}:{n}"))
    identity = next(one for one in ids if trained in other.why(f"{plain.folder.name}/{one}"))
    expected = [f"{root}/weights/{name}, trained on 1 of them" for name in ("here", "there")]
    assert list(forgetting.seen_by(root, plain.artifact("tokens"), [identity])) == expected

    shutil.rmtree(other.artifact("texts").folder)
    (_, unknown) = forgetting.seen_by(root, plain.artifact("tokens"), [identity])
    assert unknown.startswith(f"unknown for {root}/weights/there: {other.run.stages[0].folder} is not a finished")


def test_ids_may_begin_with_the_path_of_the_file(plain: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plain.folder)
    names = [f"{plain.folder}/{plain.first}:0", f"./{plain.first}:07", f"{plain.first}:0"]
    assert [fate.name for fate in forgetting.fates_of(plain.steps, names)] == [f"{plain.first}:0", f"{plain.first}:7"]
    unknown = ["nowhere:0", "https://a.org:80", f"{plain.folder}/\0:1"]
    assert [(fate.name, fate.id) for fate in forgetting.fates_of(plain.steps, unknown)] == [
        (name, "") for name in unknown
    ]


def test_weights_of_an_older_version_are_reported_as_unknown(plain: Corpus, tmp_path: Path) -> None:
    """The root also holds weights, rows and run.json files that this version cannot read."""
    root, packed = Path(plain.config.root), plain.artifact("packed").folder
    write_manifest(root / "weights/a-new", packed.name)
    write_sealed(root / "weights/b-old/manifest.json", {"format": 2})
    write_manifest(root / "weights/c-old-rows", "rows")
    write_sealed(root / "packed/rows/manifest.json", {"format": 2})
    (root / "weights/d-unfinished/checkpoints/step_00000001").mkdir(parents=True)
    write_sealed(root / "runs/0/run.json", {"config": {}, "descriptions": {}})
    (root / "runs/1").mkdir()
    (root / "runs/1/run.json").write_text("{")
    name = next(one for one in (f"{plain.first}:{n}" for n in range(9)) if ("split", "train") in plain.why(one))
    older = f"has format 2; this version of headrace reads format {FORMAT}"
    expected = [
        f"{root}/weights/a-new, trained on 1 of them",
        f"unknown for {root}/weights/b-old: {root}/weights/b-old {older}",
        f"unknown for {root}/weights/c-old-rows: {root}/packed/rows {older}",
        f"unknown for {root}/weights/d-unfinished: {root}/weights/d-unfinished is unfinished, and no readable run.json "
        "describes it",
    ]
    assert list(forgetting.seen_by(root, plain.artifact("tokens"), [name])) == expected

    (tmp_path / "ids.txt").write_text(name)
    result = headrace_here("forget", "--ids", str(tmp_path / "ids.txt"), *plain.overrides)
    assert result.returncode == 0, result.stderr
    assert [line.split(None, 2)[2] for line in result.stdout.splitlines() if line.startswith("seen by")] == expected


def test_a_list_of_nothing_is_refused(plain: Corpus, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_bytes(b" \n\n")
    result = headrace_here("forget", f"--ids={tmp_path}/ids.txt", *plain.overrides)
    problem = f"headrace: --ids: there is no line in '{tmp_path}/ids.txt'; write ids or URLs into it, one a line\n"
    assert (result.returncode, result.stderr) == (2, problem)


def test_tokens_must_be_there(c4: Corpus) -> None:
    with pytest.raises(
        ConfigError, match=r"^until: the run ends before 'tokens', which is needed here; give until=tokens$"
    ):
        forgetting.fates_of(c4.steps[:1], ["a:0"])
    with pytest.raises(ArtifactError, match=r"^tokens: is not finished"):
        forgetting.fates_of(plan(decoded(compose([*c4.overrides, "cleaning=none"]))), ["a:0"])
