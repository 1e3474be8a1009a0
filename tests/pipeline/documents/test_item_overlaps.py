"""A benchmark's items planted in pages that go through the real data stages, under each action."""

import json
import random
from pathlib import Path

import pytest

from headrace.data_prep.document import read_documents
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.documents import document_path
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import plan

PASSAGES = [
    "The heron stood by the weir until dusk, and when the miller opened the gate it flew away over the river",
    "Nobody had told the baker that the bridge was closed, so the flour stood on the wrong bank all winter",
    "A lamp burned in the upper window of the mill while the water ran brown and loud below the road",
]
ITEMS = [f"quiz/quiz.jsonl:{number}" for number in (1, 2, 3)]
WORDS = [f"{a}{b}" for a in "bcdfghklmnprst" for b in ("an", "el", "ir", "om", "us")]


def filler(seed: int) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=120))


def planted() -> list[dict[str, str]]:
    loud = PASSAGES[0].upper().replace(",", " —")
    twelve = " ".join(PASSAGES[2].split()[:12])
    texts = [
        f"{filler(0)} {PASSAGES[0]}. {filler(1)}",
        f"{filler(2)} {loud}! {filler(3)}",
        f"{filler(4)} {twelve} {filler(5)}",
    ]
    texts += [f"{filler(6)} {PASSAGES[0]} {PASSAGES[1]} {filler(7)}", *map(filler, range(10, 22))]
    return [{"text": text, "url": f"https://a.example/{number}"} for number, text in enumerate(texts)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in planted()))
    (folder / "quiz.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in PASSAGES))
    return folder


def steps_of(corpus: Path, *overrides: str) -> list[PlannedStage]:
    return plan(
        decoded(
            compose(
                [
                    "source=jsonl",
                    f"source.paths=[{corpus}/pages.jsonl]",
                    "cleaning=none",
                    f"root={corpus}/runs",
                    "until=overlaps",
                    f"+evaluation.benchmarks.quiz={{type: lambada, paths: [{corpus}/quiz.jsonl]}}",
                    f"+evaluation.benchmarks.quiz_2shot={{type: lambada, paths: [{corpus}/quiz.jsonl], shots: 2}}",
                    *overrides,
                ]
            )
        )
    )[:-1]  # without the report


def built(run_stage, corpus: Path, *overrides: str) -> list[PlannedStage]:
    steps = steps_of(corpus, *overrides)
    for step in steps:
        if not step.is_whole:
            run_stage(step.stage, {name: Artifact(path) for name, path in step.inputs.items()}, step.folder)
    return steps


@pytest.fixture(scope="module")
def runs(run_stage, corpus) -> dict[str, list[PlannedStage]]:
    made = {option: built(run_stage, corpus, f"decontamination={option}") for option in ("report", "ngram_13", "none")}
    masking = ("decontamination=ngram_13", "decontamination.action=mask", "decontamination.window_characters=0")
    return made | {"mask": built(run_stage, corpus, *masking), "gpt3": built(run_stage, corpus, "decontamination=gpt3")}


def artifact(steps: list[PlannedStage], stage: str) -> Artifact:
    return next(Artifact(step.folder) for step in steps if step.name == stage)


def kept(steps: list[PlannedStage]) -> dict[str, str]:
    """The text of each document that is kept, by its number in the file."""
    found = [one for path in artifact(steps, "unique").shards("documents") for one in read_documents(path)]
    return {one.id.rpartition(":")[2]: one.text for one in found}


def items(steps: list[PlannedStage]) -> dict[str, dict[str, object]]:
    return read_json(artifact(steps, "overlaps").path("items.json"))["benchmarks"]


def told(steps: list[PlannedStage], corpus: Path, number: int) -> list[str]:
    facts = document_path.document_facts(steps, f"{corpus}/pages.jsonl:{number}")
    return [value for key, value in facts if key == "benchmark item"]


def test_report_changes_no_document(runs, corpus) -> None:
    texts = {str(number): row["text"] for number, row in enumerate(planted())}
    assert kept(runs["report"]) == kept(runs["none"]) == texts
    dirty = {"quiz.jsonl:1": 3, "quiz.jsonl:2": 1}
    assert items(runs["report"]) == {"quiz": {"items": 3, "too_short": [], "dirty": dirty}}
    assert items(runs["none"]) == {}
    assert artifact(runs["report"], "unique").folder == artifact(runs["none"], "unique").folder


def test_drop_leaves_nothing_dirty(runs) -> None:
    assert kept(runs["ngram_13"]).keys() == {str(n) for n in range(16)} - {"0", "1", "3"}
    assert items(runs["ngram_13"]) == {"quiz": {"items": 3, "too_short": [], "dirty": {}}}


@pytest.mark.parametrize("how", ["mask", "gpt3"])
def test_mask_leaves_nothing_dirty_and_the_rest_as_it_is(how, runs) -> None:
    texts, before = kept(runs[how]), kept(runs["report"])
    assert {number for number in before if texts.get(number) != before[number]} == {"0", "1", "3"}
    assert items(runs[how])["quiz"]["dirty"] == {}
    if how == "mask":
        assert texts["0"] == f"{filler(0)}\n\n{filler(1)}"
        assert texts["3"] == f"{filler(6)}\n\n{filler(7)}"


def test_why_names_the_items(runs, corpus) -> None:
    first = "the heron stood by the weir until dusk and when the miller opened"
    words = len(PASSAGES[0].split())
    whole = f"{ITEMS[0]}: {words - 12} of {words - 12} n-grams, from “{first}” on; "
    for run, action in (("report", "kept"), ("mask", "masked"), ("ngram_13", "dropped")):
        for number in (0, 1):
            assert told(runs[run], corpus, number) == [whole + action]
        assert [value.split(": ")[0] for value in told(runs[run], corpus, 3)] == ITEMS[:2]
        assert told(runs[run], corpus, 2) == told(runs[run], corpus, 9) == []
    assert told(runs["none"], corpus, 0) == []


def explained(steps: list[PlannedStage], word: str = "") -> list[Fact]:
    return list(document_path.overlap_facts(steps, word))


def test_overlaps_of_a_benchmark_and_of_an_item(runs, corpus) -> None:
    assert explained(runs["report"]) == [
        ("quiz", "2 of 3 items are dirty, 0 too short to tell, 3 documents kept"),
    ]
    assert explained(runs["ngram_13"]) == [
        ("quiz", "0 of 3 items are dirty, 0 too short to tell, 3 documents dropped"),
    ]
    for run in ("report", "mask"):
        assert explained(runs[run], "quiz") == [(ITEMS[0], "3 documents"), (ITEMS[1], "1 document")]
        documents = [value.split(": ")[0] for _, value in explained(runs[run], ITEMS[0])]
        assert documents == [f"pages.jsonl:{number}" for number in (0, 1, 3)]


def test_what_overlaps_with_nothing(runs, run_stage, corpus) -> None:
    with pytest.raises(ConfigError) as caught:
        explained(runs["report"], "quizz")
    assert str(caught.value) == "ITEM: nothing overlaps with 'quizz'; did you mean 'quiz'?"
    with pytest.raises(ConfigError) as caught:
        explained(runs["none"])
    assert str(caught.value) == (
        "decontamination: no benchmark was searched for; give benchmarks that come from files "
        "(evaluation=standard evaluation.data=FOLDER)"
    )
    strict = ("decontamination.ngram_words=20", "decontamination=report")
    (corpus / "other.jsonl").write_text(json.dumps({"text": filler(99)}) + "\n")
    other = f"+evaluation.benchmarks.other={{type: lambada, paths: [{corpus}/other.jsonl]}}"
    assert explained(built(run_stage, corpus, other, *strict), "other") == [
        ("other", "none of its items is in a document")
    ]
    with pytest.raises(ArtifactError, match=r"^overlaps: is not finished"):
        explained(steps_of(corpus, "decontamination.ngram_words=21"))


def test_one_more_benchmark_to_report_on_changes_no_training_data(corpus) -> None:
    def addresses(*overrides: str) -> dict[str, str]:
        return {step.name: step.address for step in steps_of(corpus, *overrides)}

    (corpus / "more.jsonl").write_text(json.dumps({"text": "one two three"}) + "\n")
    more = f"+evaluation.benchmarks.more={{type: lambada, paths: [{corpus}/more.jsonl]}}"
    shots = f"+evaluation.benchmarks.quiz_4shot={{type: lambada, paths: [{corpus}/quiz.jsonl], shots: 2}}"
    plain, with_more = addresses(), addresses(more)
    assert {stage for stage in plain if plain[stage] != with_more[stage]} == {"overlaps"}
    assert addresses(shots) == plain
    drop = "decontamination=ngram_13"
    assert addresses(drop, shots) == addresses(drop)
    assert addresses(drop, more)["unique"] != addresses(drop)["unique"]
