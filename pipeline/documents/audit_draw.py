"""Draws a stratified sample of a run's documents: kept ones, those that each rule dropped, those near thresholds.

    texts, clean, unique ── dropped/ by rule ──> a stratum for each rule ┐
    the last of them ────── documents/ ────────> the stratum of kept     ┼─ lowest hashes of seed and id ──> pages
    kept candidates ─────── values again ──────> near thresholds         ┘  (chosen, not drawn)

The draw is a function of the seed and the ids: another draw, with any number of workers and shards, gives the
same pages. Each finished stage is read once.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from datatrove.data import Document

from headrace.data_prep.document import DOCUMENTS, documents_named, split_id
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.explanations import explained
from headrace.data_prep.texts import Texts
from headrace.data_prep.unique import COPIES, survivor_of
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.stage import STORING
from headrace.pipeline.documents.audit_results import KEPT_RULE, NEAR_RULE
from headrace.pipeline.documents.audit_sheet import AuditedPage, AuditSheet, Stratum, excerpt_of
from headrace.pipeline.documents.document_choice import lowest
from headrace.pipeline.documents.document_path import texts_stage
from headrace.pipeline.documents.lookup import KINDS, cleaning_of, document_named, rule_of, whole
from headrace.pipeline.documents.marking import Located
from headrace.pipeline.documents.nearness import Nearness, near_thresholds
from headrace.pipeline.documents.samples import located
from headrace.pipeline.report.funnel import KEPT, dropped
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run

CANDIDATES = 10
"""Kept pages that are searched for each one near a threshold that is wanted."""


def document_artifacts(stages: Sequence[PlannedStage]) -> dict[str, Artifact]:
    """Returns the finished artifacts of ``stages`` that keep and drop documents, in the order of the line.

    Raises:
        ArtifactError: when none is finished.
    """
    finished = whole(stages)
    artifacts = {stage: finished[stage] for stage in STORING if stage in finished}
    if not artifacts:
        raise ArtifactError("texts", "is not finished, so there is no page to draw", "run it first")
    return artifacts


def addresses_of(artifacts: Mapping[str, Artifact]) -> dict[str, str]:
    """Returns the addresses of ``artifacts`` by stage."""
    return {stage: artifact.folder.name for stage, artifact in artifacts.items()}


def drawn_sheet(run: Run, number: int, near: int, seed: int) -> AuditSheet:
    """Returns a sheet of ``number`` pages of each stratum of ``run``, and of ``near`` pages near thresholds.

    Raises:
        ArtifactError: when no stage that keeps and drops documents is finished.
    """
    artifacts, cleaning = document_artifacts(run.stages), cleaning_of(run.stages)
    filters = cleaning.filters
    strata, pages = list[Stratum](), dict[str, AuditedPage]()
    for stage, artifact in artifacts.items():
        by_rule = lowest(seed, number, located(artifact, KINDS[1]), rule_of)
        for rule, documents in sorted(dropped(artifact.counts).items()):
            chosen = [document for _, document in by_rule[rule]]
            strata.append(Stratum(stage, rule, documents, tuple(document.id for document in chosen)))
            pages |= {document.id: _page(stage, document, filters) for document in chosen}
    last = list(artifacts)[-1]
    most = max(number, CANDIDATES * near)
    kept = lowest(seed, most, located(artifacts[last], KINDS[0]), lambda document: "").get("", [])
    ids = tuple(document.id for _, document in kept[:number])
    measuring = cleaning.ready(whole(run.stages)) if near else ()
    nearest = dict(near_thresholds(measuring, _originals(kept, artifacts["texts"]), near)) if near else {}
    strata.append(Stratum(last, KEPT_RULE, artifacts[last].counts[KEPT], ids))
    if nearest:
        strata.append(Stratum(last, NEAR_RULE, len(nearest), tuple(nearest), is_drawn=False))
    shown = {*ids, *nearest}
    pages |= {
        document.id: _page(last, document, filters, nearest.get(document.id))
        for _, document in kept
        if document.id in shown
    }
    return AuditSheet.of(
        run.id, seed, number, near, addresses_of(artifacts), strata, _with_survivors(run, artifacts, pages)
    )


def _originals(kept: Sequence[Located], texts: Artifact) -> list[Document]:
    """Returns the documents of ``texts`` that became the ``kept`` ones."""
    ids: dict[int, list[str]] = {}
    for shard, document in kept:
        ids.setdefault(shard, []).append(document.id)
    paths = {shard: texts.shard(KINDS[0], shard, DOCUMENTS) for shard in sorted(ids)}
    return [document for shard, path in paths.items() for document in documents_named(path, ids[shard])]


def _page(stage: str, document: Document, filters: Sequence[AnyFilter], near: Nearness | None = None) -> AuditedPage:
    """Returns the page of a ``document`` of ``stage``."""
    rule, url = rule_of(document), str(document.metadata.get("url") or "")
    value = str(document.metadata["drop"].get("value", "")) if rule else ""
    return AuditedPage(
        id=document.id,
        url=url,
        text=excerpt_of(document.text),
        stage=stage,
        rule=rule,
        value=explained(rule, filters).of_value(value) if rule else "",
        near=f"{near.rule} {near}" if near else "",
        survivor=survivor_of(value) if rule in COPIES else "",
    )


def _with_survivors(
    run: Run, artifacts: Mapping[str, Artifact], pages: Mapping[str, AuditedPage]
) -> dict[str, AuditedPage]:
    """Returns ``pages`` with the texts of the pages that stay in place of removed copies.

    An older run of ``dedup.against`` may hold that page. Then only its id is known here.
    """
    if run.config.dedup.against:
        return dict(pages)
    texts = texts_stage(run.stages)
    return {
        identity: dataclasses.replace(page, survivor_text=_survivor_text(artifacts["clean"], texts, page.survivor))
        if page.survivor
        else page
        for identity, page in pages.items()
    }


def _survivor_text(clean: Artifact, texts: Texts, survivor: str) -> str:
    file, _ = split_id(survivor)
    shards = texts.shards_by_file.get(file, ())
    stored = next(filter(None, (document_named(clean, shard, survivor) for shard in shards)), None)
    return "" if stored is None else excerpt_of(stored.document.text)
