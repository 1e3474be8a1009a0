"""Words as nltk splits them: of real pages, and of texts made of all that its expressions look for."""

import json
import random

import pytest
from nltk.tokenize import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktSentenceTokenizer

from headrace.data_prep.filters.punkt import punkt, sentence_spans
from headrace.data_prep.filters.treebank import treebank_words
from headrace.pipeline.core.text_files import read_lines

NLTK = NLTKWordTokenizer()
PARTS = [
    *",.:;'\"`-?!()[]{}<>@#$%&*«“‘„»”’–—…/\\_+=51xÜé٣İıſK",
    *"\n\t\xa0\u3000\u2009\x1c\x85",
    *("''", "``", "--", "...", "..", "'s", "'S", "n't", "N'T", "'ll", "'re", "'VE", "'m", "'d", "'t", "'Re", "'tis"),
    *("'twas", "cannot", "gonna", "wanna", "d'ye", "more'n", "gimme", "Lemme", "word", "can", "not", "U.S.", "Dr."),
    *[" "] * 12,
    *("e\u0301", "😀"),
]  # fmt: skip


def made(chance: random.Random) -> str:
    return "".join(chance.choices(PARTS, k=chance.randint(1, 14)))


def check(text: str, spans: list[tuple[int, int]]) -> None:
    for begin, end in spans:
        assert treebank_words(text, [(begin, end)]) == NLTK.tokenize(text[begin:end]), repr(text[begin:end])


@pytest.mark.parametrize("texts", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_made_texts(texts: int) -> None:
    chance = random.Random(texts)
    for text in (made(chance).rstrip() for _ in range(texts)):
        check(text, [(0, len(text))] if text else [])


def test_made_pages() -> None:
    chance = random.Random(1)
    for _ in range(20):
        text = "  ".join(made(chance) for _ in range(20))
        spans = sentence_spans(text)
        assert treebank_words(text, spans) == [word for begin, end in spans for word in NLTK.tokenize(text[begin:end])]
    assert treebank_words("", []) == []


@pytest.mark.slow
def test_real_pages(data_folder) -> None:
    """Also the sentences, by nltk without our short cut."""
    reference = PunktSentenceTokenizer()
    reference._params = punkt()._params
    for line in read_lines(data_folder("text/english_documents.jsonl.zst")):
        text = json.loads(line)["text"][:200_000]
        spans = sentence_spans(text)
        assert spans == [*reference.span_tokenize(text)]
        expected = [word for begin, end in spans for word in NLTK.tokenize(text[begin:end])]
        assert treebank_words(text, spans) == expected
