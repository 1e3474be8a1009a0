"""The tokenizer of a folder is that of its tokenizer.json, whatever class its configuration names."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.inference.transformers_model import FolderTokenizer, _frame, opened_tokenizer
from tests.data_prep.tokenization.given_tokenizers import (
    BYTES,
    KINDS,
    MERGES,
    TEXTS,
    bpe,
    given_tokenizers,
    numbered,
)

END = "<|endoftext|>"
MODEL = bpe(numbered([*BYTES, *map("".join, MERGES), "12"]), [*MERGES, ("1", "2")])
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
DIGITS = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, LEVEL]}
TEXT = "the 12 ab <tool_call>the"


def folder_of(folder: Path, pre_tokenizer: dict[str, Any], **config: Any) -> Path:
    added = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    first = len(MODEL["vocab"])
    tokens = [{"id": first, "content": END, **added, "special": True}]
    tokens += [{"id": first + 1, "content": "<tool_call>", **added, "special": False}]
    absent = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor"))
    parts = {"version": "1.0", **absent, "pre_tokenizer": pre_tokenizer, "decoder": LEVEL}
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(parts | {"added_tokens": tokens, "model": MODEL}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END} | config))
    return folder


CLASSES = ("PreTrainedTokenizerFast", "GPT2Tokenizer", "GPT2TokenizerFast", "Qwen2Tokenizer", "LlamaTokenizerFast")


@pytest.mark.parametrize("splitting", [LEVEL, DIGITS], ids=["gpt2", "digits"])
@pytest.mark.parametrize("name", CLASSES)
def test_ids_are_those_of_the_file(name, splitting, tmp_path):
    folder = folder_of(tmp_path, splitting, tokenizer_class=name)
    expected = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT, add_special_tokens=False).ids
    found = opened_tokenizer(folder)
    assert found(TEXT, add_special_tokens=False).input_ids == expected
    assert found.eos_token_id == len(MODEL["vocab"])


def test_a_class_that_splits_otherwise_is_reported(tmp_path, capsys):
    folder = folder_of(tmp_path, DIGITS, tokenizer_class="GPT2Tokenizer")
    opened_tokenizer(folder)
    line = f"{folder}: tokenizer.json is used as it is; GPT2Tokenizer would give other ids, to 'a 1234', say\n"
    assert line in capsys.readouterr().err
    opened_tokenizer(folder_of(tmp_path, LEVEL, tokenizer_class="GPT2Tokenizer"))
    assert "tokenizer.json" not in capsys.readouterr().err


@pytest.mark.parametrize("model_type", ["headrace", "gpt2"])
def test_our_own_format_brings_no_warning_of_transformers(tmp_path, caplog, monkeypatch, model_type):
    """The tokenizer has the ids of the file, without the warning that no class of transformers has this model type."""
    folder = folder_of(tmp_path, DIGITS, tokenizer_class="PreTrainedTokenizerFast")
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    with caplog.at_level(logging.WARNING, "transformers"):
        found = opened_tokenizer(folder)
    expected = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT, add_special_tokens=False).ids
    assert found(TEXT, add_special_tokens=False).input_ids == expected
    assert "instantiate a model of type" not in caplog.text


def test_a_prefix_space_that_the_folder_asks_for_is_kept(tmp_path):
    found = opened_tokenizer(folder_of(tmp_path, LEVEL, tokenizer_class="GPT2Tokenizer", add_prefix_space=True))
    assert found("the", add_special_tokens=False).input_ids == [MODEL["vocab"]["Ġthe"]]


def test_another_id_than_in_the_file_is_refused(tmp_path, monkeypatch):
    folder = folder_of(tmp_path, LEVEL, tokenizer_class="PreTrainedTokenizerFast")
    honest = Tokenizer.get_vocab

    class Other:
        def __init__(self, tokenizer: Tokenizer) -> None:
            self.tokenizer = tokenizer

        def get_vocab(self, with_added_tokens: bool) -> dict[str, int]:
            return honest(self.tokenizer, with_added_tokens) | {"<tool_call>": 7}

    found = opened_tokenizer(folder)
    monkeypatch.setattr(type(found), "backend_tokenizer", property(lambda self: Other(self._tokenizer)))
    with pytest.raises(ArtifactError) as error:
        opened_tokenizer(folder)
    number = len(MODEL["vocab"]) + 1
    assert str(error.value) == (
        f"{folder / 'tokenizer.json'}: gives '<tool_call>' the id 7 in transformers, and {number} in its file; "
        'set "tokenizer_class" to "PreTrainedTokenizerFast" in tokenizer_config.json'
    )


NAMED = (None, *CLASSES, "BertTokenizer", "T5Tokenizer")
REFUSALS = ("have one text after its normalizer", "has no text after its normalizer", "cannot encode ")


def opened_or_refused(folder: Path) -> PreTrainedTokenizerBase | str:
    try:
        return opened_tokenizer(folder)
    except ArtifactError as error:
        return str(error)


def check(description: dict[str, Any], name: str | None, texts: list[str], folder: Path) -> None:
    library = Tokenizer.from_str(json.dumps(description))
    library.no_truncation()
    library.no_padding()
    (folder / "tokenizer.json").write_text(json.dumps(description))
    config = {"eos_token": END} | ({} if name is None else {"tokenizer_class": name})
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    opened = opened_or_refused(folder)
    if isinstance(opened, str):
        assert any(refusal in opened for refusal in REFUSALS), opened
        return
    tokenizer = FolderTokenizer(opened, (), opened.eos_token_id)
    for text in texts:
        try:
            expected = library.encode(text, add_special_tokens=False).ids
        except BaseException:  # noqa: BLE001  # of the library: it takes a place within a character for the end of a word
            with pytest.raises(ArtifactError, match="the tokenizers library cannot encode a text with it "):
                tokenizer.encode([text])
        else:
            assert tokenizer.encode([text])[0].tolist() == expected
    before, after = _frame(opened)
    whole = opened("a").input_ids
    assert whole == [*before, *tokenizer.encode(["a"])[0], *after]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_ids_are_those_of_the_file_for_every_tokenizer_and_class(kind, tmp_path, data):
    check(data.draw(given_tokenizers(kind)), data.draw(st.sampled_from(NAMED)), data.draw(st.lists(TEXTS)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_ids_are_those_of_the_file_for_more_tokenizers(kind, tmp_path, data):
    check(data.draw(given_tokenizers(kind)), data.draw(st.sampled_from(NAMED)), data.draw(st.lists(TEXTS)), tmp_path)


def test_a_class_that_cannot_take_the_vocabulary_is_not_used(tmp_path, capsys):
    folder = folder_of(tmp_path, LEVEL, tokenizer_class="T5Tokenizer")
    expected = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT, add_special_tokens=False).ids
    assert opened_tokenizer(folder)(TEXT, add_special_tokens=False).input_ids == expected
    line = f"{folder}: tokenizer.json is used as it is; no class that its configuration names takes its vocabulary\n"
    assert line in capsys.readouterr().err


def test_random_ids_are_refused(tmp_path):
    folder = folder_of(tmp_path, LEVEL)
    description = json.loads((folder / "tokenizer.json").read_text())
    description["model"]["dropout"] = 0.5
    (folder / "tokenizer.json").write_text(json.dumps(description))
    with pytest.raises(ArtifactError, match="its model leaves out merges at random"):
        opened_tokenizer(folder)
