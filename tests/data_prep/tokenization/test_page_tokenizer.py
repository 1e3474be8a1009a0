"""The ids of a given tokenizer are those of the library, whatever its vocabulary and its added tokens."""

import json
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.data_prep.tokenization import page_tokenizer
from headrace.data_prep.tokenization.encode import Encoder, parse
from headrace.data_prep.tokenization.given_tokenizer import GivenFile
from headrace.data_prep.tokenization.page_tokenizer import PageTokenizer
from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.pipeline.core.errors import ConfigError
from tests.data_prep.tokenization.given_tokenizers import BYTES, KINDS, TEXTS, bpe, given_tokenizers, numbered
from tests.unique_documents import unique_documents

REFUSALS = (
    *("have one id", "is also the token of a character", "have one text after its normalizer"),
    *("has no text after its normalizer", "cannot encode ", "is also a token of"),
)


def library_of(description: dict[str, Any]) -> tokenizers.Tokenizer:
    """The tokenizer as the library reads it; what it adds, cuts and pads is switched off."""
    library = tokenizers.Tokenizer.from_str(json.dumps(description))
    library.no_truncation()
    library.no_padding()
    return library


def encoder_of(description: dict[str, Any]) -> Encoder | str:
    """The encoder, or why there is none."""
    try:
        return Encoder(parse(json.dumps(description), "x"), "x")
    except ConfigError as error:
        return str(error)


def spells(encoder: Encoder, text: str) -> bool:
    """Whether a special token is written in ``text``, as it is or after the normalizer."""
    normalize = encoder.backend.normalizer.normalize_str if encoder.backend.normalizer else str
    named = [token.content for token in encoder.backend.get_added_tokens_decoder().values() if token.special]
    return any(token in text or token in normalize(text) or normalize(token) in normalize(text) for token in named)


def check(description: dict[str, Any], texts: list[str]) -> None:
    library, unsplit = library_of(description), library_of(description)
    unsplit.encode_special_tokens = True
    numbers = library.get_vocab(with_added_tokens=True)
    encoder = encoder_of(description)
    assert (len({*numbers.values()}) < len(numbers)) == (isinstance(encoder, str) and "have one id" in encoder)
    if isinstance(encoder, str):
        assert any(refusal in encoder for refusal in REFUSALS), encoder
        return
    special = {number for number, token in encoder.backend.get_added_tokens_decoder().items() if token.special}
    assert encoder.end_of_text in special
    model = description["model"]
    unknown = model["unk_id"] if model["type"] == "Unigram" else numbers.get(model["unk_token"])
    unknown_text = library.id_to_token(unknown) if unknown in special else "\x00"  # a text that spells it is text
    special -= {unknown}
    for text, ids in zip(texts, encoder.encode(texts), strict=True):
        ours = ids.tolist()
        assert special.isdisjoint(ours)
        for one in (library, unsplit):
            theirs = one.encode(text, add_special_tokens=False).ids
            assert ours == theirs or spells(encoder, text) or unknown_text in text
        assert encoder.encode_with_offsets(text)[0].tolist() == ours
        ((again, text_bytes),) = encoder.encode_with_bytes([text])
        assert (again.tolist(), text_bytes.sum()) == (ours, len(text.encode()))
        if encoder.token_bytes is not None:
            assert encoder.token_bytes[ids].sum() == len(text.encode())


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_ids_are_those_of_the_library(kind, data):
    check(data.draw(given_tokenizers(kind)), data.draw(st.lists(TEXTS, min_size=4, max_size=8)))


def added(number: int, content: str, **flags: bool) -> dict[str, Any]:
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": number, "content": content, **dict.fromkeys(names, False), **flags}


def described(*tokens: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The 256 bytes, and added ``tokens``."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    absent = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor"))
    parts = {"version": "1.0", **absent, "pre_tokenizer": level, "decoder": level}
    return parts | {"added_tokens": list(tokens), "model": bpe(numbered(BYTES), [])} | fields


END = added(256, END_OF_TEXT, special=True)
QWEN = [END, added(257, "<|im_start|>", special=True), added(258, "<|im_end|>", special=True)]
QWEN += [added(259, "<tool_call>"), added(260, "</tool_call>"), added(261, "<|fim_prefix|>")]
PAGE = "call <tool_call> x </tool_call> <|fim_prefix|> end <|endoftext|>"


def test_added_tokens_keep_their_ids_from_the_file_to_the_shard(tmp_path, run_stage):
    path = tmp_path / "given.json"
    path.write_text(json.dumps(described(*QWEN)))
    unique = unique_documents(tmp_path / "unique", [[PAGE]])
    tokenizer = run_stage(Tokenizer(settings=GivenFile(path=str(path))), {"unique": unique}, tmp_path / "tokenizer")
    assert tokenizer.counts == {"vocabulary": 262}
    stored = run_stage(Tokens(), {"unique": unique, "tokenizer": tokenizer}, tmp_path / "tokens")
    ids = np.fromfile(stored.shard("tokens", 0, "bin"), "<u2").tolist()
    assert [number for number in ids if number >= 256] == [256, 259, 260, 261, 256]
    assert library_of(described(*QWEN)).decode(ids[1:-1], skip_special_tokens=False) == PAGE


def test_tokens_that_the_library_numbers_otherwise_than_the_file_are_counted(tmp_path, run_stage):
    path = tmp_path / "given.json"
    path.write_text(json.dumps(described(END, added(700, "<a>"), added(650, "<b>"))))
    unique = unique_documents(tmp_path / "unique", [["x<a><b>"]])
    tokenizer = run_stage(Tokenizer(settings=GivenFile(path=str(path))), {"unique": unique}, tmp_path / "tokenizer")
    assert tokenizer.counts == {"vocabulary": 259, "renumbered_tokens": 2}
    (ids,) = Encoder.load(tokenizer.path("tokenizer.json")).encode(["x<a><b>"])
    assert ids.tolist()[1:] == [257, 258]


def test_a_special_token_that_leads_to_another_token_is_kept_within_it():
    model = bpe(numbered([*BYTES, "ab", "abe"]), [("a", "b"), ("ab", "e")])
    encoder = Encoder(parse(json.dumps(described(END, added(256, "ab", special=True), model=model)), "x"))
    assert encoder.encode(["abe"])[0].tolist() == [257]
    (ids,) = encoder.encode(["ab abe"])
    assert (256 in ids, encoder.decode(ids)) == (False, "ab abe")


def test_no_text_has_a_special_token_in_gigatokens_ids():
    model = bpe(numbered([*BYTES, "ab"]), [("a", "b")])
    encoder = Encoder(parse(json.dumps(described(END, added(256, "ab", special=True), model=model)), "x"))
    assert encoder.slow_because == "its model finds the special token 'ab' in a text"
    assert len(encoder.encode(["ab"])[0]) == 2


WORDS = {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"a": 0, END_OF_TEXT: 1}}
REFUSED = [
    (
        described(END, model=bpe(numbered(BYTES) | {"far": 257}, [])),
        "x: the tokens '<|endoftext|>' and 'far' have one id, 257; "
        "number the tokens of model.vocab without unused ids, and save it again",
    ),
    (
        described(END, model=bpe(numbered(BYTES), [], dropout=0.5)),
        "x: its model leaves out merges at random (dropout 0.5); "
        "set model.dropout to null, so that a text always has the same ids",
    ),
    (
        described(END, added(257, "a", special=True)),
        "x: its special token 'a' is also the token of a character, which no text could have then; "
        "give special tokens names of their own",
    ),
    (
        described(END, added(257, "<A>", normalized=True), added(258, "<a>", normalized=True))
        | {"normalizer": {"type": "Lowercase"}},
        "x: the added tokens '<A>' and '<a>' have one text after its normalizer, '<a>'; "
        'set "normalized" of them to false, or leave one out',
    ),
    (  # a template spells special tokens
        described(END, *(added(257 + i, name, normalized=True, special=True) for i, name in enumerate(("<A>", "<a>"))))
        | {"normalizer": {"type": "Lowercase"}},
        "x: the added tokens '<A>' and '<a>' have one text after its normalizer, '<a>'; "
        'set "normalized" of them to false, or leave one out',
    ),
    (
        described(added(1, END_OF_TEXT, special=True), model=WORDS),
        "x: the tokenizers library cannot encode '<|endoftext|>' with it "
        "(WordLevel error: Missing [UNK] token from the vocabulary); "
        "give a tokenizer with a token for unknown text, and no empty one",
    ),
    (
        described(END, normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        'x: is not a tokenizer.json (Precompiled: Error("Cannot parse precompiled_charsmap", line: 0, column: 0)); '
        "give one that the tokenizers library saved",
    ),
]


@pytest.mark.parametrize(("description", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_exact_is_refused(description, message):
    assert encoder_of(description) == message


def test_a_difference_to_the_library_is_refused(monkeypatch):
    """As at commit ed6d04f4, where the special tokens were left out of the list and the rest moved up."""
    honest = PageTokenizer.encode

    class Shifted:
        def __init__(self, encoding: tokenizers.Encoding) -> None:
            self.ids = [number - 3 if number >= 259 else number for number in encoding.ids]

    monkeypatch.setattr(PageTokenizer, "encode", lambda *arguments: [*map(Shifted, honest(*arguments))])
    assert encoder_of(described(*QWEN)) == (
        "x: gives '<tool_call>' the ids [256], the tokenizers library [259]; "
        "give a tokenizer.json that the installed version of the library saved"
    )


def test_probes_hold_each_added_token_at_every_kind_of_place():
    texts = page_tokenizer.probe_texts(library_of(described(*QWEN)))
    for token in QWEN:
        name = token["content"]
        assert name in texts
        places = (f"a{name}b", f" {name} ", f"({name})", name + name, name.upper(), name[:-1] + " ")
        assert all(any(place in text for text in texts) for place in places)


@pytest.mark.parametrize(
    "change",
    [
        {"added_tokens": [END, added(257, "é")]},
        {"model": bpe(numbered(BYTES), [], end_of_word_suffix="</w>")},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, described()["decoder"]]}},
    ],
)
def test_tokens_with_several_lengths_have_no_table(change):
    encoder = encoder_of(described(END) | change)
    assert isinstance(encoder, Encoder)
    assert encoder.token_bytes is None
    ((_, text_bytes),) = encoder.encode_with_bytes(["é a  b"])
    assert text_bytes.sum() == len("é a  b".encode())
