"""Text has the same ids where a model is trained, where it is scored, and in the library, whatever tokens are special.

Byte tokens may be. Another special token that the model of a tokenizer takes for other text is refused by name.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.given_tokenizer import GivenFile
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.pipeline.core.errors import ConfigError
from headrace.train.finetune.settings import Finetune
from headrace.train.finetune.tasks.conversations import Conversations
from headrace.train.inference.transformers_model import model_tokenizer
from tests.data_prep.tokenization.given_tokenizers import BYTE_LEVEL, BYTE_TOKENS, BYTES, bpe, numbered
from tests.unique_documents import unique_documents

ABSENT = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
ORDER = ["<unk>", "</s>", *BYTE_TOKENS, *"▁abcdefilmnorsthuwy.ä"]
TEXTS = ["the old mill", "ñandú naïve", "漢字 привет", "🙂", "a\tb\nc\r\n", " ", "\x00\x7f", "ä", "<0x41> a", "<0xzz>"]


def added(content: str, number: int, **flags: bool) -> dict[str, Any]:
    names = ("single_word", "lstrip", "rstrip", "normalized")
    return {"id": number, "content": content, **dict.fromkeys(names, False), "special": True, **flags}


def described(model: dict[str, Any], *tokens: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"version": "1.0", **ABSENT, **parts, "added_tokens": list(tokens), "model": model}


def fallback(kind: str, **flags: bool) -> dict[str, Any]:
    """A tokenizer of ``kind`` that falls back to bytes, which are added tokens with ``flags``."""
    model = bpe(numbered(ORDER), [], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    if kind == "unigram":
        scores = [[piece, -float(number % 5) - 1] for number, piece in enumerate(ORDER)]
        model = {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": scores}
    marked = [added(token, ORDER.index(token), **flags) for token in BYTE_TOKENS]
    return described(model, added("</s>", 1), *marked, normalizer=SPACES)


FLAGS = [{}, {"special": False}, {"normalized": True}, {"lstrip": True}, {"rstrip": True}, {"single_word": True}]


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_training_and_scoring_have_the_ids_of_the_library(kind, flags, tmp_path, run_stage):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(fallback(kind, **flags)))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    library = tokenizers.Tokenizer.from_file(str(path))
    expected = [library.encode(text, add_special_tokens=False).ids for text in TEXTS]
    assert not any(0 in ids for ids in expected)
    assert [ids.tolist() for ids in model_tokenizer(tmp_path, "decoder").encode(TEXTS)] == expected
    assert [ids.tolist() for ids in Encoder.load(path).encode(TEXTS)] == expected

    unique = unique_documents(tmp_path / "unique", [TEXTS])
    made = run_stage(Tokenizer(settings=GivenFile(path=str(path))), {"unique": unique}, tmp_path / "made")
    stored = run_stage(Tokens(), {"unique": unique, "tokenizer": made}, tmp_path / "tokens")
    written = [number for ids in expected for number in (1, *ids)]
    assert np.fromfile(stored.shard("tokens", 0, "bin"), "<u2").tolist() == [*written, 1]
    assert not stored.counts["unknown_tokens"]


def test_addresses_change_where_ids_do(tmp_path: Path) -> None:
    revisions = []
    for flags in FLAGS[:2]:
        (tmp_path / "tokenizer.json").write_text(json.dumps(fallback("bpe", **flags)))
        files = {"train": ("a",), "validation": ("b",), "folder": str(tmp_path)}
        tuned = Finetune(task=Conversations(), dropout=0.0, **files)
        revisions.append((GivenFile(path=str(tmp_path / "tokenizer.json")).revision, tuned.revision))
    assert revisions == [(2, 2), (1, 0)]
    assert GivenFile(path="absent").revision == 1


HIDDEN = [
    ("Ġthe", described(bpe(numbered([*BYTES, "th", "the", "Ġthe"]), [("t", "h"), ("th", "e"), ("Ġ", "the")]),
                       pre_tokenizer=BYTE_LEVEL, decoder=BYTE_LEVEL)),
    ("▁the", described({"type": "Unigram", "unk_id": 0, "byte_fallback": False,
                        "vocab": [["<unk>", -9.0], ["▁the", -1.0], *([c, -5.0] for c in "▁the")]},
                       pre_tokenizer=METASPACE, decoder=METASPACE)),
    ("##s", described({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                       "max_input_chars_per_word": 100, "vocab": numbered(["[UNK]", "##s", *"as"])})),
    ("s</w>", described(bpe(numbered(["<unk>", *"as", "s</w>", "a</w>"]), [], unk_token="<unk>",
                            end_of_word_suffix="</w>"))),
]  # fmt: skip


@pytest.mark.parametrize(("token", "description"), HIDDEN, ids=[token for token, _ in HIDDEN])
def test_a_special_token_that_text_does_not_spell_is_refused(token, description, tmp_path):
    path = tmp_path / "tokenizer.json"
    number = tokenizers.Tokenizer.from_str(json.dumps(description)).token_to_id(token)
    for is_special in (False, True):
        tokens = [added("</s>", 1_000), added(token, number, special=is_special)]
        path.write_text(json.dumps(description | {"added_tokens": tokens}))
        if not is_special:
            Encoder.load(path)
    with pytest.raises(ConfigError) as error:
        GivenFile(path=str(path)).raw_files()
    assert f"{path}: its special token {token!r} is also a token of '" in str(error.value)
    assert str(error.value).endswith("""; set "special" of it to false in its added_tokens""")


@pytest.mark.parametrize("name", ["<unk>", "<UNK>", "?"])
def test_unknown_tokens_are_counted_whatever_their_name(name, tmp_path, run_stage):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(described(bpe(numbered([name, *"ab"]), [], unk_token=name), added("</s>", 9))))
    unique = unique_documents(tmp_path / "unique", [["abc", "caz"]])
    made = run_stage(Tokenizer(settings=GivenFile(path=str(path))), {"unique": unique}, tmp_path / "made")
    assert run_stage(Tokens(), {"unique": unique, "tokenizer": made}, tmp_path / "tokens").counts["unknown_tokens"] == 3
