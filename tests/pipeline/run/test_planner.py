"""Addresses that new settings do not change, and roots that an older version wrote."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from headrace.data_prep.packed import Packed, Packing
from headrace.data_prep.tokens import Tokens
from headrace.pipeline.command_line.request import newest
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import FORMAT, Artifact
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.settings import plain, settings
from headrace.pipeline.core.stage import Stage, address_of
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import load, plan, planned_flops, save
from headrace.pipeline.stages import stages
from headrace.train.config import ModelConfig
from headrace.train.training_config import TrainingConfig
from tests.command_line import headrace_here

OLD_SEAL = "0123456789ab"


@settings
class LargerPacking(Packing):
    spare_rows: int = 0


@settings
class LargerModel(ModelConfig):
    window: int | None = None


@settings
class LargerTraining(TrainingConfig):
    clip: tuple[float, ...] = (1.0,)


LARGER = {Packing: LargerPacking, ModelConfig: LargerModel, TrainingConfig: LargerTraining}


@pytest.fixture(scope="module")
def line() -> dict[str, Stage]:
    config = decoded(compose(["experiment=demo"]))
    return {stage.name: stage for stage in stages(config)}


def address(stage: Stage) -> str:
    return stage.address(dict.fromkeys(stage.inputs, ""))


@pytest.mark.parametrize("name", ["signatures", "unique", "tokenizer", "tokens", "packed", "weights", "scores"])
def test_a_new_field_of_a_stage_changes_no_address(name: str, line: dict[str, Stage]) -> None:
    stage = line[name]
    base = type(stage)
    values = {field.name: getattr(stage, field.name) for field in dataclasses.fields(stage)}
    fields = [("extra", str, dataclasses.field(default="none"))]
    larger = dataclasses.make_dataclass(base.__name__, fields, bases=(base,), frozen=True, kw_only=True)
    assert address(larger(**values)) == address(stage)
    assert address(larger(**values, extra="some")) != address(stage)


@pytest.mark.parametrize("name", ["packed", "weights"])
def test_a_new_field_of_settings_changes_no_address(name: str, line: dict[str, Stage]) -> None:
    stage = line[name]
    groups = {field.name: getattr(stage, field.name) for field in dataclasses.fields(stage)}
    larger = {group: LARGER[type(value)](**vars(value)) for group, value in groups.items() if type(value) in LARGER}
    new = dataclasses.replace(stage, **larger)
    assert larger
    assert address(new) == address(stage)
    assert plain(new) != plain(stage), "a reader of the manifest finds the new values"


def test_other_values_change_the_address(line: dict[str, Stage]) -> None:
    packing = dataclasses.replace(line["packed"].packing, group_shards=63)
    assert address(Packed(packing=packing)) != address(line["packed"])
    assert address(Tokens()) == address(line["tokens"])


def test_an_address_is_a_hash_of_the_manifest_without_the_settings_for_readers(line: dict[str, Stage]) -> None:
    description = line["packed"].description({"tokens": "0"})
    assert description["settings"]["packing"]["group_shards"] == 64
    assert description["hashed"] == {"packing": {"row_tokens": 128, "validation_fraction": 0.1}}
    assert address_of(description) == address_of(description | {"settings": {}}) != address_of({})


def overrides(folder: Path) -> list[str]:
    (folder / "raw").mkdir(exist_ok=True)
    rows = [{"text": f"Page {number} has its own text."} for number in range(9)]
    (folder / "raw/a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = [f"source.paths=[{folder}/raw/*.jsonl]", "source=jsonl", "cleaning=none", "workers=1", "until=texts"]
    return [*source, f"root={folder}/root"]


def age(root: Path) -> list[Path]:
    """Gives what is below ``root`` the format and the addresses of an older version."""
    for path in root.glob("runs/*/run.json"):
        values = read_sealed(path)
        del values["format"]
        write_sealed(path, values)
    folders = []
    for path in root.glob("*/*/manifest.json"):
        write_sealed(path, read_sealed(path) | {"format": FORMAT - 1})
        folders.append(path.parent.rename(path.parent.with_name(OLD_SEAL)))
    return folders


def test_results_of_an_older_format_are_refused(tmp_path: Path) -> None:
    line = overrides(tmp_path)
    assert headrace_here(*line).returncode == 0
    old = next(path for path in age(tmp_path / "root") if path.parent.name == "texts")
    with pytest.raises(ArtifactError) as error:
        Artifact(old)
    assert str(error.value) == (
        f"{old}: has format {FORMAT - 1}; this version of headrace reads format {FORMAT}; "
        "start a new root (root=FOLDER), or use the version of headrace that wrote it"
    )


def test_a_run_json_of_an_older_format_is_named(tmp_path: Path) -> None:
    line = overrides(tmp_path)
    values = compose(line)
    config = decoded(values)
    run_json = save(config, values, plan(config))
    assert load(run_json)[0] == config
    age(tmp_path / "root")
    message = rf"run.json: has format 2 or lower; this version of headrace reads format {FORMAT}; start a new root"
    for read in (lambda: load(run_json), lambda: newest(config.root)):
        with pytest.raises(ArtifactError, match=message):
            read()
    status = headrace_here("status", f"root={tmp_path}/root")
    assert (status.returncode, status.stderr.count("has format 2 or lower")) == (1, 1)
    assert headrace_here("status", *line).returncode == 0, "its own overrides plan the run anew"
    shutil.rmtree(tmp_path / "root")


def test_the_operations_of_a_training_are_planned() -> None:
    """By the formula of PaLM, 6 N + 12 L d T for each token: L layers of width d, rows of T tokens."""
    model = ("model.layers=3", "model.width=32", "model.heads=2", "model.kv_heads=2", "model.context=128")
    config = decoded(compose([*model, "packing.row_tokens=128", "training.steps=7", "training.batch_rows=4"]))
    line = [PlannedStage(stage, "", Path(), {}, {}, {}) for stage in stages(config)]
    tokens, parameters = 7 * 4 * 128, config.model.parameters(config.vocabulary)
    assert planned_flops(config, line) == pytest.approx(tokens * (6 * parameters + 12 * 3 * 32 * 128))
    assert planned_flops(config, line[:3]) == 0
