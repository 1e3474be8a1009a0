"""One flipped byte in any file of any artifact: who reads it stops and names it; who does not writes what it did."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact, part_path
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import load, plan, save
from headrace.train.data.rows import Rows
from tests.small_runs import page
from tests.train.causal_rows import causal

UNREAD = {
    ("texts", "dropped"),
    ("clean", "dropped"),
    ("unique", "dropped"),
    ("duplicates", "clusters"),
    ("duplicates", "pairs"),
}
UNREAD |= {("overlaps", "items.json")}
"""Kinds of files for people (``headrace why``, ``inspect``) or for scores: here no later data stage reads them."""
KINDS = [
    ("texts", "documents"), ("texts", "dropped"), ("clean", "documents"), ("clean", "dropped"),
    ("signatures", "signatures"), ("signatures", "digests"),
    ("signatures", "characters"), ("signatures", "ids"), ("duplicates", "clusters"), ("duplicates", "pairs"),
    ("duplicates", "removed"), ("unique", "documents"), ("unique", "dropped"), ("tokenizer", "tokenizer.json"),
    ("tokens", "bounds"), ("tokens", "keys"), ("tokens", "text_bytes"), ("overlaps", "items.json"),
]  # fmt: skip
LAST = [("packed", "rows"), ("packed", "spans"), ("tokens", "tokens")]
"""The files that training reads."""


@pytest.fixture(scope="module")
def steps(run_stage, tmp_path_factory) -> list[PlannedStage]:
    """A finished small line, from pages to rows, with a near duplicate and pages that cleaning drops."""
    folder = tmp_path_factory.mktemp("line")
    texts = [page(number) for number in range(12)] + [page(1) + " And one sentence more.", page(2), ""]
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    values = ["source=jsonl", f"source.paths=[{folder}/a.jsonl]", "cleaning=none", "dedup.buckets=2"]
    values += [f"root={folder}/runs", "until=packed", "tokenizer.vocabulary_size=300", "model=demo"]
    values += ["packing.validation_fraction=0.5"]
    steps = plan(decoded(compose(values)))[:-1]  # without the report
    for step in steps:
        run_stage(step.stage, {name: Artifact(path) for name, path in step.inputs.items()}, step.folder)
    save(decoded(compose(values)), {"root": f"{folder}/runs"}, steps, [])
    return steps


def flip(path: Path) -> None:
    """One bit in the middle of the file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def names(step: PlannedStage) -> set[str]:
    """The kinds of files in a finished artifact."""
    return {name.partition("/")[0] for name in Artifact(step.folder).manifest["files"]}


def test_every_kind_of_file_is_tried(steps: list[PlannedStage]) -> None:
    assert {(step.name, kind) for step in steps for kind in names(step)} == {*KINDS, *LAST}


@pytest.mark.parametrize(("stage", "kind"), KINDS)
def test_who_reads_a_damaged_file_names_it(
    steps: list[PlannedStage], run_stage: Callable[..., Artifact], tmp_path: Path, stage: str, kind: str
) -> None:
    folders = {step.name: step.folder for step in steps}
    copy = tmp_path / stage / folders[stage].name
    shutil.copytree(folders[stage], copy)
    damaged = next(copy / name for name in sorted(Artifact(copy).manifest["files"]) if name.partition("/")[0] == kind)
    flip(damaged)
    errors = []
    for consumer in (step for step in steps if stage in step.inputs):
        inputs = {name: Artifact(copy if name == stage else path) for name, path in consumer.inputs.items()}
        out = tmp_path / "out" / consumer.name
        try:
            run_stage(consumer.stage, inputs, out)
        except ArtifactError as error:
            errors.append(str(error))
        else:
            files = Artifact(folders[consumer.name]).manifest["files"]
            assert Artifact(out).manifest["files"] == files
    assert set(errors) <= {f"{damaged}: is damaged or missing; remove {copy} and run again"}
    assert bool(errors) == ((stage, kind) not in UNREAD)


@pytest.mark.parametrize(("stage", "kind"), [*LAST, *sorted(UNREAD)])
def test_files_that_no_data_stage_reads_are_checked_when_opened(
    steps: list[PlannedStage], tmp_path: Path, stage: str, kind: str
) -> None:
    folder = next(step.folder for step in steps if step.name == stage)
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    for name in (name for name in Artifact(copy).manifest["files"] if name.partition("/")[0] == kind):
        flip(copy / name)
        with pytest.raises(ArtifactError, match="is damaged or missing"):
            Artifact(copy).path(name)


@pytest.mark.parametrize(("stage", "kind"), LAST)
def test_training_names_what_is_damaged(steps: list[PlannedStage], tmp_path: Path, stage: str, kind: str) -> None:
    opened = {step.name: Artifact(step.folder) for step in steps if step.name in ("packed", "tokens")}
    assert causal(Rows(opened["packed"], opened["tokens"], "train"), [0]).inputs.shape[0] == 1
    copy = tmp_path / stage
    shutil.copytree(opened[stage].folder, copy)
    first = (f"{kind}/train-00000", f"{kind}/00000")
    damaged = copy / next(name for name in opened[stage].manifest["files"] if name.startswith(first))
    flip(damaged)
    opened[stage] = Artifact(copy)
    with pytest.raises(ArtifactError) as error:
        causal(Rows(opened["packed"], opened["tokens"], "train"), [0])
    assert str(error.value) == f"{damaged}: is damaged or missing; remove {copy} and run again"


@pytest.mark.parametrize("seed", range(3))
def test_any_flipped_bit_and_any_cut_in_any_finished_file_is_found(
    steps: list[PlannedStage], tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    for step in steps:
        copy = tmp_path / step.name
        shutil.copytree(step.folder, copy)
        for name in Artifact(copy).manifest["files"]:
            whole = (copy / name).read_bytes()
            damaged = bytearray(whole)
            damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
            for content in (bytes(damaged), whole[: chance.randrange(len(whole))], b""):
                (copy / name).write_bytes(content)
                with pytest.raises(ArtifactError, match="is damaged or missing"):
                    Artifact(copy).path(name)


def test_a_damaged_manifest_part_or_run_json_is_named(steps: list[PlannedStage], tmp_path: Path) -> None:
    """A digit of a count, of a setting, of an address: still JSON, and caught by the seal."""
    step = steps[0]
    copy = tmp_path / step.folder.name
    shutil.copytree(step.folder, copy)
    run_json = tmp_path / "run.json"
    shutil.copy(next((step.folder.parents[1] / "runs").glob("*/run.json")), run_json)
    phase = step.phases[-1].name
    opened = {
        copy / "manifest.json": lambda: Artifact(copy),
        part_path(copy, phase, 0): step_finish(step, copy),
        run_json: lambda: load(run_json),
    }
    for path, open_it in opened.items():
        text = path.read_text()
        digit = next(at for at in range(len(text) // 2, len(text)) if text[at] in "123456789")
        path.write_text(text[:digit] + str(int(text[digit]) % 9 + 1) + text[digit + 1 :])
        with pytest.raises(ArtifactError) as error:
            open_it()
        assert str(error.value) == f"{path}: is damaged (its seal does not match); remove it and run again"
        path.write_text(text)


def step_finish(step: PlannedStage, folder: Path) -> Callable[[], object]:
    """Returns a function that finishes a copy of a step's artifact again, without its manifest."""

    def finish() -> Artifact:
        (folder / "manifest.json").unlink()
        return PlannedStage(step.stage, step.address, folder, step.inputs, step.shards, step.description).finish()

    return finish
