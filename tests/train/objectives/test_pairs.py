"""Pairs of texts: rows against a plain reference, their labels, other documents, and what is refused."""

import itertools

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from headrace.data_prep.packed import Packed, Packing
from headrace.data_prep.tokenization.packing import SPAN, best_fit
from headrace.data_prep.tokenization.shards import TokenShards
from headrace.pipeline.config import check_training, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ConfigError
from headrace.train.data.batches import IGNORED
from headrace.train.data.order import row_generator
from headrace.train.data.rows import MixedRows, Rows
from headrace.train.objectives.base import Vocabulary
from headrace.train.objectives.masked import CLASS, MASK, NGRAM_SHARES, SEPARATOR, Masked, drawn_ngrams, words_of
from headrace.train.objectives.row_reader import Reader
from tests.train.objectives.test_masked import CONTINUES, END, FIRST, HIDDEN, LAST, ROW, SIZE, unmasked

ENDS = np.arange(SIZE) % 7 == 6
IDS = {CLASS: FIRST, SEPARATOR: LAST, MASK: HIDDEN}
VOCABULARY = Vocabulary(SIZE, IDS, reserved=np.arange(4), continues_V=CONTINUES, find_sentence_ends=lambda: ENDS)
KINDS = ("next_sentence", "sentence_order")


def pieces(seed: int) -> list[np.ndarray]:
    """The pieces of a row: a whole document, a short one without sentences, one of a token, the beginning of one."""
    generator = np.random.default_rng(seed)
    words = [generator.integers(4, SIZE, length) for length in (45, 40)]
    return [
        np.array(piece, np.uint16)
        for piece in ([END, *words[0], END], [END, 7, 8, 9, END], [END, 6, END], [END, *words[1]])
    ]


def sentences(text: list[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for index, token in enumerate(text):
        if index == 0 or (ENDS[text[index - 1]] and not ENDS[token]):
            found.append([])
        found[-1].append(token)
    return found


def plain_pair(pairs: str, text: list[int], generator, other) -> tuple[list[list[int]], int]:
    """The texts and the label in plain Python, after create_instances_from_document of google-research/bert."""
    chunk = sentences(text)
    if len(text) == 1 or (pairs == "sentence_order" and len(chunk) == 1):
        return [text], IGNORED
    a_end = int(generator.integers(1, len(chunk))) if len(chunk) > 1 else 1
    a, b = list(itertools.chain(*chunk[:a_end])), list(itertools.chain(*chunk[a_end:]))
    if pairs == "sentence_order":
        return ([b, a], 1) if generator.random() < 0.5 else ([a, b], 0)
    if len(chunk) > 1 and generator.random() >= 0.5:
        return [a, b], 0
    document, length, b = sentences(other(generator)), len(b), []
    for sentence in document[int(generator.integers(len(document))) :]:
        b += sentence
        if len(b) >= length:
            break
    while len(a) + len(b) > len(text):
        longer = a if len(a) > len(b) else b
        longer.pop(0 if generator.random() < 0.5 else -1)
    return [a, b], 1


@pytest.mark.parametrize("pairs", KINDS)
def test_rows_are_those_of_the_plain_definition(pairs):
    objective, labels = Masked(pairs=pairs), []
    for number in range(60):
        given = pieces(number)
        arrays = objective.row(given, ROW, VOCABULARY, row_generator(1, "training", number))
        assert {name: len(values) for name, values in arrays.items()} == objective.lengths(ROW)
        generator = row_generator(1, "training", number)
        own = [[token for token in piece[1:].tolist() if token != END] for piece in given]
        tokens, segments, firsts, own_labels = [], [], [], []
        for index, text in enumerate(own):
            others = own[:index] + own[index + 1 :]
            texts, label = plain_pair(pairs, text, generator, lambda g, o=others: o[int(g.integers(len(o)))])
            if label != IGNORED:
                firsts.append(len(tokens))
                own_labels.append(label)
            tokens.append(FIRST)
            segments.append(0)
            for part, words in enumerate(texts):
                tokens += [*words, LAST]
                segments += [part] * (len(words) + 1)
        assert unmasked(arrays)[: len(tokens)].tolist() == tokens
        assert arrays["segments"].tolist() == segments + [0] * (ROW - len(segments))
        assert arrays["firsts"].tolist() == firsts + [0] * (len(arrays["firsts"]) - len(firsts))
        assert arrays["labels"].tolist() == own_labels + [IGNORED] * (len(arrays["labels"]) - len(own_labels))
        count = objective.counts({name: values[None] for name, values in arrays.items()})
        assert count[pairs] == count["errors"] == len(firsts) == {"next_sentence": 3, "sentence_order": 2}[pairs]
        labels += own_labels
    share = {"next_sentence": 2 / 3, "sentence_order": 1 / 2}[pairs]  # the short document is always 1
    assert np.mean(labels) == pytest.approx(share, abs=0.1)


@pytest.mark.parametrize("pairs", KINDS)
def test_packed_rows_have_room_for_two_separators(pairs):
    lengths = np.random.default_rng(0).integers(1, 90, 60)
    spans = np.zeros(60, SPAN)
    spans["start"], spans["length"] = np.cumsum(lengths) - lengths, lengths
    texts = [[*(4 + np.arange(length - 1) % (SIZE - 4)), END] for length in lengths]
    stream = np.concatenate([[END], *texts])
    found, offsets = best_fit(spans, 64, Masked(pairs=pairs).frame_tokens)
    for first, last in itertools.pairwise(offsets.tolist()):
        rows = found[first:last].tolist()
        given = [stream[start : start + length + 1] for _, start, length in rows]
        arrays = Masked(pairs=pairs).row(given, 64, VOCABULARY, row_generator(1, "training", first))
        filled = int((arrays["documents"] >= 0).sum())
        assert arrays["inputs"][filled - 1] == LAST
        assert arrays["documents"][filled - 1] == len(given) - 1


def test_static_copies_are_the_same_pairs_each_time():
    for copies in (1, 3):
        found = [
            Masked(pairs="next_sentence", copies=copies).row(pieces(0), ROW, VOCABULARY, row_generator(1, "a", n))
            for n in range(40)
        ]
        assert len({arrays["inputs"].tobytes() + arrays["labels"].tobytes() for arrays in found}) == copies


@pytest.fixture(scope="module")
def rows(tmp_path_factory, inputs, run_stage) -> Rows:
    packing = Packing(row_tokens=64, validation_fraction=0.1, group_shards=2)
    folder = tmp_path_factory.mktemp("pairs")
    packed = run_stage(Packed(packing=packing, frame_tokens=3), {"tokens": inputs["tokens"]}, folder / "packed")
    return Rows(packed, inputs["tokens"], "train")


def test_another_document_is_drawn_by_the_random_numbers_alone(rows, inputs):
    """The first of ten drawn spans whose document is another one."""
    shards, found, again = TokenShards(inputs["tokens"]), set(), 0
    mixed = MixedRows([rows, rows])
    for number in range(0, len(rows), 2):
        shard, start, _ = rows.spans(number)[0].tolist()
        own, generator = (shard, shards.document(shard, start)), row_generator(0, "a", number)
        for _ in range(10):
            spans = rows.spans(int(generator.integers(len(rows))))
            shard, start, length = spans[int(generator.integers(len(spans)))].tolist()
            other = shard, shards.document(shard, start)
            if other != own:
                break
            again += 1
        assert other != own
        found.add(other)
        expected = shards.slice(shard, start, start + length + 1)
        assert np.array_equal(rows.other_piece(number, 0, row_generator(0, "a", number)), expected)
        assert np.array_equal(mixed.other_piece(len(rows) + number, 0, row_generator(0, "a", number)), expected)
    assert again
    assert len(found) > 20


def test_data_of_one_document_has_no_other_one(rows, monkeypatch):
    monkeypatch.setattr(TokenShards, "document", lambda *_: 0)
    shard, _, _ = rows.spans(0)[0].tolist()
    spans = np.array([(shard, 0, 5)], SPAN)
    monkeypatch.setattr(rows._rows, "spans", lambda _: spans)
    assert not len(rows.other_piece(0, 0, row_generator(0, "a", 0)))


def test_a_row_reads_other_rows_by_its_position_alone(rows):
    vocabulary = Vocabulary(
        261, {CLASS: 257, SEPARATOR: 258, MASK: 259}, reserved=np.arange(256, 261),
        find_sentence_ends=lambda: np.arange(261) == ord("."),
    )  # fmt: skip
    objective = Masked(pairs="next_sentence")
    reader = Reader(objective, vocabulary, 3, "training")
    together = reader.read(rows, [0, 1, 2], 40)
    alone = [reader.read(rows, [row], 40 + row).arrays for row in range(3)]
    for name, values in together.arrays.items():
        assert np.array_equal(values, np.concatenate([arrays[name] for arrays in alone])), name
    assert together.counts["next_sentence"] > 3
    padding = reader.read(rows, [], 0)
    assert padding.counts == {"mlm": 0, "next_sentence": 0, "errors": 0}


def plain_ngrams(words: list[list[int]], number: int, generator) -> list[list[int]]:
    """create_masked_lm_predictions of google-research/albert, with n-grams that end with their text."""
    masked, covered = [], set()
    for first in generator.permutation(len(words)).tolist():
        if sum(map(len, masked)) >= number:
            break
        n = int(generator.choice([1, 2, 3], p=[6 / 11, 3 / 11, 2 / 11]))
        for length in range(n, 0, -1):
            ngram = list(itertools.chain(*words[first : first + length]))
            is_whole = ngram == list(range(ngram[0], ngram[0] + len(ngram)))
            if is_whole and sum(map(len, masked)) + len(ngram) <= number:
                break
        else:
            continue
        if not covered & set(ngram):
            masked.append(ngram)
            covered |= set(ngram)
    return masked


def test_ngrams_are_those_of_alberts_code():
    lengths = []
    for seed in range(60):
        tokens = np.random.default_rng(seed).integers(4, SIZE, 100)
        maskable = np.setdiff1d(np.arange(100), [30, 31, 70])
        words = words_of(tokens, maskable, VOCABULARY)
        found = drawn_ngrams(words, 15, np.random.default_rng(seed))
        assert found == plain_ngrams(words, 15, np.random.default_rng(seed))
        assert sum(map(len, found)) <= 15
        word_of = {position: index for index, word in enumerate(words) for position in word}
        lengths += [len({word_of[position] for position in ngram}) for ngram in found[:3]]
    shares = np.bincount(lengths, minlength=4)[1:] / len(lengths)
    assert shares == pytest.approx(NGRAM_SHARES, abs=0.12)
    arrays = Masked(unit="ngram").row(pieces(0), ROW, VOCABULARY, row_generator(1, "training", 0))
    assert 10 <= (arrays["targets"] != IGNORED).sum() <= 15


def test_settings_that_cannot_work_are_refused_before_any_stage(tmp_path):
    run = ("model=bert_demo", "objective=masked", "packing.row_tokens=128")
    refused = {
        ("objective.pairs=next_sentence",): "model.pair_head: is false, and objective.pairs is next_sentence; give "
        "model.pair_head=true, or objective.pairs=none",
        ("model.pair_head=true",): "model.pair_head: is true, and objective.pairs is none; give "
        "objective.pairs=next_sentence, say, or model.pair_head=false",
        ("objective.pairs=sentence_order", "model.pair_head=true", "model.segments=1"): "model.segments: is 1, and "
        "objective.pairs=sentence_order has texts of two parts; give model.segments=2, or objective.pairs=none",
    }
    for overrides, message in refused.items():
        with pytest.raises(ConfigError) as error:
            decoded(compose([*run, *overrides]))
        assert str(error.value) == message
    tokenizer = Tokenizer(WordLevel({token: number for number, token in enumerate((*IDS, "a", "[UNK]"))}, "[UNK]"))
    tokenizer.add_special_tokens([*IDS])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    given = ("tokenizer=file", f"tokenizer.path={tmp_path}/tokenizer.json")
    config = decoded(compose([*run, *given, "objective.pairs=next_sentence", "model.pair_head=true"]))
    with pytest.raises(ConfigError, match="next_sentence divides texts at sentences, and no token of the tokenizer"):
        check_training(config)


def test_pairs_need_documents_of_their_own():
    with pytest.raises(ConfigError) as error:
        Masked(pairs="sentence_order", documents="joined")
    assert str(error.value) == (
        "objective: pairs sentence_order divides documents, and documents joined makes one text of a row; "
        "give objective.documents=separate or objective.pairs=none"
    )
