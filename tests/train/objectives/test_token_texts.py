"""Which tokens continue a word, for each kind of tokenizer."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from headrace.data_prep.tokenization.made_tokenizers import Bpe
from headrace.pipeline.core.settings import canonical
from headrace.train.evaluation.settings import Evaluation
from headrace.train.objectives import token_texts
from headrace.train.objectives.masked import Masked
from headrace.train.objectives.reconstruction import Reconstruction
from headrace.train.objectives.token_texts import continuations


def continuing(tokenizer: Tokenizer) -> set[str]:
    """The tokens that continue a word."""
    continues_V = continuations(tokenizer)
    return {token for token, number in tokenizer.get_vocab().items() if continues_V[number]}


def byte_level(*texts: str | bytes) -> Tokenizer:
    """A byte-level vocabulary of these texts, one token each."""
    character_of = {byte[0]: character for character, byte in token_texts.BYTE_OF.items()}
    raw = [text.encode() if isinstance(text, str) else text for text in texts]
    vocabulary = {"".join(character_of[byte] for byte in one): number for number, one in enumerate(raw)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def test_the_characters_of_bytes_are_those_of_the_library():
    assert set(token_texts.BYTE_OF) == set(pre_tokenizers.ByteLevel.alphabet())
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("a —\n\x00", "é한🙂\u00a0"):
        ((characters, _),) = split.pre_tokenize_str(text)
        assert b"".join(token_texts.BYTE_OF[one] for one in characters) == text.encode()


@pytest.mark.parametrize("begins", ["—", "“it", "’s", "…", " a", ".", "\n", "\u00a0x", "🙂", b"\xe2", b"\xe2\x80"])
def test_a_byte_level_token_begins_a_word(begins):
    assert continuations(byte_level(begins)).tolist() == [False]


@pytest.mark.parametrize(
    "continues", ["a", "7", "ï", "й", "한", "\u0301", b"\x80\x94", b"\xaf", b"\xc3", b"\xd0", b"\xed"]
)
def test_a_byte_level_token_continues_a_word(continues):
    assert continuations(byte_level(continues)).tolist() == [True]


def test_special_tokens_and_those_of_other_kinds_are_words():
    tokenizer = byte_level("a", "b")
    tokenizer.add_special_tokens(["mask"])
    tokenizer.add_tokens(["né"])
    assert continuations(tokenizer).tolist() == [True, True, False, True]
    tokenizer.decoder = decoders.Fuse()
    assert not continuations(tokenizer).any()
    assert continuations(Tokenizer(models.BPE({"a": 0}, []))).tolist() == [False]


def test_our_subwords_have_parts_of_words():
    """Its decoder has several parts; where it falls back to bytes, one inside a character continues its word."""
    settings = Bpe(vocabulary_size=330, alphabet_size=10)
    tokenizer = Tokenizer.from_str(settings.train(["mill stone, mill stones"] * 4, ()))
    found = continuing(tokenizer)
    assert "s" in found
    assert not {"▁", ",", "▁mill"} & found
    assert {"<0xE2>", "<0x80>", "<0x61>", "<0x2E>"} & found == {"<0x80>", "<0x61>"}


def test_only_settings_that_depend_on_words_have_a_revision():
    """Before, words of byte-level tokenizers were read from the characters of their bytes."""
    revised = (Reconstruction(), Masked(unit="word"), Evaluation(pseudo_likelihood="within_word_l2r"))
    assert [canonical(one).get("revision") for one in revised] == [1, 1, 1]
    others = (Reconstruction(kind="masking"), Masked(pairs="next_sentence"), Evaluation())
    assert not any("revision" in str(canonical(one)) for one in others)
