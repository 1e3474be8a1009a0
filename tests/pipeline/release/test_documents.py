"""The documents of a release by what others require of them: Croissant, CycloneDX, the EU's summary."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from headrace.pipeline.core.file_records import FileRecord
from headrace.pipeline.release.bill_of_materials import bill_of_materials
from headrace.pipeline.release.release_folder import Release
from headrace.pipeline.release.training_content import training_content
from headrace.pipeline.run.planner import save
from tests.command_line import headrace_here
from tests.small_runs import overrides, page, run_with, trained, training_of

pytestmark = pytest.mark.slow

PAGES = [
    {"robots": "noai, noarchive", "licence": "https://creativecommons.org/licenses/by/4.0/"},
    {"robots": "noarchive", "tdm_reservation": "0"},
    {"tdm_reservation": "1"},
    {},
]
"""What pages state of themselves, in turn."""


def html_page(number: int) -> str:
    """A page with some sentences and the statements of its kind."""
    stated = PAGES[number % len(PAGES)]
    names = {"robots": "robots", "licence": "license", "tdm_reservation": "tdm-reservation"}
    tags = "".join(f'<meta name="{names[fact]}" content="{value}">' for fact, value in stated.items())
    return f"<html><head><title>Mill {number}</title>{tags}</head><body><p>{page(number)}</p></body></html>"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The release of a model that learned from pages with statements, of which those with noai or a reservation were
    dropped."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "site").mkdir()
    for number in range(40):
        (folder / "site" / f"{number:02d}.html").write_text(html_page(number))
    own = [word for word in overrides(folder, "none") if not word.startswith("source")]
    words = ["source=html", f"source.paths=[{folder}/site]", *own, "cleaning.filters=[{type: robots}]"]
    run = training_of(run_with(folder, words), "training.steps=2", "name=mill")
    save(run.config, run.values, run.stages, run.overrides)
    trained(run)
    result = headrace_here(
        "release", "mill", "--to", f"{folder}/release", "--provider", "Mill Lab", f"root={folder}/runs"
    )
    assert result.returncode == 0, result.stderr
    return Release.open(folder / "release", folder / "runs")


def read(release: Release, name: str) -> Any:
    return json.loads((release.folder / name).read_text())


def rows(text: str, heading: str) -> dict[str, int]:
    """The rows of the table below the line ``heading``, the last column as a number."""
    table = text.partition(heading)[2].split("\n\n")[1]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines() if re.search(r"\d \|$", line)]
    return {" ".join(names): int(number.replace(",", "")) for *names, number in cells}


def test_the_summary_counts_what_pages_state_and_the_opt_outs(release: Release) -> None:
    text = training_content(release)
    assert "### 1.1 Provider\n\nMill Lab\n" in text
    assert "### 2.3 Data crawled and scraped from online sources\n\nFiles of the source `html`: 40," in text
    assert rows(text, "Opt-outs and lists that were applied") == {"robots": 20}
    assert rows(text, "documents that remain state of themselves") == {
        "robots noarchive": 10,
        "robots nothing stated": 10,
        "tdm_reservation 0": 10,
        "tdm_reservation nothing stated": 10,
        "tdm_policy nothing stated": 20,
        "licence nothing stated": 20,
    }


def test_croissant_names_the_files_and_columns_that_are_there(release: Release) -> None:
    values = read(release, "croissant.json")
    files = {own["@id"]: own for own in values["distribution"]}
    for own in files.values():
        record = FileRecord.of(release.folder / own["contentUrl"])
        assert (own["sha256"], own["contentSize"]) == (record.sha256, f"{record.bytes} B")
    for part in values["recordSet"]:
        named = {
            (field["source"]["fileObject"]["@id"], field["source"]["extract"]["column"]) for field in part["field"]
        }
        file = f"{part['name']}.parquet"
        columns = parquet.read_schema(release.folder / files[file]["contentUrl"]).names
        assert named == {(file, column) for column in columns}
    used = {own["name"]: own["prov:used"] for own in values["prov:wasGeneratedBy"]}
    addresses = {own["prov:generated"]["@id"] for own in values["prov:wasGeneratedBy"]}
    assert len(used) == len(release.artifacts)
    assert {entity["@id"] for own in used.values() for entity in own if "@id" in entity} <= addresses


def test_croissant_is_valid(release: Release) -> None:
    mlcroissant = pytest.importorskip("mlcroissant")
    dataset = mlcroissant.Dataset(str(release.folder / "croissant.json"))
    assert not dataset.metadata.ctx.issues.errors
    for part in ("kept", "dropped"):
        assert len(list(dataset.records(part))) == 20


def test_the_bill_of_materials_is_valid(release: Release) -> None:
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    pytest.importorskip("jsonschema")
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert validator.validate_str((release.folder / "bom.cdx.json").read_text()) is None
    wrong = read(release, "bom.cdx.json") | {"components": [{"type": "model"}]}
    assert validator.validate_str(json.dumps(wrong)) is not None, "the validator is at work"


def test_the_bill_of_materials_refers_to_what_it_lists(release: Release) -> None:
    values = json.loads(bill_of_materials(release))
    (dependency,) = values["dependencies"]
    listed = {own["bom-ref"] for own in values["components"]}
    assert set(dependency["dependsOn"]) == listed
    datasets = values["metadata"]["component"]["modelCard"]["modelParameters"]["datasets"]
    files = {f"data/texts/{path.name}" for path in Path(release.root.parent, "site").iterdir()}
    assert files < {own["ref"] for own in datasets} <= listed
    hashed = {own["bom-ref"]: own["hashes"][0]["content"] for own in values["components"] if own["type"] == "data"}
    page = release.root.parent / "site/07.html"
    assert hashed["data/texts/07.html"] == FileRecord.of(page).sha256
