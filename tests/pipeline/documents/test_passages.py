"""Passages of a text in the training text of a mixture, against the rows of every step and all tokens compared."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from headrace.data_prep.document import read_documents
from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.packing import SPAN
from headrace.pipeline.documents import passages, training_rows
from headrace.pipeline.output.terminal import MAX_FACTS, Fact, one_line
from tests.command_line import headrace_here
from tests.small_runs import Corpus, build, with_more

STEPS = 12
LEAST = 8
Place = tuple[str, int, int]
"""(source, token shard, offset of the first token)."""
Span = tuple[str, int, int, int, str]
"""(source, token shard, start, length, id and URL)."""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Corpus:
    """Rows of the uncleaned corpus, each several times, and of the cleaned one, some of which no step reads."""
    other = build(tmp_path_factory.mktemp("other"), "c4")
    packed = other.artifact("packed").folder
    training = ["training.batch_rows=8", f"training.steps={STEPS}", "training.seed=3"]
    mixture = f"mixture.sources=[{{name: crawl, weight: 3}}, {{name: other, weight: 1, packed: '{packed}'}}]"
    tokenizer = other.artifact("tokenizer").path("tokenizer.json")
    return with_more(build(tmp_path_factory.mktemp("mixed"), "none"), [*training, mixture], tokenizer)


@pytest.fixture(scope="module")
def spans(mixed) -> dict[int, list[Span]]:
    """Step → the spans that it reads."""
    pattern = r"([\d,]+) tokens from (\d+) on of token shard (\d+): (.*)"
    read: dict[int, list[Span]] = {}
    for step in range(1, STEPS + 1):
        source = ""
        for name, value in training_rows.step_facts(mixed.run, str(step)):
            if name == "row":
                source = value.split(" ")[2].rstrip(",")
            if name == "span":
                length, start, shard, identity = re.fullmatch(pattern, value).groups()
                span = (source, int(shard), int(start), int(length.replace(",", "")), identity)
                read.setdefault(step, []).append(span)
    return read


def training_text(mixed: Corpus, spans: dict[int, list[Span]]) -> list[tuple[Place, list[int]]]:
    """The tokens that any step reads, in pieces without gaps, in the order of sources, shards and offsets."""
    other = Path(mixed.config.mixture.sources[1].packed).parents[1]
    folders = {"crawl": mixed.artifact("tokens").folder, "other": next(iter((other / "tokens").iterdir()))}
    marks: dict[tuple[str, int], np.ndarray] = {}
    tokens = {}
    for source, folder in folders.items():
        for shard in (0, 1):
            tokens[source, shard] = np.fromfile(folder / f"tokens/{shard:05d}.bin", "<u2").tolist()
            marks[source, shard] = np.zeros(len(tokens[source, shard]), bool)
    for source, shard, start, length, _ in {span for own in spans.values() for span in own}:
        marks[source, shard][start : start + length + 1] = True
    pieces = []
    for place, is_read in marks.items():
        assert not is_read.all()  # held-out documents
        edges = np.flatnonzero(np.diff(np.concatenate([[False], is_read, [False]])))
        pieces += [((*place, int(a)), tokens[place][a:b]) for a, b in edges.reshape(-1, 2).tolist()]
    return pieces


def places_of(passage: Sequence[int], pieces: list[tuple[Place, list[int]]]) -> list[Place]:
    return [
        (source, shard, first + offset)
        for (source, shard, first), tokens in pieces
        for offset in range(len(tokens) - len(passage) + 1)
        if tokens[offset] == passage[0] and tokens[offset : offset + len(passage)] == list(passage)
    ]


def expected(mixed: Corpus, spans: dict[int, list[Span]], text: str) -> list[list[Fact]]:
    """The facts of each passage of ``text``, but context and probability, by a comparison of everything."""
    pieces = training_text(mixed, spans)
    encoder = Encoder.load(mixed.artifact("tokenizer").path("tokenizer.json"))
    tokens = encoder.encode([text])[0].tolist()
    lengths = []
    for first in range(len(tokens)):
        length = max(lengths[-1] - 1, 0) if lengths else 0
        while first + length < len(tokens) and places_of(tokens[first : first + length + 1], pieces):
            length += 1
        lengths.append(length)
    passages: dict[tuple[int, ...], list[int]] = {}
    for first, length in enumerate(lengths):
        if length >= LEAST and (not first or lengths[first - 1] <= length):
            passages.setdefault(tuple(tokens[first : first + length]), []).append(first)
    told = []
    for passage, starts in passages.items():
        more = f", and {len(starts) - 1} times more" if len(starts) > 1 else ""
        places = places_of(passage, pieces)
        facts = [("passage", encoder.decode(list(passage)))]
        facts += [("tokens", f"{len(passage)}, from token {starts[0]} of the text on{more}")]
        facts += [("places", f"{len(places):,} in the training text")]
        documents: dict[tuple[str, str], Place] = {}
        for place in places:
            (identity,) = {own[4] for all_ in spans.values() for own in all_ if holds(own, place, len(passage))}
            documents.setdefault((place[0], identity), place)
        for (source, identity), place in list(documents.items())[:2]:
            steps = [str(step) for step, own in spans.items() if any(holds(one, place, len(passage)) for one in own)]
            facts += [("document", f"{source}: {identity}"), ("steps", ", ".join(steps))]
        told.append(facts)
    return told


def holds(span: Span, place: Place, length: int) -> bool:
    """Whether a token of the passage at ``place`` is a target in ``span``."""
    targets = range(span[2] + 1, span[2] + span[3] + 1)
    return span[:2] == place[:2] and targets.start < place[2] + length and place[2] < targets.stop


def texts_of(corpus: Corpus) -> list[str]:
    return [one.text for path in corpus.artifact("unique").shards("documents") for one in read_documents(path)]


def passages_in(facts: Sequence[Fact]) -> list[list[Fact]]:
    """The facts of each passage, but context and probability."""
    told: list[list[Fact]] = []
    for name, value in facts:
        if name == "passage":
            told.append([])
        if told and name and name not in ("context", "probability"):
            told[-1].append((name, value))
    return told


@pytest.fixture(scope="module")
def text(mixed) -> str:
    """Pieces of read and of held-out pages, one of them twice, across a page's end, and other text."""
    pages = texts_of(mixed)
    pieces = [page[n * 31 : n * 31 + 120] for n, page in enumerate(pages[::5])]
    return "\n".join([*pieces, "Ünïcode 猫 that no page holds.", pieces[0], pages[1][-60:] + pages[2][:60]])


@pytest.mark.slow
def test_passages_documents_and_steps_are_those_of_a_comparison_of_everything(mixed, spans, text):
    facts = list(passages.passage_facts(mixed.run, text, LEAST, 2))
    told, wanted = passages_in(facts), expected(mixed, spans, text)
    assert 5 < len(wanted) <= MAX_FACTS
    assert sorted(told) == sorted(wanted)
    steps = [value for passage in told for name, value in passage if name == "steps"]
    assert any("," in value for value in steps), "no row was read twice"
    assert {value.partition(":")[0] for passage in told for name, value in passage if name == "document"} > {"crawl"}
    logs = [float(value.split()[0].removeprefix("10^")) for name, value in facts if name == "probability"]
    assert logs == sorted(logs)
    searched = sum(len(tokens) for _, tokens in training_text(mixed, spans))
    assert facts[0] == ("searched", f"{searched:,} tokens that steps 1 to {STEPS} read")


def test_the_command(mixed, text):
    done = headrace_here("why", "-", "--as", "text", "--documents=1", "--tokens", "12", *mixed.overrides, text=text)
    assert done.returncode == 0, done.stderr
    facts = list(passages.passage_facts(mixed.run, text, 12, 1))
    assert [line[18:] for line in done.stdout.splitlines()] == [
        one_line(value) if name else "" for name, value in facts
    ]


def test_the_context_is_the_text_around_the_passage(mixed, text):
    pages = texts_of(mixed) + texts_of(build(Path(mixed.folder, "again"), "c4"))
    facts = [fact for fact in passages.passage_facts(mixed.run, text, LEAST, 2) if fact[0] in ("passage", "context")]
    passage = ""
    for name, value in facts:
        passage = value if name == "passage" else passage
        if name == "context":
            assert any(value.replace("[…]", passage, 1) in page for page in pages)


@pytest.mark.parametrize("text", ["", "猫", "nothing of it is there"])
def test_a_text_without_a_passage(mixed, text):
    (_, (name, value)) = passages.passage_facts(mixed.run, text, 30, 3)
    tokens = len(Encoder.load(mixed.artifact("tokenizer").path("tokenizer.json")).encode([text])[0])
    assert (name, value) == ("text", f"{tokens} tokens, 0.0 % of them in passages of 30 or more")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent.txt"], "FILE: cannot read 'absent.txt' (No such file or directory); name a text file, or -"),
        (["-", "--tokens", "0"], "--tokens: "),
        (["-", "--documents", "x"], "--documents: "),
    ],
)
def test_what_is_refused(mixed, words, message):
    done = headrace_here("why", *words, "--as", "text", *mixed.overrides, text="a")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_spans_become_parts_without_overlaps():
    """Pieces of one document, the document after it, a copy, and a document after a gap."""
    spans = np.array([(0, 8, 4), (0, 0, 8), (0, 12, 3), (0, 0, 8), (0, 20, 5)], SPAN)
    starts, stops = passages.merged(spans)
    assert (starts.tolist(), stops.tolist()) == ([0, 20], [16, 26])
