"""Ids as text: each place that shows what a model writes, for each kind of token, against transformers' own decoding.

A text that a model writes has no special tokens; a label of a token, and a text that was encoded, keep them.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from headrace.data_prep.tokenization.encode import Encoder
from headrace.train.evaluation.scoring import texts_written, with_form
from headrace.train.evaluation.settings import Evaluation
from headrace.train.finetune.tasks.text_to_text import WrittenTask
from headrace.train.inference.generator import Generator
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.language_model import Chat
from headrace.train.inference.queries import Generate
from headrace.train.inference.settings import Sampling
from headrace.train.inference.transformers_model import model_tokenizer
from tests.train.small_models import model_of

WORDS = ["do", "n't", "mill", ".", ",", "'s", "</s>", "<pad>", "[UNK]", "é"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
ROWS = 400
"""The rows of the model's embedding: more than a tokenizer has tokens."""
MOST = 12
EOS, PAD, BEYOND = "</s>", "<pad>", ROWS - 1

Script = list[str | int]


def words(cleans: bool) -> PreTrainedTokenizerBase:
    """Words of WordPiece, between which transformers removes spaces if ``cleans``."""
    built = Tokenizer(models.WordPiece({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    built.pre_tokenizer, built.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece(cleanup=False)
    return PreTrainedTokenizerFast(tokenizer_object=built, clean_up_tokenization_spaces=cleans, **ROLES)


def bytes_of(is_special: bool) -> PreTrainedTokenizerBase:
    """Characters that fall back to bytes, which may be marked special."""
    letters = sorted({*"domilnt.,'▁"})
    vocabulary = {token: number for number, token in enumerate(["[UNK]", "</s>", "<pad>", *BYTES, *letters])}
    built = Tokenizer(models.BPE(vocabulary, [], unk_token="[UNK]", byte_fallback=True, fuse_unk=True))
    built.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    if is_special:
        built.add_special_tokens(BYTES)
    return PreTrainedTokenizerFast(tokenizer_object=built, **ROLES)


def byte_level() -> PreTrainedTokenizerBase:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    built = Tokenizer(models.BPE({token: number for number, token in enumerate(alphabet)}, []))
    built.pre_tokenizer, built.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=built, clean_up_tokenization_spaces=True, **ROLES)


ROLES = {"eos_token": EOS, "pad_token": PAD, "unk_token": "[UNK]"}
TOKENIZERS: dict[str, Callable[[], PreTrainedTokenizerBase]] = {
    "words": lambda: words(False),
    "cleaned words": lambda: words(True),
    "byte fallback": lambda: bytes_of(False),
    "special bytes": lambda: bytes_of(True),
    "byte level": byte_level,
}
SCRIPTS: dict[str, dict[str, Script]] = {
    "words": {
        "added special": ["mill", "<x1>", "mill"],
        "added ordinary": ["mill", "<tool>", "mill"],
        "unknown": ["mill", "[UNK]", "mill"],
        "pad": ["mill", PAD, "mill"],
        "eos in the middle": ["mill", EOS, "do"],
        "nothing but special": [PAD, "<x1>", EOS],
        "beyond the vocabulary": ["mill", BEYOND, "mill"],
        "spaces before marks": ["do", "n't", "mill", ".", "mill", "'s", ",", "mill"],
    },
    "byte level": {
        "added special": ["a", "<x1>", "b"],
        "added ordinary": ["a", "<tool>", "b"],
        "unknown": ["[UNK]", "b"],
        "pad": ["a", PAD, "b"],
        "eos in the middle": ["a", EOS, "b"],
        "a character in parts": ["Ã", "©", "a"],
        "a character around a special token": ["Ã", "<x1>", "©", "a"],
        "half a character": ["a", "Ã"],
        "beyond the vocabulary": ["Ã", BEYOND, "©"],
        "spaces before marks": ["a", "Ġ", ".", "Ġ", "n", "'", "t"],
    },
    "byte fallback": {
        "added special": ["d", "<x1>", "o"],
        "added ordinary": ["d", "<tool>", "▁", "o"],
        "byte tokens": ["d", "<0xC3>", "<0xA9>", "o"],
        "half a character": ["d", "<0xC3>"],
        "eos in the middle": ["d", "<0xC3>", EOS, "<0xA9>"],
        "beyond the vocabulary": ["<0xC3>", BEYOND, "<0xA9>"],
    },
}
SCRIPTS |= {"cleaned words": SCRIPTS["words"], "special bytes": SCRIPTS["byte fallback"]}
CASES = [(name, kind) for name, scripts in SCRIPTS.items() for kind in scripts]


class Scripted:
    """A model that writes these tokens after a prompt of one token."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids

    def __call__(self, tokens_BT, positions_BT, documents_BT):
        logits_BTV = torch.zeros(*tokens_BT.shape, ROWS)
        for place in range(tokens_BT.shape[1]):
            logits_BTV[:, place, self.ids[min(place, len(self.ids) - 1)]] = 20.0
        return logits_BTV


class Opened:
    """A folder with one of TOKENIZERS, and a model that writes one of its scripts."""

    def __init__(self, name: str, script: Script, folder: Path) -> None:
        made = TOKENIZERS[name]()
        made.add_tokens([AddedToken("<x1>", special=True), AddedToken("<tool>", special=False)])
        made.save_pretrained(folder)
        self.reference = AutoTokenizer.from_pretrained(folder)
        self.folder, self.tokenizer = folder, model_tokenizer(folder, "decoder")
        self.ids = [self.reference.convert_tokens_to_ids(one) if isinstance(one, str) else one for one in script]
        self.until_end = self.ids[: [*self.ids, self.reference.eos_token_id].index(self.reference.eos_token_id) + 1]
        self.expected = self.reference.decode(self.until_end, skip_special_tokens=True)

    @property
    def model(self) -> InferenceModel:
        model = model_of(Scripted(self.ids), self.tokenizer, ROWS, 64)
        return model

    @property
    def sampling(self) -> Sampling:
        return Sampling(max_tokens=len(self.ids))


def streamed(opened: Opened) -> str:
    parts: list[str] = []
    Generator(opened.model).generate([""], opened.sampling, lambda _, part: parts.append(part))
    return "".join(parts)


def chatted(opened: Opened) -> str:
    opened.tokenizer._tokenizer.chat_template = "{{ eos_token }}"
    return Chat(Generator(opened.model), opened.tokenizer, opened.sampling, "").answer("?", lambda _: None).text


def scored(opened: Opened) -> str:
    _, model = with_form(Evaluation(), opened.model)
    ((written,), _) = texts_written([Generate("", opened.sampling)], model)
    return written.text


PLACES: dict[str, Callable[[Opened], str]] = {
    "generate": lambda opened: Generator(opened.model).generate([""], opened.sampling)[0].text,
    "beam search": lambda opened: (
        Generator(opened.model).generate([""], Sampling(max_tokens=len(opened.ids), beams=2))[0].text
    ),
    "as it comes": streamed,
    "chat": chatted,
    "benchmarks": scored,
}


@pytest.mark.parametrize(
    ("name", "kind", "place"),
    [(name, kind, place) for name, kind in CASES for place in PLACES if place == "generate" or name == "byte level"],
)
def test_what_a_model_writes_is_its_text_in_transformers(name, kind, place, tmp_path):
    opened = Opened(name, SCRIPTS[name][kind], tmp_path)
    assert PLACES[place](opened) == opened.expected


@pytest.mark.parametrize(("name", "kind"), CASES, ids=map(" ".join, CASES))
def test_labels_and_encoded_texts_keep_special_tokens(name, kind, tmp_path):
    opened = Opened(name, SCRIPTS[name][kind], tmp_path)

    def kept(ids: list[int]) -> str:
        return str(opened.reference.decode(ids, clean_up_tokenization_spaces=False))

    assert opened.tokenizer.decode(opened.ids) == kept(opened.ids)


@pytest.mark.parametrize(
    ("script", "stops", "expected"),
    [
        (["mill", "<x1>", "do"], ("<x1>",), "mill"),
        (["mill", "<x1>", "do", "mill"], ("<x1> do",), "mill do"),
        (["mill", "<tool>", "do"], ("<tool>",), "mill "),
        (["mill", ".", "do", "."], ("do .", ". do"), "mill "),
        (["mill", ".", "do", "."], (". do", "do ."), "mill "),
        (["mill", PAD, ".", "do"], ("mill .",), ""),
        (["mill", "do"], ("", "do"), "mill "),
        (["do", EOS, "mill"], (EOS,), "do"),
    ],
)
def test_stops_end_a_text_as_in_the_harness(script, stops, expected, tmp_path):
    opened = Opened("words", script, tmp_path)
    (written,) = Generator(opened.model).generate([""], Sampling(max_tokens=len(script), stops=stops))
    assert written.text == expected


def test_a_spelled_end_of_text_ends_the_answer_of_a_benchmark_alone(tmp_path):
    opened = Opened("byte level", [*"a</s>b"], tmp_path)
    assert (scored(opened), streamed(opened)) == ("a", "a</s>b")


@pytest.mark.parametrize("kind", ["added special", "added ordinary", "pad", "eos in the middle"])
def test_answers_of_fine_tuning_have_no_special_tokens(kind, tmp_path):
    opened = Opened("byte level", SCRIPTS["byte level"][kind], tmp_path)

    class Form:
        encoder = Encoder.load(tmp_path / "tokenizer.json")

    task = object.__new__(WrittenTask)
    object.__setattr__(task, "form", Form())
    assert task.text(np.array(opened.ids)) == opened.expected.strip()
