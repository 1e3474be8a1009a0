"""bom.cdx.json: the model, its data and its packages as a bill of materials of CycloneDX 1.6 (ECMA-424).

model (modelCard: architecture, scores with intervals) ── depends on ──> raw files, packages
"""

import json
import uuid
from collections.abc import Iterator
from typing import Any

from headrace.pipeline.release.release_folder import Release
from headrace.train.evaluation.score_rows import Metric, read_scores
from headrace.train.scores import Scores
from headrace.train.weights import Weights

STACKS = {"decoder": "text generation", "encoder": "fill-mask", "encoder_decoder": "text-to-text"}
"""``model.stack`` → the task of the model."""
MODEL = "hf/model.safetensors"
"""The file whose hash is that of the model; large ones have several files, which are in its manifest."""
OTHER_TASK = "token classification"


def bill_of_materials(release: Release) -> str:
    """Returns the bill of materials of the model in ``release``."""
    run, listed = release.run.config, release.artifacts[Weights.name].manifest["files"]
    name, version = run.name or run.id, release.artifacts[Weights.name].folder.name
    data, packages = list(_data(release)), list(_packages(release))
    model = {
        "type": "machine-learning-model",
        "bom-ref": f"model/{version}",
        "name": name,
        "version": version,
        **({"supplier": {"name": release.facts["provider"]}} if release.facts["provider"] else {}),
        **({"hashes": [{"alg": "SHA-256", "content": listed[MODEL]["sha256"]}]} if MODEL in listed else {}),
        "modelCard": _model_card(release, [own["bom-ref"] for own in data]),
    }
    values = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'headrace:{run.id}:{version}')}",
        "version": 1,
        "metadata": {"component": model},
        "components": data + packages,
        "dependencies": [{"ref": model["bom-ref"], "dependsOn": [own["bom-ref"] for own in data + packages]}],
    }
    return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def _model_card(release: Release, data: list[str]) -> dict[str, Any]:
    config = release.run.config
    return {
        "modelParameters": {
            "approach": {"type": "self-supervised"},
            "task": STACKS.get(config.model.stack, OTHER_TASK),
            "architectureFamily": "transformer" if config.model.mixer == "attention" else config.model.mixer,
            "modelArchitecture": f"{config.model.stack}, {config.model.layers} layers of width {config.model.width}",
            "datasets": [{"ref": ref} for ref in data],
            "inputs": [{"format": "text"}],
            "outputs": [{"format": "text"}],
        },
        "quantitativeAnalysis": {"performanceMetrics": list(_metrics(release))},
    }


def _metrics(release: Release) -> Iterator[dict[str, Any]]:
    if Scores.name not in release.artifacts:
        return
    for benchmark in read_scores(release.artifacts[Scores.name].path("scores.json")):
        for metric in benchmark.whole:
            for items, own in (("all items", metric), ("clean items", metric.clean), ("dirty items", metric.dirty)):
                if own is not None:
                    yield _metric(own, f"{benchmark.name}, {benchmark.shots} shots, {items}")


def _metric(metric: Metric, part: str) -> dict[str, Any]:
    bounds = metric.interval and {"lowerBound": repr(metric.interval[0]), "upperBound": repr(metric.interval[1])}
    interval = {"confidenceInterval": bounds} if bounds else {}
    return {"type": metric.name, "value": repr(metric.value), "slice": part, **interval}


def _data(release: Release) -> Iterator[dict[str, Any]]:
    """Yields the raw files of all stages, each once."""
    files = {
        (stage, file["name"]): file
        for stage, artifact in release.artifacts.items()
        for file in artifact.manifest["raw_files"]
    }
    for (stage, name), file in files.items():
        yield {
            "type": "data",
            "bom-ref": f"data/{stage}/{name}",
            "name": name,
            "description": f"read by the stage {stage}",
            "hashes": [{"alg": "SHA-256", "content": file["sha256"]}],
            "data": [{"type": "dataset", "name": name}],
        }


def _packages(release: Release) -> Iterator[dict[str, Any]]:
    for name, package in release.facts["environment"]["packages"].items():
        purl = f"pkg:pypi/{name}@{package['version']}"
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": package["version"],
            "purl": purl,
            "properties": [{"name": "headrace:record-sha256", "value": package["sha256"]}],
        }
