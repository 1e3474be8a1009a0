"""gigatoken gives the ids of the tokenizers library for each text, or a reason why it is not used."""

import functools
import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.tokenization import fast_bpe as module
from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.fast_bpe import LLAMA3_EXPRESSION, FastBpe, verified_fast_bpe
from headrace.data_prep.tokenization.made_tokenizers import byte_level
from headrace.data_prep.tokenization.page_tokenizer import PROBE_CHARACTERS, PROBES, probes
from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT
from tests.data_prep.tokenization.given_tokenizers import gpt2_file

SPLITTERS = {
    "gpt2": tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False),
    "llama3": tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(LLAMA3_EXPRESSION), "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
}
CORPUS = ["the then they're there is 2024 is'nt I'LL  go\n\nthe end of the 12345 days, naïve 中文字 \u0660\u0661" * 3]
KINDS = ("L", "M", "N", "P", "S", "Z", "C")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.text(
    st.sampled_from(PROBE_CHARACTERS), max_size=60
)


def trained(splitter: str = "gpt2", vocabulary: int = 400, corpus: Sequence[str] = CORPUS) -> tokenizers.Tokenizer:
    tokenizer = byte_level(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = SPLITTERS[splitter]
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END_OF_TEXT, "<pad>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def of_merges(merges: list[tuple[str, str]], **model: object) -> tokenizers.Tokenizer:
    """The bytes, in the order of their characters, and what ``merges`` give."""
    tokens = dict.fromkeys(sorted(module.BYTES) + [left + right for left, right in merges])
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return byte_level(tokenizers.models.BPE(vocabulary, merges, **model))


def fast_bpe(tokenizer: tokenizers.Tokenizer) -> FastBpe:
    return FastBpe(json.loads(tokenizer.to_str()))


def unfit(description: str) -> str | None:
    """Returns the reason why gigatoken cannot be used with this tokenizer.json."""
    tokenizer = tokenizers.Tokenizer.from_str(description)
    tokenizer.encode_special_tokens = True
    fast = verified_fast_bpe(tokenizer)
    return fast if isinstance(fast, str) else None


def differing(tokenizer: tokenizers.Tokenizer, texts: list[str]) -> list[str]:
    """Returns the texts for which gigatoken and the library give different ids."""
    tokenizer.encode_special_tokens = True
    fast = fast_bpe(tokenizer)
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [text for text, slow in zip(texts, encodings, strict=True) if fast.encode(text).tolist() != slow.ids]


@functools.cache
def cached(splitter: str) -> tuple[FastBpe, tokenizers.Tokenizer]:
    tokenizer = trained(splitter)
    tokenizer.encode_special_tokens = True
    return fast_bpe(tokenizer), tokenizer


@pytest.mark.parametrize("splitter", SPLITTERS)
@settings(max_examples=500)
@given(text=TEXTS)
def test_any_text_has_the_ids_of_the_library(splitter, text):
    fast, slow = cached(splitter)
    assert fast.encode(text).tolist() == slow.encode(text, add_special_tokens=False).ids


@st.composite
def merge_lists(draw: st.DrawFn) -> list[tuple[str, str]]:
    tokens, merges = ["a", "b", "Ġ"], []
    for _ in range(draw(st.integers(0, 12))):
        pair = (draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens)))
        if pair not in merges:
            merges.append(pair)
            tokens = list(dict.fromkeys([*tokens, pair[0] + pair[1]]))
    return draw(st.permutations(merges)) if draw(st.booleans()) else merges


@settings(max_examples=150)
@given(merges=merge_lists(), ignore=st.booleans(), texts=st.lists(st.text("ab ", max_size=40), min_size=5))
def test_any_list_of_merges_is_followed_as_the_library_does(merges, ignore, texts):
    assert differing(of_merges(merges, ignore_merges=ignore), texts) == []


def test_words_without_end_empty_texts_and_spelled_special_tokens():
    tokenizer = trained()
    texts = [
        "",
        "a" * 30_000,
        "the" * 10_000,
        " " * 30_000,
        "中" * 10_000,
        "\n" * 5_000,
        "9" * 10_000,
        "\x00",
        END_OF_TEXT,
    ]
    texts += [f"a{END_OF_TEXT}b<pad> <pad>", "e\u0301" * 2_000, "\U0010ffff" * 500]
    assert differing(tokenizer, texts) == []


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_every_character_of_unicode_between_letters_digits_and_spaces(splitter):
    characters = [chr(code) for code in range(0x30000) if not 0xD800 <= code < 0xE000]
    rare = [c for c in characters if unicodedata.category(c) not in ("Lo", "Cn", "Co")] + characters[::97]
    lines = [rare[first : first + 40] for first in range(0, len(rare), 40)]
    forms = ("a{0}b", "1{0}2", " {0} ", "\n{0}", "'{0}")
    assert differing(trained(splitter), ["\t".join(f.format(c) for f in forms for c in line) for line in lines]) == []


@pytest.mark.slow
def test_our_tokenizers_and_gpt2_are_accepted(data_folder, tmp_path):
    assert unfit(Path(gpt2_file(data_folder("tokenizer"), tmp_path)).read_text(encoding="utf-8")) is None
    assert unfit(trained().to_str()) is None
    assert unfit(trained("llama3").to_str()) is None


def described(**changes: object) -> str:
    """Returns an accepted tokenizer.json with other top-level fields, or with other fields of ``model``."""
    description = json.loads(trained().to_str())
    description["model"] |= changes.pop("model", {})
    return json.dumps(description | changes)


def with_vocabulary(token: str) -> dict[str, object]:
    return {"vocab": json.loads(trained().to_str())["model"]["vocab"] | {token: 9_000}}


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
UNKNOWN_SPLITTER = "its pre-tokenizer is neither GPT-2's nor Llama 3's"
REASONS = [
    (described(model={"dropout": 0.1}), "its model has dropout 0.1"),
    (of_merges([], continuing_subword_prefix="##").to_str(), "its model has continuing_subword_prefix '##'"),
    (of_merges([], end_of_word_suffix="</w>").to_str(), "its model has end_of_word_suffix '</w>'"),
    (described(model={"byte_fallback": True}), "its model has byte_fallback True"),
    (described(normalizer={"type": "NFC"}), "it has a normalizer, NFC"),
    (described(pre_tokenizer=BYTE_LEVEL), UNKNOWN_SPLITTER),
    (described(pre_tokenizer=BYTE_LEVEL | {"add_prefix_space": False, "use_regex": False}), UNKNOWN_SPLITTER),
    (described(pre_tokenizer=None), UNKNOWN_SPLITTER),
    (described(model=with_vocabulary("▁the")), "its token '▁the' is not made of bytes"),
    (byte_level(tokenizers.models.WordLevel({"a": 0}, "a")).to_str(), "its model is WordLevel, not BPE"),
    (byte_level(tokenizers.models.BPE({"a": 0, "b": 1}, [])).to_str(), "its vocabulary lacks 254 of the 256 bytes"),
    (
        of_merges([("a", "b"), ("b", "c"), ("a", "bc"), ("ab", "c")]).to_str(),
        "two successive merges give the same token",
    ),
]


@pytest.mark.parametrize(("description", "reason"), REASONS, ids=[reason for _, reason in REASONS])
def test_unknown_forms_are_left_to_the_library(description, reason):
    assert unfit(description) == reason


def test_ordinary_added_tokens_are_left_to_the_library():
    tokenizer = trained()
    tokenizer.add_tokens(["the end"])
    reason = "it has added tokens that are not special, such as 'the end'"
    assert unfit(tokenizer.to_str()) == reason
    encoder = Encoder(tokenizer)
    assert encoder.slow_because == reason
    (ids,) = encoder.encode(["see the end"])
    assert ids.tolist()[-1] == tokenizer.token_to_id("the end")


def test_gigatoken_is_refused_when_it_differs_in_one_token(monkeypatch):
    honest = FastBpe.encode

    def wrong(self: FastBpe, text: str) -> np.ndarray:
        ids = honest(self, text)
        return np.where(ids == 300, 301, ids)

    monkeypatch.setattr(FastBpe, "encode", wrong)
    reason = unfit(described())
    assert reason is not None
    assert reason.startswith("gigatoken gives different ids for '")


def test_probes_reach_every_kind_of_character_and_stay_the_same():
    text = "".join(probes())
    assert {unicodedata.category(character)[0] for character in text} == set(KINDS)
    assert set(text) == set(PROBE_CHARACTERS)
    assert probes() == probes()
    assert len(probes()) == len(set(probes())) == PROBES


def test_a_new_instance_changes_nothing(monkeypatch):
    monkeypatch.setattr(module, "RENEW_BYTES", 100)
    fast, slow = fast_bpe(trained()), trained()
    before = fast._gigatoken
    for text in ["the " * 20, "they're " * 20, "a", "the end " * 5]:
        assert fast.encode(text).tolist() == slow.encode(text).ids
    assert fast._gigatoken is not before
