"""Masked language modelling: rows, the choice of tokens, their replacement; shares against a plain reference."""

import itertools

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenization.packing import SPAN, best_fit, concatenate, padded
from headrace.pipeline.core.errors import ConfigError
from headrace.train.data.batches import IGNORED
from headrace.train.data.order import row_generator
from headrace.train.objectives.base import Vocabulary
from headrace.train.objectives.masked import CLASS, MASK, SEPARATOR, Masked

END, FIRST, LAST, HIDDEN = 0, 1, 2, 3
SIZE, ROW = 200, 128
CONTINUES = np.arange(SIZE) % 3 == 0
CONTINUES[:4] = False
VOCABULARY = Vocabulary(
    SIZE, {CLASS: FIRST, SEPARATOR: LAST, MASK: HIDDEN}, reserved=np.arange(4), continues_V=CONTINUES
)


def texts(seed: int) -> list[np.ndarray]:
    """The pieces of a row: a whole document, the end of one, and the beginning of one that goes on elsewhere."""
    generator = np.random.default_rng(seed)
    words = [generator.integers(4, SIZE, length) for length in (50, 20, 40)]
    whole, tail, head = ([END, *words[0], END], [77, *words[1], END], [END, *words[2]])
    return [np.array(piece, np.uint16) for piece in (whole, tail, head)]


def rows(objective: Masked, number: int = 400) -> list[dict[str, np.ndarray]]:
    return [objective.row(texts(n), ROW, VOCABULARY, row_generator(1, "training", n)) for n in range(number)]


def unmasked(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The inputs before masking."""
    tokens, is_target = arrays["inputs"].copy(), arrays["targets"] != IGNORED
    tokens[arrays["masked"][is_target]] = arrays["targets"][is_target]
    return tokens


def test_each_document_is_framed_and_sees_itself_alone():
    arrays = rows(Masked(), 1)[0]
    whole, tail, head = (piece.tolist() for piece in texts(0))
    parts = [[FIRST, *whole[1:-1], LAST], [FIRST, *tail[1:-1], LAST], [FIRST, *head[1:], LAST]]
    filled = sum(map(len, parts))
    assert unmasked(arrays)[:filled].tolist() == [*itertools.chain(*parts)]
    assert arrays["positions"][:filled].tolist() == [n for part in parts for n in range(len(part))]
    assert arrays["documents"].tolist() == [n for n, part in enumerate(parts) for _ in part] + [-1] * (ROW - filled)


def test_joined_documents_are_one_sequence():
    arrays = rows(Masked(documents="joined"), 1)[0]
    whole, tail, head = (piece.tolist() for piece in texts(0))
    sequence = [FIRST, *whole[1:-1], LAST, *tail[1:-1], LAST, *head[1:], LAST]
    assert unmasked(arrays)[: len(sequence)].tolist() == sequence
    assert arrays["positions"][: len(sequence)].tolist() == list(range(len(sequence)))
    assert set(arrays["documents"][: len(sequence)]) == {0}


@pytest.mark.parametrize("unit", ["token", "word"])
def test_targets_are_the_hidden_tokens_and_never_special(unit):
    for arrays in rows(Masked(unit=unit), 40):
        is_target = arrays["targets"] != IGNORED
        masked, tokens = arrays["masked"][is_target], unmasked(arrays)
        assert (np.diff(masked) > 0).all()
        assert not np.isin(tokens[masked], VOCABULARY.reserved).any()
        others = np.setdiff1d(np.arange(ROW), masked)
        assert (arrays["inputs"][others] == tokens[others]).all()
        filled = int((arrays["documents"] >= 0).sum())
        assert len(masked) == round(0.15 * filled) if unit != "word" else 12 <= len(masked) <= round(0.15 * filled)


def shares(objective: Masked, number: int = 400) -> dict[str, float]:
    """The shares of the predicted tokens that are hidden, kept, and special after the replacement."""
    found = rows(objective, number)
    is_target = [one["targets"] != IGNORED for one in found]
    now = np.concatenate([one["inputs"][one["masked"][t]] for one, t in zip(found, is_target, strict=True)])
    before = np.concatenate([one["targets"][t] for one, t in zip(found, is_target, strict=True)])
    special = np.isin(now, (END, FIRST, LAST))
    return {
        "hidden": (now == HIDDEN).mean(),
        "kept": (now == before).mean(),
        "special": special.mean(),
        "random": ((now != HIDDEN) & (now != before)).mean(),
    }


def test_random_tokens_may_be_special_or_not():
    everything = {"mask_share": 0.0, "random_share": 1.0}
    assert shares(Masked(**everything))["special"] == pytest.approx(3 / SIZE, abs=0.006)
    ordinary = shares(Masked(**everything, random_tokens="ordinary"))
    assert ordinary["special"] == ordinary["hidden"] == 0


def test_the_shares_are_those_of_transformers():
    tokenizer = Tokenizer(models.WordLevel({str(n): n for n in range(4, SIZE)} | {CLASS: 1, SEPARATOR: 2, MASK: 3}))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token=MASK, cls_token=CLASS, sep_token=SEPARATOR)
    collator = DataCollatorForLanguageModeling(fast, mlm_probability=0.15, seed=0)
    before = torch.from_numpy(np.stack([unmasked(row) for row in rows(Masked())]))
    special = torch.from_numpy(np.isin(before, VOCABULARY.reserved))
    now, labels = collator.torch_mask_tokens(before.clone(), special_tokens_mask=special)
    is_target = labels != -100
    theirs = {"hidden": (now == HIDDEN)[is_target].float().mean(), "kept": (now == before)[is_target].float().mean()}
    ours = shares(Masked())
    for name, share in theirs.items():
        assert ours[name] == pytest.approx(float(share), abs=0.02)
    assert float(is_target.sum() / (~special).sum()) == pytest.approx(0.15, abs=0.01)


def plain_row(objective: Masked, generator: np.random.Generator, tokens: list[int]) -> tuple[list[int], dict[int, int]]:
    """The definition, token by token, with the same draws: the inputs, and position → target."""
    maskable = [place for place, token in enumerate(tokens) if token > HIDDEN]
    chosen = sorted(generator.permutation(maskable)[: round(objective.rate * len(tokens))].tolist())
    actions, random = generator.random(len(chosen)), generator.integers(SIZE, size=len(chosen))
    inputs = list(tokens)
    for place, action, token in zip(chosen, actions, random, strict=True):
        inputs[place] = HIDDEN if action < 0.8 else int(token) if action < 0.9 else tokens[place]
    return inputs, {place: tokens[place] for place in chosen}


def test_a_row_is_that_of_the_plain_definition():
    for number, arrays in enumerate(rows(Masked(), 30)):
        filled = int((arrays["documents"] >= 0).sum())
        tokens = unmasked(arrays)[:filled].tolist()
        inputs, targets = plain_row(Masked(), row_generator(1, "training", number), tokens)
        assert arrays["inputs"][:filled].tolist() == inputs
        is_target = arrays["targets"] != IGNORED
        found = zip(arrays["masked"][is_target].tolist(), arrays["targets"][is_target].tolist(), strict=True)
        assert dict(found) == targets


def test_whole_words_are_hidden_together():
    for arrays in rows(Masked(unit="word"), 40):
        tokens, masked = unmasked(arrays), set(arrays["masked"][arrays["targets"] != IGNORED].tolist())
        for place in range(1, ROW):
            if CONTINUES[tokens[place]] and tokens[place - 1] > HIDDEN and tokens[place] > HIDDEN:
                assert (place in masked) == (place - 1 in masked)


@pytest.mark.parametrize(("cap", "most"), [(None, 19), (7, 7)])
def test_no_row_has_more_targets_than_its_arrays(cap, most):
    objective = Masked(cap=cap)
    assert objective.lengths(ROW) == {
        "inputs": ROW,
        "positions": ROW,
        "documents": ROW,
        "masked": most,
        "targets": most,
    }
    for arrays in rows(objective, 10):
        assert {name: len(array) for name, array in arrays.items()} == objective.lengths(ROW)
        assert (arrays["targets"] != IGNORED).sum() == min(most, round(0.15 * 116))


def test_random_rounding_has_the_rate_in_the_mean():
    objective = Masked(rounding="random")
    counts = [objective.counts({"targets": row["targets"]})["mlm"] for row in rows(objective)]
    assert set(counts) == {17, 18}
    assert np.mean(counts) == pytest.approx(0.15 * 116, abs=0.1)


def test_static_masks_are_one_of_a_few():
    pieces = texts(0)
    for copies, expected in ((1, 1), (3, 3), (None, 40)):
        objective = Masked(copies=copies)
        found = [objective.row(pieces, ROW, VOCABULARY, row_generator(1, "training", n)) for n in range(40)]
        assert len({arrays["inputs"].tobytes() for arrays in found}) == expected


def test_no_text_is_a_row_of_padding():
    arrays = Masked().row([], ROW, VOCABULARY, row_generator(1, "training", 0))
    assert Masked().counts({"targets": arrays["targets"]}) == {"mlm": 0}
    assert set(arrays["documents"]) == {-1}


@pytest.mark.parametrize(
    ("method", "documents"), [(best_fit, "separate"), (concatenate, "joined"), (padded, "separate")]
)
def test_packed_rows_have_room_for_the_frame(method, documents):
    lengths = np.random.default_rng(0).integers(1, 90, 60)
    spans = np.zeros(60, SPAN)
    spans["start"], spans["length"] = np.cumsum(lengths) - lengths, lengths
    stream = np.concatenate([[END], *[[*range(9, 8 + length), END] for length in lengths]])
    found, offsets = method(spans, 64, Masked().frame_tokens)
    objective, read = Masked(documents=documents), []
    for first, last in itertools.pairwise(offsets.tolist()):
        pieces = [
            stream[s : s + n + 1]
            for s, n in zip(found["start"][first:last].tolist(), found["length"][first:last].tolist(), strict=True)
        ]
        arrays = objective.row(pieces, 64, VOCABULARY, row_generator(1, "training", first))
        read += [token for token in unmasked(arrays)[arrays["documents"] >= 0].tolist() if token > HIDDEN]
    assert sorted(read) == sorted(stream[stream > HIDDEN].tolist())


def test_shares_above_one_are_refused():
    with pytest.raises(ConfigError, match=r"mask_share 0.8 and random_share 0.3 are more than 1 together"):
        Masked(random_share=0.3)


def test_continuations_follow_the_kind_of_tokenizer():
    trained = Tokenizer.from_str(Trained(vocabulary_size=300).train(["mill stone"], (CLASS, SEPARATOR, MASK)))
    vocabulary = Vocabulary.of_tokenizer(Masked(), trained)
    assert vocabulary.reserved.tolist() == [0, 1, 2, 3]
    kinds = {token: vocabulary.continues_V[trained.token_to_id(token)] for token in ("a", "Ġ", ".", "7", MASK)}
    assert kinds == {"a": True, "Ġ": False, ".": False, "7": True, MASK: False}
    pieces = {"[UNK]": 0, "mill": 1, "##stone": 2, CLASS: 3, SEPARATOR: 4, MASK: 5}
    wordpiece = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    wordpiece.decoder = decoders.WordPiece()
    assert Vocabulary.of_tokenizer(Masked(), wordpiece).continues_V.tolist() == [False, False, True, *[False] * 3]
