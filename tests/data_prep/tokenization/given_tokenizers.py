"""Random tokenizer.json files and texts for them: all kinds of models, added tokens and other parts."""

from pathlib import Path
from typing import Any

import tokenizers
from hypothesis import strategies as st
from transformers import GPT2Tokenizer

from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT

BYTES = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("<", "t"), ("<t", ">"), ("a", "b"), ("<", "s"), ("<s", ">")]
CHARACTERS = [*"abehstAB <>_1水", "é", "e\u0301", "▁", "İ", "\n"]
PIECES = [*CHARACTERS, "the", "ab", "<t>", "<s>", "AB", "▁the", "▁ab", "[X]"]
NAMES = [*("<t>", "<t", "<t>>", "<s>", "</s>", "the", " the", "Ġthe", "ab", "AB", "Ab", "a", "[X]", "é", "水", "  ")]
NAMES += ["\n", "<|x|>", "b <t>", "İ", "_", "1", "[UNK]"]
"""Contents of added tokens: some begin others, some are in vocabularies, some are equal in lower case."""


def gpt2_file(folder: Path, to: Path) -> str:
    """The path of the tokenizer.json that transformers makes of GPT-2's two files."""
    files = {"vocab": str(folder / "gpt2_encoder.json"), "merges": str(folder / "gpt2_vocab.bpe")}
    GPT2Tokenizer(**files).save_pretrained(to)
    return str(to / "tokenizer.json")


REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
NORMALIZERS: list[dict[str, Any] | None] = [
    None,
    {"type": "Lowercase"},
    {"type": "NFC"},
    {"type": "NFKD"},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, REPLACE]},
    BERT | {"lowercase": True},
]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
SPLIT = {"type": "Split", "pattern": {"Regex": r"\p{N}|\s+"}, "behavior": "Isolated", "invert": False}
BYTE_SPLITTERS: list[dict[str, Any]] = [
    BYTE_LEVEL,
    BYTE_LEVEL | {"add_prefix_space": True},
    {"type": "Sequence", "pretokenizers": [SPLIT, BYTE_LEVEL | {"use_regex": False}]},
    {"type": "Sequence", "pretokenizers": [SPLIT | {"behavior": "Removed"}, BYTE_LEVEL]},
    {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, BYTE_LEVEL]},
]
SPLITTERS: list[dict[str, Any] | None] = [
    None,
    {"type": "Whitespace"},
    {"type": "WhitespaceSplit"},
    {"type": "BertPreTokenizer"},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
]
TRUNCATION = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
PADDING = {"direction": "Left", "pad_id": 0, "pad_type_id": 0, "pad_token": END_OF_TEXT, "pad_to_multiple_of": None}


def numbered(tokens: list[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(dict.fromkeys(tokens))}


def bpe(vocabulary: dict[str, int], merges: list[tuple[str, str]], **fields: Any) -> dict[str, Any]:
    absent = dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"))
    flags = dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), False)
    possible = [one for one in merges if {*one, "".join(one)} <= vocabulary.keys()]
    return {"type": "BPE", **absent, **flags, "vocab": vocabulary, "merges": possible, **fields}


def models(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    pieces = draw(st.lists(st.sampled_from([*PIECES, *NAMES, END_OF_TEXT]), unique=True))
    merges = draw(st.lists(st.sampled_from(MERGES), unique=True).map(lambda found: sorted(found, key=MERGES.index)))
    made = ["".join(merge) for merge in merges]
    if kind == "byte level":
        named = [piece for piece in pieces if {*piece} <= {*BYTES}]
        return bpe(numbered([*BYTES, *made, *named]), merges, ignore_merges=draw(st.booleans()))
    if kind == "characters":
        return bpe(
            numbered(["<unk>", *CHARACTERS, *made, *pieces]), merges, unk_token="<unk>", fuse_unk=draw(st.booleans())
        )
    if kind == "byte fallback":
        return bpe(numbered(["<unk>", *BYTE_TOKENS, *made, *pieces]), merges, unk_token="<unk>", byte_fallback=True)
    if kind == "word piece":
        parts = ["[UNK]", *pieces, *(f"##{character}" for character in CHARACTERS)]
        prefix = {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
        return {"type": "WordPiece", "unk_token": "[UNK]", **prefix, "vocab": numbered(parts)}
    if kind == "words":
        return {"type": "WordLevel", "unk_token": "[UNK]", "vocab": numbered(["[UNK]", *pieces])}
    has_bytes = kind == "unigram with bytes"
    names = numbered(["<unk>", *(BYTE_TOKENS if has_bytes else ()), *pieces])
    scored = [[piece, -float(number % 7) - 1] for number, piece in enumerate(names)]
    return {"type": "Unigram", "unk_id": 0, "byte_fallback": has_bytes, "vocab": scored}


KINDS = ("byte level", "characters", "byte fallback", "word piece", "words", "unigram", "unigram with bytes")


@st.composite
def given_tokenizers(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    """Draws a tokenizer.json with ``<|endoftext|>``: its model is of a ``kind``, everything else is random."""
    model = models(draw, kind)
    if isinstance(model["vocab"], dict) and draw(st.integers(0, 4)) == 0:  # holes
        step = draw(st.integers(1, 3))
        model["vocab"] = {token: number * step for token, number in model["vocab"].items()}
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=8))
    names.insert(draw(st.integers(0, len(names))), END_OF_TEXT)
    first = draw(st.sampled_from([len(model["vocab"]), 0, 5_000]))
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    added = [
        {"id": first + index, "content": name, **{flag: draw(st.booleans()) for flag in flags}}
        for index, name in enumerate(names)
    ]
    if kind in ("byte fallback", "unigram with bytes") and draw(st.booleans()):  # as trainers mark control tokens
        plain = dict.fromkeys(flags, False) | {"special": True}
        added += [{"id": 6_000 + index, "content": name, **plain} for index, name in enumerate(BYTE_TOKENS)]
    template = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": END_OF_TEXT, "type_id": 0}}
    ends = {END_OF_TEXT: {"id": END_OF_TEXT, "ids": [0], "tokens": [END_OF_TEXT]}}
    form = {"type": "TemplateProcessing", "single": [*template], "pair": [*template], "special_tokens": ends}
    return {
        "version": "1.0",
        "truncation": draw(st.sampled_from([None, TRUNCATION])),
        "padding": draw(st.sampled_from([None, PADDING | {"strategy": {"Fixed": 20}}])),
        "added_tokens": added,
        "normalizer": draw(st.sampled_from(NORMALIZERS)) if kind != "byte level" or draw(st.booleans()) else None,
        "pre_tokenizer": draw(st.sampled_from(BYTE_SPLITTERS if kind == "byte level" else SPLITTERS)),
        "post_processor": draw(st.sampled_from([None, form, BYTE_LEVEL])),
        "decoder": None,
        "model": model,
    }


PARTS = [*CHARACTERS, *NAMES, *PIECES, END_OF_TEXT, "\U0010ffff0", "猫"]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)
