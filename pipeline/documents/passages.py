"""The documents of tokens: of one stored token, and of the passages of a text that stand in the training text.

    text ── tokens ──> TextIndex        rows that the steps read ── spans ──> parts of token shards
                          └─ two passes over these parts ──> passages, their places ──> documents, rows, steps

A passage is as long as possible, and the rarest come first: those whose tokens are the least probable by their numbers
in the training text, as OLMoTrace ranks them (Liu et al. 2025, arXiv:2504.07096).

A stored token is found by arithmetic over the bounds of texts in its shard:

    token shard 7      E t t t t t E t t E t t t E          searchsorted(bounds, 12, right) - 1 = 2:
    offset             0           6     9     ^12          the third line of unique/documents/00007.jsonl.zst
    bounds/00007.npy   0           6     9       13         is pages.jsonl:41
"""

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.packing import DocumentSpans
from headrace.data_prep.tokenization.shards import TokenShards
from headrace.data_prep.tokenization.text_index import CorpusPart, Places, SharedPassage, TextIndex
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents.document_path import identity
from headrace.pipeline.documents.lookup import need, texts_stage
from headrace.pipeline.documents.stored_documents import Location, StoredDocument, document_named, id_and_url, in_rows
from headrace.pipeline.documents.training_rows import RowSource, SourceRow, TrainingRows
from headrace.pipeline.output.terminal import MAX_FACTS, Fact
from headrace.pipeline.report.formatting import percent
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run

TOKENS_AT_ONCE = 1 << 24
"""The most tokens of a shard in memory."""
CONTEXT_TOKENS = 16
"""Tokens that are printed before and after a passage, or a token, in a document."""
STEPS = 20
"""Steps that are printed of a document."""


@dataclasses.dataclass(frozen=True)
class SourcePlace:
    """A place of a passage: tokens[start:stop] of a token shard of a source."""

    source: int
    shard: int
    document: int
    """The index of the document in its shard."""
    start: int
    stop: int


def passage_facts(run: Run, text: str, least: int, documents: int) -> Iterator[Fact]:
    """Yields the passages of ``text`` of ``least`` or more tokens, each with up to ``documents`` of its documents.

    Raises:
        ConfigError: when the run ends before ``packed``.
        ArtifactError: when packed is not finished, or what a source was made from is gone.
    """
    trained = TrainingRows.of(run)
    corpus = TrainingText(trained)
    encoder = Encoder.load(trained.tokenizer.path("tokenizer.json"))
    (tokens,) = encoder.encode([text])
    index = TextIndex(tokens, encoder.end_of_text)
    passages, read_tokens = index.passages(corpus.parts(), least)
    shown = passages[:MAX_FACTS]
    places = index.places(corpus.parts(), corpus.bounds, shown, documents)
    began, last = trained.began, trained.training.steps
    yield "searched", f"{read_tokens:,} tokens that steps {began.step + 1:,} to {last:,} read"
    if began.trunk:
        yield "not searched", f"the steps before, those of the trunk: give --run {began.trunk}"
    covered = percent(_covered(tokens.size, passages) / max(tokens.size, 1))
    yield "text", f"{tokens.size:,} tokens, {covered} of them in passages of {least} or more"
    holding = _documents(trained, corpus, encoder, shown, places)
    for passage, own_places, document_facts in zip(shown, places, holding, strict=True):
        yield "", ""
        yield from _passage(passage, own_places, encoder.decode(tokens[passage.starts[0] :][: passage.length]))
        yield from document_facts
    if len(passages) > len(shown):
        yield "", ""
        yield "passages", f"and {len(passages) - len(shown):,} more, of more probable tokens"


class TrainingText:
    """The tokens that the steps of a training read, from all sources, each once."""

    def __init__(self, trained: TrainingRows) -> None:
        self._trained = trained
        self._shards = [
            (number, shard) for number, source in enumerate(trained.sources) for shard in range(len(source.tokens))
        ]
        self._numbers = {place: number for number, place in enumerate(self._shards)}

    def parts(self) -> Iterator[CorpusPart]:
        """Yields the tokens in the order of the sources and their shards, at most ``TOKENS_AT_ONCE`` at a time."""
        for number, source in enumerate(self._trained.sources):
            for group in range(source.rows.groups):
                rows, spans = source.rows.group(group)
                spans = spans[self._trained.read_rows[number][rows]]
                for shard in np.unique(spans["shard"]).tolist():
                    starts, stops = merged(spans[spans["shard"] == shard])
                    yield from _parts(source, shard, self._numbers[number, shard], starts, stops)

    def bounds(self, number: int) -> NDArray[np.uint64]:
        """Returns the offsets of the ends of text of the shard ``number`` of the parts."""
        source, shard = self._shards[number]
        return self._trained.sources[source].tokens.bounds(shard)

    def place(self, number: int, start: int, length: int) -> SourcePlace:
        """Returns the place of ``length`` tokens from offset ``start`` of the shard ``number`` of the parts on."""
        source, shard = self._shards[number]
        document = self._trained.sources[source].tokens.document(shard, start)
        return SourcePlace(source, shard, document, start, start + length)


def merged(spans: DocumentSpans) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns where the tokens of ``spans`` of one shard start and stop, (n,) each, in rising order, without overlaps.

    A span of n positions has n + 1 tokens. Pieces of one document that follow each other are one part; so are documents
    that do, which the end of text between them divides.
    """
    starts = np.sort(spans["start"]).astype(np.int64)
    ends = spans["start"].astype(np.int64) + spans["length"] + 1
    reached = np.maximum.accumulate(ends[np.argsort(spans["start"], kind="stable")])
    is_first = np.append(True, starts[1:] > reached[:-1])
    return starts[is_first], reached[np.append(is_first[1:], True)]


def _parts(
    source: RowSource, shard: int, number: int, starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> Iterator[CorpusPart]:
    for begin in range(int(starts[0]), int(stops[-1]), TOKENS_AT_ONCE):
        end = min(begin + TOKENS_AT_ONCE, int(stops[-1]))
        first, last = np.searchsorted(stops, begin, side="right"), np.searchsorted(starts, end)
        own_starts, own_stops = starts[first:last], stops[first:last]
        goes_on = bool(own_starts.size and own_starts[0] < begin)
        inside = np.maximum(own_starts - begin, 0), np.minimum(own_stops, end) - begin
        yield CorpusPart(number, begin, source.tokens.slice(shard, begin, end), *inside, goes_on)


def _covered(tokens: int, passages: Sequence[SharedPassage]) -> int:
    """Returns how many of the text's ``tokens`` are in a passage."""
    changes = np.zeros(tokens + 1, np.int64)
    for passage in passages:
        changes[passage.starts] += 1
        changes[np.array(passage.starts) + passage.length] -= 1
    return int((np.cumsum(changes) > 0).sum())


def _documents(
    trained: TrainingRows,
    corpus: TrainingText,
    encoder: Encoder,
    passages: Sequence[SharedPassage],
    places: Sequence[Places],
) -> list[list[Fact]]:
    """Returns the documents of each of ``passages`` with the text around it and the steps that read it there.

    Each shard of documents is read once, and the order once.
    """
    known = [
        [corpus.place(*place, passage.length) for place in own.first]
        for passage, own in zip(passages, places, strict=True)
    ]
    rows_of: dict[SourcePlace, list[SourceRow]] = {}
    wanted: dict[int, set[Location]] = defaultdict(set)
    for place in itertools.chain(*known):
        wanted[place.source].add((place.shard, place.document))
        packed = trained.sources[place.source].rows
        rows, _ = packed.spans_with_targets(place.shard, place.start - 1, place.stop - 1)
        rows_of[place] = [(place.source, row) for row in rows.tolist()]
    documents = {source: in_rows(trained.sources[source].unique, locations) for source, locations in wanted.items()}
    steps_of = trained.steps_of([row for rows in rows_of.values() for row in rows])

    def facts(place: SourcePlace) -> Iterator[Fact]:
        source = trained.sources[place.source]
        of_source = f"{source.name}: " if source.name else ""
        yield "document", f"{of_source}{id_and_url(documents[place.source][place.shard, place.document])}"
        before, after = (encoder.decode(tokens) for tokens in _context(source, place))
        yield "context", f"{before}[…]{after}"
        steps = sorted({step for row in rows_of[place] for step in steps_of[row]})
        more = f", and {len(steps) - STEPS:,} more" if len(steps) > STEPS else ""
        yield "steps", (", ".join(f"{step:,}" for step in steps[:STEPS]) or "none") + more

    return [[fact for place in own for fact in facts(place)] for own in known]


def _context(source: RowSource, place: SourcePlace) -> Iterator[NDArray[Any]]:
    """Yields the tokens of the document before the place, and those after it."""
    first, last = source.tokens.bounds(place.shard)[place.document : place.document + 2].tolist()
    yield source.tokens.slice(place.shard, max(first + 1, place.start - CONTEXT_TOKENS), place.start)
    yield source.tokens.slice(place.shard, place.stop, min(last, place.stop + CONTEXT_TOKENS))


def _passage(passage: SharedPassage, places: Places, text: str) -> Iterator[Fact]:
    yield "passage", text
    others = f", and {len(passage.starts) - 1:,} times more" if len(passage.starts) > 1 else ""
    yield "tokens", f"{passage.length:,}, from token {passage.starts[0]:,} of the text on{others}"
    yield "probability", f"10^{passage.log_probability / math.log(10):.1f} by the numbers of its tokens"
    yield "places", f"{places.number:,} in the training text"


def token_facts(stages: Sequence[PlannedStage], shard: str, offset: str) -> Iterator[Fact]:
    """Yields the document of token ``offset`` of token shard ``shard``, and its position. An end of text belongs to the
    document after it; the last one of a shard belongs to the document before it.

    Raises:
        ConfigError: when there is no such shard or offset.
        ArtifactError: when ``tokens`` is not finished.
    """
    tokens = need("tokens", stages)
    shards = TokenShards(tokens)
    shard_number = _number("SHARD", shard, tokens.shard_count, "token shards")
    bounds = shards.bounds(shard_number)
    position = _number("OFFSET", offset, int(bounds[-1]) + 1, f"tokens of shard {shard_number}")
    if len(bounds) == 1:
        raise ConfigError("SHARD", f"token shard {shard_number} holds no document", "give another")
    row = min(int(np.searchsorted(bounds, position, side="right")) - 1, len(bounds) - 2)
    first, last = bounds[row : row + 2].tolist()
    unique = need("unique", stages)
    document = in_rows(unique, [(shard_number, row)])[shard_number, row]
    match = StoredDocument(unique, "documents", shard_number, row, document)
    yield from identity(match, texts_stage(stages))
    yield from _token_place(shards, need("tokenizer", stages), shard_number, position, (first, last))
    for stage in ("texts", "clean"):
        if (before := document_named(need(stage, stages), shard_number, match.document.id)) is not None:
            yield stage, before.location
    yield "unique", match.location


def _number(name: str, text: str, end: int, what: str) -> int:
    """Reads ``text`` as a number below ``end``.

    Raises:
        ConfigError: when it is not one.
    """
    if not (text.isascii() and text.isdigit() and int(text) < end):
        raise ConfigError(name, f"{text!r} is none of the {end:,} {what}", f"give a number from 0 to {end - 1}")
    return int(text)


def _token_place(
    shards: TokenShards, tokenizer: Artifact, shard: int, position: int, bounds: tuple[int, int]
) -> Iterator[Fact]:
    """Yields the token, its position in the document between the ends of text ``bounds``, and the text around it."""
    encoder = Encoder.load(tokenizer.path("tokenizer.json"))
    first, last = bounds
    token = int(shards.slice(shard, position, position + 1)[0])
    yield "token", f"{token}, {encoder.decode([token])!r}"
    ends = {first: "the end of text that begins the document", last: "the end of text that ends the document"}
    yield "position", ends.get(position, f"token {position - first:,} of {last - first - 1:,} of the document")
    before = shards.slice(shard, max(first + 1, position - CONTEXT_TOKENS), position)
    after = shards.slice(shard, max(first + 1, position + 1), min(last, position + 1 + CONTEXT_TOKENS))
    yield "before", encoder.decode(before)
    yield "after", encoder.decode(after)
