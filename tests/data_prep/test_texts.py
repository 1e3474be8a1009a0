"""The stage: every record is kept or dropped with a reason, and sections of a file give the same as the whole file."""

import dataclasses
import json
import random
import textwrap
from pathlib import Path

from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import Drop, read_documents
from headrace.data_prep.filters.unique_text import UniqueLines
from headrace.data_prep.filters.urls import OnePagePerUrl
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.texts import Texts, repair
from headrace.pipeline.core.artifact import Artifact
from tests.stage_run import run_here, texts_and_clean


def facts(artifact: Artifact, kind: str) -> list[tuple[str, str, object]]:
    documents = [d for path in artifact.shards(kind) for d in read_documents(path)]
    return sorted((d.id, d.text, d.metadata.get("drop")) for d in documents)


def test_every_record_is_kept_or_dropped(tmp_path) -> None:
    lines = ['{"text": "a\\nb"}', "not json", '{"text": 5}', '{"text": "é", "url": "http://a.org"}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines), encoding="utf-8")
    artifact = run_here(Texts(source=Jsonl(paths=(str(tmp_path / "in.jsonl"),))), {}, tmp_path / "out")
    assert [text for _, text, _ in facts(artifact, "documents")] == ["a\nb", "é"]
    assert [drop for _, _, drop in facts(artifact, "dropped")] == [
        {"rule": "not_json", "value": "not json"},
        {"rule": "no_text", "value": "field 'text' is a number, no text"},
    ]
    assert artifact.counts == {
        "records_in": 4,
        "kept": 2,
        "characters_kept": 4,
        "bytes_kept": 5,
        "dropped:not_json": 1,
        "dropped:no_text": 1,
    }


def test_hard_wrapped_texts_are_joined_when_they_are_read(tmp_path) -> None:
    """As the filter joins them; other texts and the words of all stay."""
    sentence = "The mill was closed in the autumn of that year, and nobody in the valley knew when it would open again."
    wrapped, verse = textwrap.fill(" ".join([sentence] * 9), 60), "the wheel\ngoes round and round\nin the\nnight"
    rows = [json.dumps({"text": text}) + "\n" for text in (wrapped, verse, sentence)]
    (tmp_path / "in.jsonl").write_text("".join(rows))
    source = Jsonl(paths=(str(tmp_path / "in.jsonl"),))
    joined, plain = (
        run_here(Texts(source=dataclasses.replace(source, unwrap=unwrap)), {}, tmp_path / str(unwrap))
        for unwrap in (True, False)
    )
    assert [text for _, text, _ in facts(joined, "documents")] == [" ".join([sentence] * 9), verse, sentence]
    assert [text for _, text, _ in facts(plain, "documents")] == [wrapped, verse, sentence]
    assert joined.counts["joined_lines"] == wrapped.count("\n")
    assert "joined_lines" not in plain.counts


def test_sections_of_one_large_file(tmp_path) -> None:
    """The same documents, ids and reasons as from the whole file, each record counted once, the same bytes again."""
    chance = random.Random(0)
    lines = [f"It is said that the wheel of mill {n} turns on quiet days, too." for n in range(40)]
    path = tmp_path / "in.jsonl"
    with path.open("w") as stream:
        for _ in range(40):
            page = {"url": f"http://a.org/{chance.randrange(30)}", "text": "\n".join(chance.sample(lines, 5))}
            stream.write(json.dumps(page) + "\n\nno json\n")
    whole, cleaning = Jsonl(paths=(str(path),), task_bytes=1), Cleaning(filters=(OnePagePerUrl(), UniqueLines()))
    runs = {
        count: texts_and_clean(source, cleaning, tmp_path / str(count), **order)
        for count, order in ((1, {}), (4, {}), (-4, {"backwards": True, "twice": True}))
        for source in [dataclasses.replace(whole, section_bytes=path.stat().st_size // abs(count))]
    }
    assert runs[4][0].counts["dropped:not_json"] == 40
    assert runs[4][1].counts["dropped:one_page_per_url"]
    assert runs[4][1].counts["removed_lines:unique_lines"]
    for one, four, again in zip(*runs.values(), strict=True):
        assert one.counts == four.counts
        assert all(facts(one, kind) == facts(four, kind) for kind in ("documents", "dropped"))
        assert four.manifest == again.manifest
    assert [runs[number][0].manifest["phases"].get("records") for number in (1, 4)] == [None, 4]


def test_a_text_with_a_lone_surrogate_is_repaired_and_dropped() -> None:
    broken = Document("ab\ud800c", "a:0")
    assert repair(broken) == Drop("not_unicode", "character 2")
    assert broken.text == "ab?c"
    assert repair(Document("ab", "a:0")) is None


def test_the_shards_of_a_file_follow_from_the_plan(tmp_path) -> None:
    """They are known after the raw files are gone."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"text": "a text"}\n' * 4)
    stage = Texts(source=Jsonl(paths=(str(tmp_path),), task_bytes=1, section_bytes=19))
    planned = stage.planned_as(stage.description({}))
    for path in tmp_path.glob("*.jsonl"):
        path.unlink()
    assert [list(shards) for shards in planned.shards_by_file.values()] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_the_files_that_tasks_hand_over_grow_linearly_with_the_sections(tmp_path, monkeypatch) -> None:
    """Twice as many sections cost at most 2.5 times as many reads of files of the artifact."""
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "A text of a fixed length."}\n' * 600)
    opened: list[int] = []
    real, folder = Path.open, tmp_path / "out"

    def counted(self: Path, mode: str = "r", *arguments: object, **options: object) -> object:
        if folder in self.parents and "r" in mode:
            opened[-1] += 1
        return real(self, mode, *arguments, **options)

    monkeypatch.setattr(Path, "open", counted)
    for sections in (20, 40, 80):
        opened.append(0)
        source = Jsonl(paths=(str(path),), task_bytes=1, section_bytes=path.stat().st_size // sections)
        artifact = run_here(Texts(source=source), {}, folder / str(sections))
        assert artifact.manifest["phases"] == {"numbering": 1, "records": sections, "texts": sections}
    assert 0 < opened[1] <= 2.5 * opened[0]
    assert opened[2] <= 2.5 * opened[1]
