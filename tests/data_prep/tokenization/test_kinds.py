"""All kinds of tokenizers: the same bytes on every run, special tokens in their places, transformers opens them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
import tokenizers
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import FixedLength
from transformers import BertTokenizer, PreTrainedTokenizerFast

from headrace.data_prep.tokenization.encode import Encoder, parse
from headrace.data_prep.tokenization.made_tokenizers import Bpe, Bytes, Characters, Sampled, WordPiece, Words
from headrace.data_prep.tokenization.shards import TokenShards
from headrace.data_prep.tokenization.special_tokens import PRESETS, roles, sentinels, spelling, unknown_of
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import settings
from tests.data_prep.tokenization.kinds import KINDS, digests, trained
from tests.data_prep.tokenization.test_encode import SPECIAL
from tests.unique_documents import unique_documents

ROOT = Path(__file__).parents[3]
LOSSLESS = {"train", "byte", "bpe"}


def opened(name: str, data_folder) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(trained(name, data_folder))


PRINT_DIGESTS = """
import json, sys
from pathlib import Path
from tests.data_prep.tokenization.kinds import digests
print(json.dumps(digests(lambda name: Path(sys.argv[1]) / name)))
"""


@pytest.mark.slow
def test_every_process_trains_the_same_bytes(data_folder):
    folder = data_folder("language").parent
    command = [sys.executable, "-c", PRINT_DIGESTS, str(folder)]
    environment = os.environ | {"PYTHONHASHSEED": "5", "RAYON_NUM_THREADS": "3"}
    environment["PYTHONPATH"] = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == digests(data_folder)


@pytest.mark.parametrize("name", KINDS)
def test_special_tokens_have_the_first_and_last_ids(name, data_folder):
    tokenizer, special = opened(name, data_folder), KINDS[name].special()
    size = tokenizer.get_vocab_size()
    assert size <= KINDS[name].vocabulary()
    places = [*range(len(special.first)), *range(size - len(special.last), size)]
    assert [tokenizer.token_to_id(token) for token in (*special.first, *special.last)] == places
    assert sorted(tokenizer.get_added_tokens_decoder()) == places


@pytest.mark.parametrize("name", KINDS)
def test_no_text_encodes_to_a_special_token_but_the_unknown_one(name, data_folder):
    encoder = Encoder(parse(trained(name, data_folder), name))
    special = {*opened(name, data_folder).get_added_tokens_decoder()} - {encoder.unknown}
    texts = [SPECIAL, *(f"{first}{last}" for first in ("", "a", " ") for last in (*sentinels(3), "<pad>", "[MASK]"))]
    assert not any(special & {*ids.tolist()} for ids in encoder.encode(texts))
    assert encoder.encode([""])[0].tolist() == []


@pytest.mark.parametrize("name", KINDS)
def test_decoding_restores_what_the_kind_keeps(name, data_folder):
    encoder = Encoder(parse(trained(name, data_folder), name))
    text = "the people, of the world"
    (ids,) = encoder.encode([text])
    known = encoder.unknown not in ids
    assert not known or encoder.decode(ids).replace(" ", "") == text.replace(" ", "")
    if name in LOSSLESS:
        text = f"naïve 水車\n\t {SPECIAL} \x00"
        assert encoder.decode(encoder.encode([text])[0]) == text


@pytest.mark.parametrize("name", KINDS)
def test_transformers_opens_it_with_its_special_tokens(name, data_folder, tmp_path):
    tokenizer, special = opened(name, data_folder), KINDS[name].special()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    found = roles([*special.first, *special.last])
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"), **found)
    assert {role: getattr(theirs, role) for role in found} == found
    encoder = Encoder(parse(tokenizer.to_str(), name))
    inner = encoder.encode(["a mill"])[0].tolist()
    parts = (special.single or "$A").split()
    expected = [number for part in parts for number in (inner if part == "$A" else [tokenizer.token_to_id(part)])]
    assert theirs("a mill").input_ids == expected


def test_words_are_the_most_frequent_ones():
    kind = Words(vocabulary_size=5, lower_case=True)
    tokenizer = tokenizers.Tokenizer.from_str(kind.train(["the mill. The river, the mill", "once"]))
    assert sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id) == ["<|endoftext|>", "[UNK]", "the", "mill"]
    encoder = Encoder(parse(tokenizer.to_str(), "x"))
    assert encoder.encode(["The wheel of the Mill"])[0].tolist() == [2, 1, 1, 2, 3]
    assert encoder.decode([2, 3]) == "the mill"


def test_characters_are_the_most_frequent_ones():
    encoder = Encoder(parse(Characters(vocabulary_size=5).train(["banana n", "b"]), "x"))
    assert encoder.encode(["ban x"])[0].tolist() == [3, 2, 4, 1, 1]
    assert encoder.decode([3, 2, 4, 2]) == "bana"


def test_bytes_with_the_special_tokens_of_t5_are_byt5s():
    encoder = Encoder(parse(Bytes(special_tokens="t5").make(), "x"))
    assert encoder.encode(["hé\n"])[0].tolist() == [byte + 3 for byte in "hé\n".encode()]
    assert (encoder.vocabulary_size, encoder.end_of_text, encoder.slow_because) == (359, 1, None)


def test_bpe_without_bytes_has_unknown_characters():
    kind = Bpe(vocabulary_size=60, alphabet_size=20, byte_fallback=False)
    encoder = Encoder(parse(kind.train(["low lower lowest low low newer newest"]), "x"))
    assert encoder.encode(["low"])[0].tolist() == [encoder._tokenizer.token_to_id("▁low")]
    assert encoder.encode(["lowé"])[0].tolist()[-1] == encoder.unknown
    assert encoder.decode(encoder.encode(["  new low "])[0]) == "  new low "


def test_wordpiece_matches_the_longest_part_as_bert_does(data_folder, tmp_path):
    tokenizer = opened("wordpiece", data_folder)
    lines = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    theirs = BertTokenizer(vocab=str(tmp_path / "vocab.txt"), do_lower_case=True)
    texts = ["The People's unbelievable Straße, naïve 水車!", "Ångström 1906", "a" * 101]
    ours = [tokenizer.encode(text).ids for text in texts]
    assert ours == [theirs(text).input_ids for text in texts]
    assert ours[2] == [tokenizer.token_to_id(token) for token in ("[CLS]", "[UNK]", "[SEP]")]


def test_a_vocabulary_below_its_fixed_tokens_is_refused():
    with pytest.raises(ConfigError) as error:
        WordPiece(vocabulary_size=1024, special_tokens="bert")
    assert str(error.value) == (
        "tokenizer.vocabulary_size: 1,024 tokens cannot hold what every such vocabulary holds "
        "(5 special tokens, 2,000 for tokenizer.alphabet_size = 1,000); give at least 2,005, or fewer of these"
    )
    kind = Bpe(vocabulary_size=1300, alphabet_size=1000)
    with pytest.raises(ConfigError, match="102 special tokens, 1,000 for"):
        kind.lacks(sentinels())


def test_tokens_that_an_objective_needs_are_added_once():
    bert = PRESETS["bert"].including(("<mask>", "[CLS]", "<extra_id_0>", "<extra_id_0>"))
    assert bert.first == (*PRESETS["bert"].first, "<extra_id_0>")
    assert PRESETS["gpt"].including(("[MASK]",)).first == ("<|endoftext|>", "[MASK]")
    assert spelling("[MASK]", {"<mask>"}) == "<mask>"
    assert spelling("[MASK]", {"[MASK]", "<mask>"}) == "[MASK]"
    assert spelling("[MASK]", {"a"}) is None


def test_roles_of_the_special_tokens_of_each_family():
    assert roles(PRESETS["gpt"].first) == {}
    assert roles(PRESETS["bert"].first) == {
        "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]",
    }  # fmt: skip
    assert roles([*PRESETS["roberta"].first, "<mask>"]) == {
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>",
        "cls_token": "<s>", "sep_token": "</s>",
    }  # fmt: skip
    assert roles(PRESETS["t5"].first) == {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


@settings
class Halves(Sampled):
    """A throw-away kind: pairs of characters."""

    type: Literal["halves"] = "halves"

    def learn(self, texts, first, size) -> tokenizers.Tokenizer:
        pairs = sorted({text[start : start + 2] for text in texts for start in range(0, len(text), 2)})
        vocabulary = {token: number for number, token in enumerate([*first, *pairs][:size])}
        tokenizer = tokenizers.Tokenizer(WordLevel(vocabulary, unknown_of(first)))
        tokenizer.pre_tokenizer = FixedLength(2)
        return tokenizer


def test_a_kind_of_ones_own_goes_through_the_stages(tmp_path, run_stage):
    texts = [["abab水", "cd"], ["xy abcd"]]
    inputs = {"unique": unique_documents(tmp_path / "unique", texts)}
    stage = Tokenizer(settings=Halves(vocabulary_size=6), special_tokens=("[MASK]",))
    inputs["tokenizer"] = run_stage(stage, inputs, tmp_path / "tokenizer")
    shards = TokenShards(run_stage(Tokens(), inputs, tmp_path / "tokens"))
    assert shards.slice(0, 0, 7).tolist() == [0, 4, 4, 1, 0, 1, 0]
    assert shards.token_bytes(0, 0, 7).tolist() == [0, 2, 2, 3, 0, 2, 0]
