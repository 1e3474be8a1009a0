"""One flipped bit, a cut or a loss in any file that one task passes to another: its reader stops before using it and
names it. A second run repeats the task that wrote it, and gives the result of an undisturbed run.

Every stage runs task by task in this process; after each phase every file of its scratch is damaged in turn.
"""

import dataclasses
import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.overlaps import Overlaps
from headrace.data_prep.packed import Packed, Packing
from headrace.data_prep.signatures import Signatures
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.texts import Texts
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.data_prep.unique import Unique
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish, missing_tasks, part_path
from headrace.pipeline.core.errors import ArtifactError, HeadraceError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.stage import Phase, Stage
from tests.data_prep.decontamination.quiz import quiz
from tests.small_runs import c4_corpus, page

Damage = Callable[[random.Random, Path], None]
ROOT = Path(__file__).parents[2]


def flip(seeded: random.Random, path: Path) -> None:
    """Flips one bit at a random offset."""
    data = bytearray(path.read_bytes())
    data[seeded.randrange(len(data))] ^= 1 << seeded.randrange(8)
    path.write_bytes(bytes(data))


def cut(seeded: random.Random, path: Path) -> None:
    """Truncate, anywhere."""
    path.write_bytes(path.read_bytes()[: seeded.randrange(path.stat().st_size)])


def empty(seeded: random.Random, path: Path) -> None:
    """Leave what a power cut leaves of a file that was not yet on the disk."""
    path.write_bytes(b"")


def lose(seeded: random.Random, path: Path) -> None:
    path.unlink()


DAMAGES: tuple[Damage, ...] = (flip, cut, empty, lose)


@dataclasses.dataclass(frozen=True)
class Work:
    """A stage with its inputs: what a step of a run is."""

    stage: Stage
    inputs: Mapping[str, Artifact]

    @property
    def phases(self) -> tuple[Phase, ...]:
        return self.stage.phases({name: artifact.shard_count for name, artifact in self.inputs.items()})

    def run(self, folder: Path, phases: int | None = None) -> None:
        """Runs the missing tasks of the first ``phases``."""
        for phase in self.phases[:phases]:
            for task in missing_tasks(folder, phase.name, phase.tasks):
                out = TaskOutput(folder, phase.name, task)
                out.done(phase.run(task, self.inputs, out))

    def finish(self, folder: Path) -> dict[str, Any]:
        """Returns the content of the manifest of the finished artifact."""
        addresses = {name: artifact.folder.name for name, artifact in self.inputs.items()}
        tasks = {phase.name: phase.tasks for phase in self.phases}
        balances = partial(self.stage.balances, inputs=self.inputs)
        return finish(folder, self.stage.description(addresses), tasks, balances).manifest


def stages(folder: Path) -> tuple[Stage, ...]:
    """The data stages, with settings that make each phase hand on whatever it can."""
    first, second = c4_corpus()
    first.append({"text": page(1) + " One sentence more.", "url": "https://e.example/1"})
    first.append({"text": page(2), "url": "https://e.example/2"})
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in first + second))
    preset = yaml.safe_load((ROOT / "conf/cleaning/c4.yaml").read_text(encoding="utf-8"))
    dedup = Dedup(buckets=2)
    benchmarks = {
        "quiz": quiz(known=" ".join(page(104).split()[:15]), unknown="These words are in no page at all, are they?")
    }
    return (
        Texts(source=Jsonl(paths=(str(folder / "a.jsonl"),), section_bytes=12_000)),
        Clean(cleaning=decode(Cleaning, preset | {"buckets": 2})),
        Signatures.of(dedup),
        Duplicates.of(dedup),
        Unique(decontamination=Decontamination(action="drop", common_documents=5), benchmarks=benchmarks),
        Overlaps(ngram_words=8, benchmarks=benchmarks),
        Tokenizer(settings=Trained(vocabulary_size=300)),
        Tokens(),
        Packed(packing=Packing(row_tokens=128, validation_fraction=0.4, group_shards=1)),
    )


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Work, list[Path], dict[str, Any]]]:
    """Each stage, its folder as it was after each of its phases, and the manifest that it came to."""
    folder = tmp_path_factory.mktemp("line")
    made: dict[str, Artifact] = {}
    done = []
    for stage in stages(folder):
        work, states = Work(stage, {name: made[name] for name in stage.inputs}), []
        final = folder / stage.name / "whole"
        for number, phase in enumerate(work.phases, 1):
            work.run(final, number)
            states.append(shutil.copytree(final, folder / stage.name / phase.name))
        done.append((work, states, work.finish(final)))
        made[stage.name] = Artifact(final)
    return done


def handed_on(state: Path, phase: Phase) -> list[Path]:
    """Returns the scratch files that ``phase`` left, relative to the artifact's folder; sorting leaves no files."""
    return sorted(path.relative_to(state) for path in (state / "scratch" / phase.name).rglob("*") if path.is_file())


def survives(
    work: Work, state: Path, file: Path, damage: Damage, seed: str, manifest: dict[str, Any], at: Path
) -> bool:
    """Returns whether the damage was found, after a check that it changes nothing in the end."""
    folder = shutil.copytree(state, at)
    damage(random.Random(seed), folder / file)
    where = None
    try:
        work.run(folder)
    except HeadraceError as error:
        where = error.where
        work.run(folder)  # again
    if where is not None:
        assert str(folder / file.parent / file.stem) in where
    assert work.finish(folder) == manifest
    shutil.rmtree(folder)
    return where is not None


def tries(line: list[tuple[Work, list[Path], dict[str, Any]]]) -> Iterator[tuple[Work, Path, Path, dict[str, Any]]]:
    for work, states, manifest in line:
        for phase, state in zip(work.phases, states, strict=True):
            for file in handed_on(state, phase):
                yield work, state, file, manifest


@pytest.mark.slow
def test_every_phase_before_the_last_hands_something_on(line) -> None:
    """Without such files the tests here would test nothing."""
    silent = {
        phase.name
        for work, states, _ in line
        for phase, state in zip(work.phases[:-1], states, strict=False)
        if not any((state / file).stat().st_size for file in handed_on(state, phase))
    }
    assert not silent
    handing = {"texts", "clean", "duplicates", "unique", "overlaps", "packed"}
    assert {work.stage.name for work, _, _, _ in tries(line)} == handing


@pytest.mark.slow
def test_damage_in_one_file_of_each_kind_is_found_or_harmless(line, tmp_path: Path) -> None:
    kinds: dict[tuple[str, Path, str], tuple[Work, Path, Path, dict[str, Any]]] = {}
    for work, state, file, manifest in tries(line):
        if (state / file).stat().st_size:
            kinds[work.stage.name, file.parent, file.suffix] = (work, state, file, manifest)
    found = {}
    for number, (name, (work, state, file, manifest)) in enumerate(kinds.items()):
        damages = (flip, DAMAGES[1:][number % 3])
        at = tmp_path / "damaged"
        found[name] = [survives(work, state, file, damage, str(file), manifest, at) for damage in damages]
    assert len(found) > 40
    assert all(any(ones) for ones in found.values()), found


@pytest.mark.slow
def test_damage_anywhere_is_found_or_harmless(line, tmp_path: Path) -> None:
    """Each file is damaged in one way; the next file in the next one."""
    for number, (work, state, file, manifest) in enumerate(tries(line)):
        damage = DAMAGES[number % len(DAMAGES)] if (state / file).stat().st_size else lose
        survives(work, state, file, damage, str(file), manifest, tmp_path / "damaged")


BALANCED = {
    "texts": ("records_in", "kept", "dropped:"),
    "clean": ("documents_in", "kept", "dropped:", "length:", "language:"),
    "signatures": ("documents",),
    "duplicates": ("documents", "older_documents"),
    "unique": ("documents_in", "kept", "dropped:"),
    "overlaps": ("documents",),
    "tokens": ("documents", "text_bytes"),
    "packed": ("train_documents", "validation_tokens", "train_padding", "train_rows", "validation_text_bytes"),
}
"""Counts, or how they begin, that must fit others or those of an input."""


@pytest.mark.parametrize(("stage", "name"), [(stage, name) for stage, names in BALANCED.items() for name in names])
def test_a_count_that_does_not_fit_the_others_ends_before_the_manifest(line, tmp_path: Path, stage, name) -> None:
    work, states, manifest = next(one for one in line if one[0].stage.name == stage)
    folder = shutil.copytree(states[-1], tmp_path / "copy")
    part = part_path(folder, work.phases[-1].name, 0)
    values = read_sealed(part)
    full = next((count for count in sorted(manifest["counts"]) if count.startswith(name)), name)
    values["counts"][full] = values["counts"].get(full, 0) + 1
    write_sealed(part, values)
    with pytest.raises(ArtifactError, match="the counts do not add up") as error:
        work.finish(folder)
    assert error.value.where == str(folder)
    assert not (folder / "manifest.json").exists()


def test_the_error_of_unbalanced_books_says_the_sum(line, tmp_path: Path) -> None:
    """A pass that read an empty file instead of survivors once reported only documents_in 28."""
    work, states, manifest = line[1]
    folder = shutil.copytree(states[-1], tmp_path / "copy")
    for part in folder.glob("parts/*.json"):
        values = read_sealed(part)
        values["counts"] = {name: number for name, number in values["counts"].items() if name == "documents_in"}
        write_sealed(part, values)
    documents = manifest["counts"]["documents_in"]
    with pytest.raises(ArtifactError) as error:
        work.finish(folder)
    assert str(error.value) == (
        f"{folder}: the counts do not add up: documents_in = kept + dropped would be {documents} = 0; "
        "records were lost: remove this folder and run again"
    )
