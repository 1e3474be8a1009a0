"""The stage tokenizer: training is deterministic, and given files are used unchanged."""

import functools
import itertools
import json
import os
import subprocess
import sys
from collections import Counter

import pytest
import regex
import tokenizers

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.given_tokenizer import GivenFile
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT
from headrace.data_prep.tokenization.text_sample import shards_to_read, text_sample
from headrace.data_prep.tokenizer import Tokenizer, TokenizerSettings
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from tests.data_prep.tokenization.given_tokenizers import gpt2_file
from tests.unique_documents import json_texts, unique_documents

TEXTS = [["the cat sat on the mat. " * 3, "a dog ran. " * 4], ["the dog sat on the cat. " * 3], []]


def test_training_learns_the_frequent_pairs(tmp_path, run_stage):
    stage = Tokenizer(settings=Trained(vocabulary_size=270))
    out = run_stage(stage, {"unique": unique_documents(tmp_path / "unique", TEXTS)}, tmp_path / "out")
    tokenizer = tokenizers.Tokenizer.from_file(str(out.path("tokenizer.json")))
    assert tokenizer.token_to_id(END_OF_TEXT) == 0
    assert out.counts["vocabulary"] == tokenizer.get_vocab_size() == 270
    assert out.counts["sample_documents"] == 3
    assert out.counts["sample_bytes"] == sum(len(text) for shard in TEXTS for text in shard)
    assert "Ġthe" in tokenizer.get_vocab()
    assert tokenizer.decode(tokenizer.encode("naïve 猫\n\t🐈").ids) == "naïve 猫\n\t🐈"


def test_special_tokens_of_the_objective_come_after_end_of_text(tmp_path, run_stage):
    stage = Tokenizer(settings=Trained(vocabulary_size=270), special_tokens=("[CLS]", "[MASK]"))
    out = run_stage(stage, {"unique": unique_documents(tmp_path / "unique", TEXTS)}, tmp_path / "out")
    tokenizer = tokenizers.Tokenizer.from_file(str(out.path("tokenizer.json")))
    assert [tokenizer.id_to_token(number) for number in range(3)] == [END_OF_TEXT, "[CLS]", "[MASK]"]
    assert out.counts["vocabulary"] == 270
    assert not {0, 1, 2} & {*Encoder.load(out.path("tokenizer.json")).encode(["a [MASK] in [CLS] text"])[0]}


def test_a_given_file_without_a_special_token_of_the_objective_is_refused(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(Trained(vocabulary_size=260).train(["a"], ("[CLS]",)), encoding="utf-8")
    settings = GivenFile(path=str(path))
    assert Tokenizer(settings=settings, special_tokens=("[CLS]",)).raw_files()
    with pytest.raises(ConfigError) as error:
        Tokenizer(settings=settings, special_tokens=("[CLS]", "[MASK]")).raw_files()
    assert str(error.value) == (
        "tokenizer: tokenizer=file has no token '[MASK]', which the objective needs; "
        "give one that has it, tokenizer=train, or another objective"
    )


@pytest.mark.parametrize("texts", [[["xy"]], [[], []]])
def test_where_nothing_repeats_the_bytes_are_left(texts, tmp_path, run_stage):
    out = run_stage(
        Tokenizer(settings=Trained()), {"unique": unique_documents(tmp_path / "u", texts)}, tmp_path / "out"
    )
    assert out.counts["vocabulary"] == 257


def test_the_sample_does_not_depend_on_sharding_and_stops_at_its_bytes(tmp_path):
    texts = [f"{i:04d}" * 25 for i in range(200)]
    ids = [f"page:{i}" for i in range(200)]
    one = unique_documents(tmp_path / "one", [texts], [ids])
    many = unique_documents(
        tmp_path / "many", [texts[150:], texts[:90], texts[90:150]], [ids[150:], ids[:90], ids[90:150]]
    )
    samples = []
    for unique in (one, many):
        counts: Counter[str] = Counter()
        samples.append(sorted(text_sample(unique.shards("documents"), 4_950, counts)))
        assert counts == {"sample_documents": 50, "sample_bytes": 5_000}
    assert samples[0] == samples[1]
    assert samples[0] != sorted(texts)[:50]


def test_only_so_many_shards_are_read_as_the_sample_needs(tmp_path):
    unique = unique_documents(tmp_path / "u", [[os.urandom(2_000).hex()] for _ in range(20)])
    chosen = shards_to_read(unique.shards("documents"), 2_000)
    assert 3 <= len(chosen) <= 5
    assert len(shards_to_read(unique.shards("documents"), Trained().sample_bytes)) == 20


TRAIN = """
import sys
from pathlib import Path
from collections import Counter
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.pipeline.core.artifact import Artifact
sys.stdout.write(Trained(vocabulary_size=2000).build(Artifact(Path(sys.argv[1])), Counter()))
"""


@pytest.fixture(scope="module")
def sentences(data_folder):
    """74,141 sentences in 75 languages."""
    return json_texts(data_folder("language/sentences_75_languages.jsonl.zst"), 74_141)


@pytest.mark.slow
def test_the_bytes_are_the_same_for_any_threads_and_shards(tmp_path, monkeypatch, sentences):
    """A process reads the number of threads once, so each number has its own process."""
    texts = sentences[::30]
    ids = [str(i) for i in range(len(texts))]
    unique_documents(tmp_path / "a", [texts], [ids])
    unique_documents(tmp_path / "b", [texts[1000:], texts[:1000]], [ids[1000:], ids[:1000]])
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    expected = Trained(vocabulary_size=2000).build(Artifact(tmp_path / "b"), Counter())
    monkeypatch.delenv("TOKENIZERS_PARALLELISM")
    assert len(expected) > 30_000
    for threads in ("1", "4"):
        command = [sys.executable, "-c", TRAIN, str(tmp_path / "a")]
        environment = os.environ | {"RAYON_NUM_THREADS": threads}
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        assert done.stdout == expected.encode()


@pytest.mark.slow
def test_gpt2s_files_give_gpt2s_ids(tmp_path, run_stage, data_folder, sentences):
    """As transformers saves them."""
    settings = GivenFile(path=gpt2_file(data_folder("tokenizer"), tmp_path / "gpt2"))
    out = run_stage(Tokenizer(settings=settings), {"unique": unique_documents(tmp_path / "u", [[]])}, tmp_path / "out")
    encoder = Encoder.load(out.path("tokenizer.json"))
    assert out.counts == {"vocabulary": 50_257}
    assert encoder.end_of_text == 50_256
    assert encoder.encode(["Hello world"])[0].tolist() == [15496, 995]
    texts = sentences[::100] + json_texts(data_folder("web/dclm_keep_drop_labels.jsonl.zst"), 40)
    ours = [ids.tolist() for ids in encoder.encode(texts)]
    folder = data_folder("tokenizer")
    vocabulary = json.loads((folder / "gpt2_encoder.json").read_text(encoding="utf-8"))
    merges = (folder / "gpt2_vocab.bpe").read_text(encoding="utf-8").splitlines()[1:]
    ranks = {tuple(merge.split()): rank for rank, merge in enumerate(merges)}
    tokens = functools.cache(lambda word: slow_bpe(word, ranks))
    assert ours == [[vocabulary[token] for word in WORD.findall(text) for token in tokens(word)] for text in texts]


WORD = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
VISIBLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
CHARACTER = {byte: chr(byte) for byte in VISIBLE} | {
    byte: chr(256 + n) for n, byte in enumerate(b for b in range(256) if b not in VISIBLE)
}


def slow_bpe(word: str, ranks: dict[tuple[str, str], int]) -> list[str]:
    """Byte-pair encoding by its definition: merges the pair of lowest rank everywhere in a word until none is left."""
    parts = [CHARACTER[byte] for byte in word.encode()]
    while pairs := [pair for pair in itertools.pairwise(parts) if pair in ranks]:
        best = min(pairs, key=ranks.__getitem__)
        merged: list[str] = []
        while parts:
            step = 2 if tuple(parts[:2]) == best else 1
            merged.append("".join(parts[:step]))
            parts = parts[step:]
        parts = merged
    return parts


def test_a_given_file_is_not_changed(tmp_path, run_stage):
    unique = unique_documents(tmp_path / "unique", TEXTS)
    text = json.dumps(json.loads(Trained(vocabulary_size=260).build(unique, Counter())), indent=3)
    (tmp_path / "mine.json").write_text(text, encoding="utf-8")
    given = Tokenizer(settings=GivenFile(path=str(tmp_path / "mine.json")))
    out = run_stage(given, {"unique": unique}, tmp_path / "given")
    assert out.path("tokenizer.json").read_text(encoding="utf-8") == text
    assert out.counts == {"vocabulary": 260}


def test_a_given_file_is_stored_with_end_of_text_special(tmp_path, run_stage):
    unique = unique_documents(tmp_path / "unique", TEXTS)
    description = json.loads(Trained(vocabulary_size=260).build(unique, Counter()))
    description["added_tokens"][0]["special"] = False
    (tmp_path / "mine.json").write_text(json.dumps(description), encoding="utf-8")
    given = Tokenizer(settings=GivenFile(path=str(tmp_path / "mine.json")))
    out = run_stage(given, {"unique": unique}, tmp_path / "given")
    stored = json.loads(out.path("tokenizer.json").read_text(encoding="utf-8"))
    assert [(t["id"], t["content"], t["special"]) for t in stored["added_tokens"]] == [(0, END_OF_TEXT, True)]
    assert stored["model"] == description["model"]


def test_the_address_depends_on_the_content_of_a_given_file_not_on_its_path(tmp_path):
    text = Trained().build(unique_documents(tmp_path / "u", TEXTS), Counter())
    addresses = []
    for name, content in [("a.json", text), ("b.json", text), ("c.json", text + "\n")]:
        (tmp_path / name).write_text(content, encoding="utf-8")
        stage = Tokenizer(settings=GivenFile(path=str(tmp_path / name)))
        addresses.append(stage.address({"unique": "0"}))
    assert addresses[0] == addresses[1] != addresses[2]


def config_error(settings: TokenizerSettings) -> str:
    with pytest.raises(ConfigError) as error:
        Tokenizer(settings=settings).raw_files()
    return str(error.value)


def test_a_file_that_cannot_be_read(tmp_path):
    path = str(tmp_path / "none.json")
    wrong = f"cannot read {path!r} (No such file or directory); give the path of the file"
    assert config_error(GivenFile(path=path)) == f"tokenizer.path: {wrong}"
    (tmp_path / "latin.json").write_bytes(b"\xe9")
    path = str(tmp_path / "latin.json")
    assert config_error(GivenFile(path=path)) == (
        f"tokenizer.path: {path!r} is not UTF-8 text; give the path of the right file"
    )


def test_a_model_of_sentencepiece_is_refused_with_the_command_that_converts_it(tmp_path):
    path = tmp_path / "spiece.model"
    path.write_bytes(b"\n\x0e\n\x05<pad>\x15\x00\x00\x00\x00\x18\x03")
    with pytest.raises(ConfigError) as error:
        GivenFile(path=str(path)).raw_files()
    code = f"from transformers import AutoTokenizer as T; T.from_pretrained('{tmp_path}').save_pretrained('{tmp_path}')"
    assert str(error.value) == (
        f"tokenizer.path: '{path}' is a model of SentencePiece, not a tokenizer.json; "
        f'convert it where sentencepiece is installed, python -c "{code}", and give the tokenizer.json'
    )
