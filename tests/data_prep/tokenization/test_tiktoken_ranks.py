"""A file of tiktoken gives the ids of tiktoken's algorithm, written here by its definition."""

import base64
import itertools
import json
import random
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.tokenization.byte_level import Trained, byte_of
from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.fast_bpe import LLAMA3_EXPRESSION, probes
from headrace.data_prep.tokenization.given_tokenizer import GivenFile
from headrace.data_prep.tokenization.tiktoken_ranks import TiktokenRanks
from headrace.data_prep.tokenizer import Tokenizer
from headrace.pipeline.core.errors import ConfigError
from tests.data_prep.tokenization.kinds import sentences
from tests.unique_documents import unique_documents

CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
SINGLE = {bytes([byte]): byte for byte in range(256)}


def written(path: Path, ranks: dict[bytes, int]) -> str:
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()]
    path.write_text("".join(lines))
    return str(path)


def tiktoken(word: bytes, ranks: dict[bytes, int]) -> list[int]:
    """The ids of a word: the leftmost pair of lowest rank is merged until none has a rank."""
    if word in ranks:
        return [ranks[word]]
    parts = [bytes([byte]) for byte in word]
    while True:
        found = [(ranks.get(a + b, len(ranks)), place) for place, (a, b) in enumerate(itertools.pairwise(parts))]
        rank, place = min(found, default=(len(ranks), 0))
        if rank == len(ranks):
            return [ranks[part] for part in parts]
        parts[place : place + 2] = [parts[place] + parts[place + 1]]


def expected(text: str, expression: str, ranks: dict[bytes, int]) -> list[int]:
    words = [match.group() for match in regex.finditer(expression, text)]
    return [number for word in words for number in tiktoken(word.encode(), ranks)]


def learned(texts: list[str]) -> dict[bytes, int]:
    """Ranks as a trainer leaves them: the merges of byte-level BPE in their order, after the bytes in random order."""
    description = json.loads(Trained(vocabulary_size=1200).train(texts))
    order = [bytes([byte]) for byte in range(256)]
    random.Random(0).shuffle(order)
    made = [bytes(map(byte_of, left + right)) for left, right in description["model"]["merges"]]
    return {token: rank for rank, token in enumerate(dict.fromkeys((*order, *made)))}


@pytest.mark.parametrize("expression", [LLAMA3_EXPRESSION, CL100K, GPT2], ids=["llama3", "cl100k", "gpt2"])
def test_real_texts_have_the_ids_of_tiktoken(expression, data_folder, tmp_path, run_stage):
    texts = sentences(data_folder("language"))
    ranks = learned(texts)
    kind = TiktokenRanks(path=written(tmp_path / "x.tiktoken", ranks), expression=expression)
    stage, unique = Tokenizer(settings=kind), unique_documents(tmp_path / "unique", [["a"]])
    assert [file.name for file in stage.raw_files()] == ["ranks.tiktoken"]
    encoder = Encoder.load(run_stage(stage, {"unique": unique}, tmp_path / "tokenizer").path("tokenizer.json"))
    assert encoder.end_of_text == len(ranks) == encoder.vocabulary_size - 1
    assert encoder.slow_because is None or expression != LLAMA3_EXPRESSION
    several = [*texts[:200], *probes()[:300], "it's  IT'S\n\n x<|endoftext|>", ""]
    ids = [found.tolist() for found in encoder.encode(several)]
    assert ids == [expected(text, expression, ranks) for text in several]
    assert [encoder.decode(numbers) for numbers in ids] == several


@settings(max_examples=60)
@given(data=st.data())
def test_random_ranks_give_the_ids_of_tiktoken(data, tmp_path_factory):
    """Each token is made of two others, as in every file that was learned."""
    ranks, pieces = dict(SINGLE), [b"a", b"b", b" ", "é".encode()[:1], "é".encode()[1:]]
    for _ in range(data.draw(st.integers(0, 25))):
        token = data.draw(st.sampled_from(pieces)) + data.draw(st.sampled_from(pieces))
        if token not in ranks:
            ranks[token] = len(ranks)
            pieces.append(token)
    path = written(tmp_path_factory.mktemp("ranks") / "x.tiktoken", ranks)
    encoder = Encoder(TiktokenRanks(path=path).tokenizer())
    texts = data.draw(st.lists(st.text("ab é", max_size=30)))
    ids = [found.tolist() for found in encoder.encode(texts)]
    assert ids == [expected(text, LLAMA3_EXPRESSION, ranks) for text in texts]


def test_ranks_of_gpt2_give_its_published_merges(data_folder, tmp_path):
    folder = data_folder("tokenizer")
    numbers = json.loads((folder / "gpt2_encoder.json").read_text())
    del numbers["<|endoftext|>"]
    ranks = {bytes(map(byte_of, token)): number for token, number in numbers.items()}
    tokenizer = TiktokenRanks(path=written(tmp_path / "gpt2.tiktoken", ranks), expression=GPT2).tokenizer()
    published = (folder / "gpt2_vocab.bpe").read_text().splitlines()[1:]
    model = json.loads(tokenizer.to_str())["model"]
    assert (model["vocab"], [" ".join(merge) for merge in model["merges"]]) == (numbers, published)


def test_special_tokens_have_their_ids(tmp_path):
    path = written(tmp_path / "x.tiktoken", SINGLE)
    kind = TiktokenRanks(path=path, special_tokens=("<|endoftext|>", "<|fim|>"), first_special=258)
    added = kind.tokenizer().get_added_tokens_decoder()
    names = {256: "<|reserved_256|>", 257: "<|reserved_257|>", 258: "<|endoftext|>", 259: "<|fim|>"}
    assert {number: token.content for number, token in added.items() if token.special} == names


REMEDY = "give a file of tiktoken: on each line the base64 of a token and its rank"


@pytest.mark.parametrize(
    ("ranks", "more", "message"),
    [
        (SINGLE, "AGE", "tokenizer.path: line 257 of {path!r}, 'AGE', is no token and rank; " + REMEDY),
        (SINGLE, "a! 3", "tokenizer.path: line 257 of {path!r}, 'a! 3', is no token and rank; " + REMEDY),
        (SINGLE, "YWI= 300", "tokenizer.path: the ranks of {path!r} are not all numbers from 0 to 256; " + REMEDY),
        ({b"a": 0}, "", "tokenizer.path: {path!r} has no token for the byte 0x00; " + REMEDY),
    ],
)
def test_a_broken_file_is_named(ranks, more, message, tmp_path):
    path = written(tmp_path / "x.tiktoken", ranks)
    with Path(path).open("a") as stream:
        stream.write(more)
    with pytest.raises(ConfigError) as error:
        TiktokenRanks(path=path).raw_files()
    assert str(error.value) == message.format(path=path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"first_special": 7}, "tokenizer.first_special: is 7, and {path!r} has 256 tokens; give 256 or more"),
        ({"expression": "("}, "tokenizer.expression: '(' is no regular expression ("),
        ({"special_tokens": ("<x>",)}, "{path}: the tokenizer has no token '<|endoftext|>', which ends a document; "),
    ],
)
def test_a_setting_that_does_not_fit_is_refused(values, message, tmp_path):
    path = written(tmp_path / "x.tiktoken", SINGLE)
    with pytest.raises(ConfigError) as error:
        TiktokenRanks(path=path, **values).raw_files()
    assert str(error.value).startswith(message.format(path=path))


def test_such_a_file_is_no_tokenizer_json(tmp_path):
    path = written(tmp_path / "tokenizer.model", SINGLE)
    with pytest.raises(ConfigError) as error:
        GivenFile(path=path).raw_files()
    assert str(error.value) == (
        f"tokenizer.path: {path!r} is a file of tiktoken, not a tokenizer.json; "
        "give tokenizer=tiktoken, with its expression and special tokens"
    )
