"""Sentences: the tokens that end one, for kinds of tokenizers, and where sentences begin."""

import numpy as np
import pytest
from tokenizers import Tokenizer

from headrace.data_prep.tokenization.made_tokenizers import Bpe, Trained, WordPiece, Words
from headrace.train.objectives.base import Vocabulary
from headrace.train.objectives.causal import Causal
from headrace.train.objectives.token_texts import sentence_ends, sentence_starts
from tests.train.conftest import bytes_tokenizer

TEXT = "The mill turns. Who is it?! It stands in 3 m... Is it? So it is"
SENTENCES = ["The mill turns.", "Who is it?!", "It stands in 3 m...", "Is it?", "So it is"]


@pytest.mark.parametrize("end", [".", "...", "?!", '."', ".) ", "mill.", "…", "。", "\n", "a\nb", "!\n"])
def test_texts_that_end_a_sentence(end):
    tokenizer, others = bytes_tokenizer(), ["mill", "3.1", ".,", ", ", '"', ".a"]
    tokenizer.add_tokens([end, *others])
    ends_V = sentence_ends(tokenizer)
    assert len(ends_V) == tokenizer.get_vocab_size(with_added_tokens=True)
    assert ends_V[tokenizer.token_to_id(end)]
    assert not ends_V[[tokenizer.token_to_id(token) for token in (*others, "<|endoftext|>")]].any()


@pytest.mark.parametrize("kind", [Trained, Words, Bpe, WordPiece])
def test_sentences_of_each_kind_of_tokenizer(kind):
    sizes = {} if kind in (Trained, Words) else {"alphabet_size": 26}
    tokenizer = Tokenizer.from_str(kind(vocabulary_size=300, **sizes).train([TEXT] * 2, ("[CLS]",)))
    vocabulary = Vocabulary.of_tokenizer(Causal(), tokenizer)
    tokens = np.array(tokenizer.encode(TEXT, add_special_tokens=False).ids)
    found = np.split(tokens, sentence_starts(tokens, vocabulary.ends_sentence)[1:])
    assert [tokenizer.decode(sentence.tolist()).strip() for sentence in found] == [
        tokenizer.decode(tokenizer.encode(sentence, add_special_tokens=False).ids).strip() for sentence in SENTENCES
    ]


def test_a_sentence_begins_after_the_last_token_that_ends_one():
    ends_V = np.array([False, True, True])
    for tokens, starts in (
        ([0, 0, 1, 0, 1, 2, 0], [0, 3, 6]),
        ([1, 2, 0, 0, 2], [0, 2]),
        ([0], [0]),
        ([1, 1], [0]),
        ([], []),
    ):
        assert sentence_starts(np.array(tokens, np.int64), ends_V).tolist() == starts
