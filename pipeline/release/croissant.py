"""croissant.json: the samples of a release as a dataset of Croissant 1.0 (MLCommons), and the provenance of the stages.

stage ── prov:Activity ──> generated: its address; used: the addresses of its inputs, its raw files with SHA-256
"""

import json
from typing import Any

import pyarrow
from pyarrow import parquet

from headrace.pipeline.core.file_records import FileRecord
from headrace.pipeline.release.environment_record import OWN, package_versions
from headrace.pipeline.release.page_samples import FILES
from headrace.pipeline.release.page_statements import page_statements
from headrace.pipeline.release.release_folder import Release
from headrace.pipeline.run.mirror import label_of

CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    **{name: f"cr:{name}" for name in ("citeAs", "column", "equivalentProperty", "extract", "field", "fileObject")},
    **{name: f"cr:{name}" for name in ("fileProperty", "fileSet", "format", "includes", "isLiveDataset", "jsonPath")},
    **{name: f"cr:{name}" for name in ("key", "md5", "parentField", "path", "recordSet", "references", "regex")},
    **{name: f"cr:{name}" for name in ("repeated", "replace", "samplingRate", "separator", "source", "subField")},
    "transform": "cr:transform",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
}
"""The context of the specification of Croissant 1.0, section "Namespaces", and PROV-O. mlcroissant 1.1 refuses the one
that the specification of Croissant 1.1 recommends."""
TYPES = ((pyarrow.types.is_boolean, "sc:Boolean"), (pyarrow.types.is_integer, "sc:Integer"))
FLOAT, TEXT = "sc:Float", "sc:Text"


def croissant(release: Release) -> str:
    """Returns croissant.json. The files of the samples must be there.

    Raises:
        ArtifactError: when the documents are neither in the release nor below its root.
    """
    environment = release.facts["environment"]
    licences = [value for value in page_statements(release).stated["licence"] if "://" in value]
    values = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": release.run.label,
        "description": "A sample of the pages that a run of Headrace kept and dropped, and how they were made.",
        "datePublished": release.facts["date"],
        "version": "1.0.0",
        "creator": {"@type": "sc:Organization", "name": release.facts["provider"] or "not stated"},
        "license": sorted(licences) or ["the terms of the sources apply"],
        "prov:wasGeneratedBy": [_activity(release, name) for name in release.artifacts],
        "rai:dataPreprocessingProtocol": f"Headrace {package_versions(environment)[OWN]}; settings in artifacts/",
        "distribution": [_file(release, part, name) for part, name in FILES.items()],
        "recordSet": [_records(release, part, name) for part, name in FILES.items()],
    }
    return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def _activity(release: Release, stage: str) -> dict[str, Any]:
    artifact = release.artifacts[stage]
    manifest = artifact.manifest
    used = [{"@type": "prov:Entity", "@id": f"{name}/{address}"} for name, address in manifest["inputs"].items()]
    used += [{"@type": "prov:Entity", "name": file["name"], "sha256": file["sha256"]} for file in manifest["raw_files"]]
    return {
        "@type": "prov:Activity",
        "@id": f"stage/{stage}",
        "name": f"{stage}, version {manifest['version']}",
        "prov:generated": {"@type": "prov:Entity", "@id": label_of(artifact.folder)},
        "prov:used": used,
    }


def _file(release: Release, part: str, name: str) -> dict[str, Any]:
    record = FileRecord.of(release.folder / name)
    return {
        "@type": "cr:FileObject",
        "@id": f"{part}.parquet",
        "name": f"{part}.parquet",
        "contentUrl": name,
        "contentSize": f"{record.bytes} B",
        "encodingFormat": "application/x-parquet",
        "sha256": record.sha256,
    }


def _records(release: Release, part: str, name: str) -> dict[str, Any]:
    columns = parquet.read_schema(release.folder / name)
    fields = [_field(part, column) for column in columns]
    return {"@type": "cr:RecordSet", "@id": part, "name": part, "key": {"@id": f"{part}/id"}, "field": fields}


def _field(part: str, column: pyarrow.Field) -> dict[str, Any]:
    is_list = pyarrow.types.is_list(column.type)
    kind = column.type.value_type if is_list else column.type
    data_type = next(
        (name for is_kind, name in TYPES if is_kind(kind)), FLOAT if pyarrow.types.is_floating(kind) else TEXT
    )
    return {
        "@type": "cr:Field",
        "@id": f"{part}/{column.name}",
        "name": column.name,
        "dataType": data_type,
        **({"repeated": True} if is_list else {}),
        "source": {"fileObject": {"@id": f"{part}.parquet"}, "extract": {"column": column.name}},
    }
