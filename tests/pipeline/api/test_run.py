"""Saved runs in Python: their documents, tables and model, without the raw data and from any folder."""

import dataclasses
import shlex
import sys
from pathlib import Path

import pytest

import headrace
from headrace.pipeline.api import documents as api_documents
from headrace.pipeline.command_line.request import opened
from headrace.pipeline.core import artifact_files
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.run.saved_run import SavedRun
from headrace.pipeline.run.summary import next_commands
from tests.command_line import headrace_here
from tests.pipeline.api.conftest import METRICS, Root


@pytest.fixture
def pages(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> headrace.Run:
    """The run without a training, opened from another folder."""
    monkeypatch.chdir(tmp_path)
    return headrace.open_run("pages", root=root.path)


@pytest.fixture
def trained(root: Root) -> headrace.Run:
    return headrace.open_run("trained", root=root.path)


def test_a_run_is_found_by_name_id_beginning_path_and_as_the_newest(root: Root, pages: headrace.Run) -> None:
    names = ("pages", pages.id, pages.id[:7], "pag", pages.folder, pages.folder / "run.json")
    assert {headrace.open_run(name, root=root.path).id for name in names} == {pages.id}
    assert headrace.open_run(root=root.path).name == "trained", "it was started last"
    with pytest.raises(headrace.ConfigError, match=r"'pagse' is not a run below .*; did you mean 'pages'"):
        headrace.open_run("pagse", root=root.path)
    with pytest.raises(headrace.ConfigError, match="no run of yours was started below"):
        headrace.open_run()


def test_facts_about_a_run(pages: headrace.Run) -> None:
    assert pages.settings["tokenizer"]["vocabulary_size"] == 300
    assert "tokenizer.vocabulary_size=300" in pages.overrides
    assert [row["state"] for row in pages.stages] == ["done"] * 9 + ["to do"]
    assert all(Path(row["folder"]).is_absolute() for row in pages.stages)
    assert (pages.is_done, pages.report) == (False, None)
    assert repr(pages) == f"<headrace.Run 'pages' {pages.id}: 9 of 10 stages done, {pages.folder}>"
    assert "<td>unique</td><td>done</td>" in pages._repr_html_()


def test_runs_are_those_of_the_command(root: Root) -> None:
    table = headrace.runs(root.path)
    printed = headrace_here("runs", f"root={root.path}").stdout.splitlines()[1:]
    assert [row["name"] for row in table] == [line.split()[0] for line in printed] == ["trained", "pages"]
    assert [row["id"] for row in table] == [line.split()[1] for line in printed]
    assert table.column("loss") == [3.1, None]


def test_an_unreadable_run_is_left_out_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "runs/0").mkdir(parents=True)
    (tmp_path / "runs/0/run.json").write_text("{}")
    with pytest.warns(UserWarning, match=r"left out: 1 run\.json"):
        assert headrace.runs(tmp_path) == []


def test_kept_and_dropped_documents(root: Root, pages: headrace.Run) -> None:
    kept, dropped = (root.stored("clean", kind) for kind in ("documents", "dropped"))
    found = pages.documents("clean")
    assert [(row["id"], row["text"], row["url"]) for row in found] == [
        (one.id, one.text, one.metadata["url"]) for one in kept
    ]
    assert len(found) == len(kept)
    assert {(row["kept"], row["rule"], row["reason"]) for row in found} == {(True, None, None)}
    assert [row["id"] for row in pages.documents(kept=False)] == [one.id for one in dropped]
    both = pages.documents(kept=None)
    assert len(list(both)) == len(both) == len(kept) + len(dropped)


def test_why_a_document_was_dropped(root: Root, pages: headrace.Run) -> None:
    columns = ("rule", "value", "threshold", "reason")
    (short,) = pages.documents("clean", rule="c4_lines.sentences", columns=columns)
    assert tuple(short.values()) == ("c4_lines.sentences", "0", 3.0, "0 sentences left, 3 needed")
    assert len(pages.documents(rule="c4_lines.sentences")) == 1
    by_filter = pages.documents("clean", rule="c4_lines")
    assert len(list(by_filter)) == len(by_filter) > 1, "a filter has several rules"
    (near,) = pages.documents("unique", rule="near_duplicate")
    assert near["threshold"] == pages.settings["dedup"]["threshold"]
    assert near["reason"].startswith("similar to ")
    assert "Jaccard similarity 0." in near["reason"]


def test_any_field_is_a_column(root: Root, pages: headrace.Run) -> None:
    name = "removed_lines.c4_lines.end_mark"
    rows = list(pages.documents(columns=["id", "language", name]))
    assert {row["language"] for row in rows} == {"en"}
    assert {row[name] for row in rows} == {None, 2}
    assert list(rows[0]) == ["id", "language", name]
    assert list(next(iter(pages.documents(columns="id")))) == ["id"]


def test_documents_are_read_when_they_are_asked_for(pages: headrace.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    original = api_documents.read_documents
    monkeypatch.setattr(api_documents, "read_documents", lambda path: read.append(path) or original(path))
    found = pages.documents("texts")
    assert (len(found), read) == (24, [])
    assert len(next(found.batches(3))) == 3
    assert len(read) == 1, "one of two shards"
    assert [len(batch) for batch in found.batches(10)] == [10, 10, 4]
    assert "24 kept documents of texts" in repr(found)
    assert "<td>" in found._repr_html_()
    with pytest.raises(headrace.ConfigError, match="a batch cannot have 0 rows"):
        next(found.batches(0))


def test_a_damaged_shard(root: Root, pages: headrace.Run) -> None:
    path = root.corpus.artifact("texts").folder / "dropped/00000.jsonl.zst"
    before = path.read_bytes()
    artifact_files.CHECKSUMS.clear()
    path.write_bytes(before[:-1] + b"x")
    try:
        with pytest.raises(headrace.ArtifactError, match="is damaged or missing; remove"):
            list(pages.documents("texts", kept=False))
    finally:
        path.write_bytes(before)
        artifact_files.CHECKSUMS.clear()


def test_the_history_of_a_document(root: Root, pages: headrace.Run) -> None:
    name = f"{root.corpus.second}:2"
    short = pages.document(name)
    assert (short.id, short.kept, short.text) == (name, False, short.texts["clean"])
    assert [(row["stage"], row["kept"], row["reason"]) for row in short.stages] == [
        ("texts", True, None),
        ("clean", False, "0 sentences left, 3 needed"),
    ]
    assert str(short) == headrace_here("why", name, "--run", "pages", f"root={root.path}").stdout.rstrip("\n")
    assert [row["stage"] for row in pages.document("https://a.example/?page=1").stages] == ["texts", "clean", "unique"]
    menu = pages.document(f"{root.corpus.second}:6")
    assert "\x1b" in menu.texts["texts"]
    assert "\x1b" not in str(menu) + menu._repr_html_()
    with pytest.raises(headrace.ConfigError, match=r"is the URL of 2 documents: .*:3, .*:3; give an id"):
        pages.document("https://a.example/?page=3")
    with pytest.raises(headrace.ConfigError, match="has no id or URL 'nothing'"):
        pages.document("nothing")


def test_the_funnel_adds_up(root: Root, pages: headrace.Run) -> None:
    funnel = pages.funnel()
    for stage in ("texts", "clean", "unique"):
        counts, rows = root.corpus.artifact(stage).counts, [row for row in funnel if row["stage"] == stage]
        for row in rows:
            assert row["documents"] == counts["kept"] + sum(one["dropped"] for one in rows)
            assert row["share"] == row["dropped"] / row["documents"]
    (sentences,) = [row for row in funnel if row["rule"] == "c4_lines.sentences"]
    assert (sentences["dropped"], sentences["meaning"]) == (1, "Drops pages with fewer than 3 sentences left.")


def test_the_curves_of_a_training(trained: headrace.Run, pages: headrace.Run) -> None:
    metrics = trained.metrics()
    assert metrics.column("step") == [50, 100]
    assert metrics.column("validation_loss") == [None, 3.1]
    assert metrics.columns[-1] == "gradient_norm"
    assert {key: value for key, value in metrics[0].items() if value is not None} == METRICS[0]
    with pytest.raises(headrace.ConfigError, match="the run ends before the training; launch it with until=report"):
        pages.metrics()
    with pytest.raises(headrace.ConfigError, match="there is no column 'los'; did you mean 'loss'"):
        metrics.column("los")


def test_scores_after_and_while_training(trained: headrace.Run) -> None:
    last, first = trained.scores()
    wanted = ("benchmark", "metric", "value", "standard_error", "low", "shots", "checkpoint", "source")
    assert [last[name] for name in wanted] == ["<b>piqa</b>", "acc", 0.75, 0.2, 0.4, 0, 100, "scores"]
    assert [first[name] for name in wanted] == ["piqa", "acc", 0.5, None, None, 2, 50, "while training"]
    page = trained._repr_html_()
    assert "&lt;b&gt;piqa&lt;/b&gt;" in page, "texts of others are escaped"
    assert "<b>piqa" not in page


def test_the_model_writes(trained: headrace.Run, pages: headrace.Run) -> None:
    torch = sys.modules["torch"]
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    model = trained.model(device="cpu")
    text = model.generate("The mill", max_tokens=5)
    assert model.generate(["The mill", "A river"], max_tokens=5)[0] == text
    assert isinstance(model.network, torch.nn.Module)
    ids = model.tokenizer.encode(["The mill"])[0]
    assert model.tokenizer.decode(ids) == "The mill"
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(headrace.ConfigError, match="max_token"):
        model.generate("The mill", max_tokns=5)
    with pytest.raises(headrace.ConfigError, match="the run ends before 'weights'"):
        pages.model()


def test_the_next_command_generates(root: Root, trained: headrace.Run) -> None:
    """The printed command can be copied into a shell as it is."""
    run = opened(SavedRun.read(trained.folder / "run.json"))
    artifacts = {step.name: Artifact(step.folder) for step in run.stages if step.is_whole}
    command = next(next_commands(run, artifacts))
    words = ["headrace", "generate", "--prompt", "The", "--run", "trained", f"root={root.path}"]
    assert shlex.split(command) == words
    assert headrace_here(*shlex.split(command)[1:], "--max-tokens", "2").returncode == 0


def test_the_next_commands_name_their_run_and_its_presets(root: Root, pages: headrace.Run) -> None:
    """They are about this run when another one has been started since, also one of the same name."""
    run = opened(SavedRun.read(pages.folder / "run.json"))
    artifacts = {step.name: Artifact(step.folder) for step in run.stages if step.is_whole}
    inspect, why, start = next_commands(run, artifacts)
    for command in (inspect, why):
        assert command.endswith(f" --run pages root={root.path}")
    assert headrace_here(*shlex.split(why)[1:]).returncode == 0, "the newest run is another one"
    of_mine = next_commands(dataclasses.replace(run, overrides=["cleaning=mine"], config_dir="my presets"), artifacts)
    assert list(of_mine)[-1] == "headrace cleaning=mine --config-dir 'my presets'"
    assert "--config-dir" not in start
    shared = dataclasses.replace(run, config=dataclasses.replace(run.config, name="trained-too"))
    assert f" --run {run.config.id} " in next(next_commands(shared, artifacts)), "no saved run has the name"


def test_tables_become_arrow_tables_and_json(pages: headrace.Run) -> None:
    table = pages.documents(kept=False).to_arrow()
    assert table.column("threshold").to_pylist().count(3.0) == 1
    assert table.num_rows == len(pages.documents(kept=False))
    assert pages.funnel().to_arrow().schema.names == list(pages.funnel().columns)
    assert "c4_lines.sentences" in str(pages.funnel())
