"""Tags of words: the first token of each word in every kind of tokenizer, scores, and what is refused."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.experiments.measures import _of_finetuning
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.session import Material
from headrace.train.finetune.tasks.sequences import Form
from headrace_courses.token_classification import ABSENT, word_tokens
from tests.train.finetune.small_tasks import ENCODER, SPECIAL, stage, tagged, tokenizer_artifact, words_tokenizer

WORDS = ("Jim", "Henson", "was", "a", "puppeteer", "in", "U.S.", "—", "Zürich", "猫", "don't", "10 000", "Henson")
CORPUS = [" ".join(WORDS), "puppets and puppeteers in Zürich", "Jim Jim was here", "Henson 10 000 puppeteer"] * 3


def tokenizer(kind: str) -> Tokenizer:
    """A tokenizer of a kind, trained on the words."""
    special = [*SPECIAL, "<|endoftext|>"]
    if kind == "byte":
        made = Tokenizer(models.BPE(vocab={byte: number for number, byte in enumerate(bytes_of_gpt2())}, merges=[]))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        made.add_special_tokens(special)
        return made
    trainer: Any = {
        "wordpiece": trainers.WordPieceTrainer(vocab_size=90, special_tokens=special),
        "byte_bpe": trainers.BpeTrainer(
            vocab_size=300, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        ),
        "crossing": trainers.BpeTrainer(vocab_size=90, special_tokens=special),
        "unigram": trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="[UNK]"),
        "words": trainers.WordLevelTrainer(special_tokens=special),
    }[kind]
    model: Any = {
        "wordpiece": models.WordPiece(unk_token="[UNK]"),
        "byte_bpe": models.BPE(),
        "crossing": models.BPE(unk_token="[UNK]"),
        "unigram": models.Unigram(),
        "words": models.WordLevel(unk_token="[UNK]"),
    }[kind]
    made = Tokenizer(model)
    if kind == "wordpiece":
        made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    elif kind == "byte_bpe":
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    elif kind == "unigram":
        made.pre_tokenizer = pre_tokenizers.Metaspace()
    elif kind == "words":
        made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(CORPUS, trainer)
    return made


def bytes_of_gpt2() -> list[str]:
    return sorted(pre_tokenizers.ByteLevel.alphabet())


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "byte", "crossing", "unigram", "words"])
def test_the_first_token_of_each_word(kind: str, tmp_path: Path) -> None:
    """It has the first characters of its word, and of no other word, and the tokens are those of the text."""
    made = tokenizer(kind)
    made.save(str(tmp_path / "tokenizer.json"))
    encoder = Encoder.load(tmp_path / "tokenizer.json")
    chance = random.Random(0)
    for _ in range(30):
        words = chance.sample(WORDS, chance.randrange(1, len(WORDS)))
        ids, firsts = word_tokens(encoder, words)
        assert firsts == sorted(set(firsts)), "each word has a token of its own, in order"
        assert ABSENT not in firsts
        if kind == "crossing":
            continue
        (whole,) = encoder.encode([" ".join(words)])
        assert ids.tolist() == whole.tolist()
        _, offsets = encoder.encode_with_offsets(" ".join(words))
        for number, first in enumerate(firsts):
            begin = len(" ".join(words[:number])) + (number > 0)
            start, end = offsets[first]
            assert start <= begin < end <= begin + len(words[number])
            assert not set(" ".join(words)[start:begin].strip())


def test_a_tokenizer_with_tokens_across_words_reads_words_one_by_one(tmp_path: Path) -> None:
    tokenizer("crossing").save(str(tmp_path / "tokenizer.json"))
    encoder = Encoder.load(tmp_path / "tokenizer.json")
    words = ["Jim", "Henson", "was", "a", "puppeteer"]
    _, offsets = encoder.encode_with_offsets(" ".join(words))
    assert any(" " in " ".join(words)[start:end].strip() for start, end in offsets), "a token crosses words"
    ids, firsts = word_tokens(encoder, words)
    assert "".join(encoder.backend.id_to_token(number) for number in ids) == " ".join(words)
    assert len(set(firsts)) == len(words)


def test_transformers_begins_words_with_the_same_tokens(tmp_path: Path) -> None:
    """Its fast tokenizers number the words of a list; the first token of a word is the one that they label."""
    made = tokenizer("wordpiece")
    made.save(str(tmp_path / "tokenizer.json"))
    encoder = Encoder.load(tmp_path / "tokenizer.json")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=made)
    words = [word for word in WORDS if " " not in word]
    encoding = theirs(words, is_split_into_words=True, add_special_tokens=False)
    ids, firsts = word_tokens(encoder, words)
    assert ids.tolist() == encoding["input_ids"]
    assert firsts == [encoding.word_ids().index(number) for number in range(len(words))]


def test_words_without_characters_or_beyond_the_row_are_predicted_outside(tmp_path: Path) -> None:
    made = words_tokenizer()
    made.save(str(tmp_path / "tokenizer.json"))
    encoder = Encoder.load(tmp_path / "tokenizer.json")
    tuned = stage(ENCODER, tagged(tmp_path), {"type": "token_classification", "format": {"type": "conll"}})
    task = tuned.finetune.task
    words = ("good", "", "a", "b", "bad", "c", "d", "e", "f", "g")
    tags = ("B-GOOD", "O", "I-GOOD", "O", "B-BAD", "O", "O", "O", "O", "B-NEW")
    example = Example(id="1", texts={"words": " ".join(words)}, words=words, tags=tags)
    fitted = task.fitted(task.read([str(tmp_path / "train.txt")])[0], Form(encoder, ENCODER, 8))
    (row,) = fitted.rows([example], is_training=False)
    assert row.facts["places"].tolist() == [1, -1, 2, 3, 4, 5, 6, -1, -1, -1]
    assert (row.unread_words, row.cut_tokens) == (4, 3)
    assert [fitted.classes[label] for label in row.targets["labels"].tolist() if label >= 0] == [
        tag for word, tag in zip(words[:7], tags, strict=False) if word
    ]
    logits = torch.eye(len(fitted.classes))[[fitted.classes.index("I-BAD")] * 8].numpy()
    (prediction,) = fitted.predictions([example], [row], [logits])
    assert prediction["prediction"] == ["I-BAD", "O", *["I-BAD"] * 5, "O", "O", "O"]
    assert fitted.scores([example], [prediction])["accuracy"] == 3 / 10


@pytest.mark.slow
def test_a_small_encoder_learns_tags_and_transformers_reads_them(run_stage, tmp_path: Path) -> None:
    files = tagged(tmp_path)
    test = tmp_path / "test.txt"
    test.write_text("a\ngood\nb\n\ndull\nfine\na\n")
    task = {"type": "token_classification", "format": {"type": "conll"}}
    tuned = stage(ENCODER, {**files, "test": str(test)}, task, epochs=30, evaluate_every=30)
    artifact = run_stage(tuned, {"tokenizer": tokenizer_artifact(tmp_path / "tokenizer")}, tmp_path / "tuned")
    scores = read_json(artifact.path("scores.json"))
    assert (scores["task"], scores["metric"], list(scores["scores"])) == (
        "token_classification", "f1", ["accuracy", "f1", "precision", "recall"],
    )  # fmt: skip
    assert scores["scores"]["f1"]["mean"] > 0.95
    assert "unread_words" not in scores
    lines = artifact.path("seed_1/test_predictions.jsonl").read_text().splitlines()
    assert [json.loads(line)["prediction"] for line in lines] == [
        ["O", "B-GOOD", "I-GOOD"],
        ["B-BAD", "B-GOOD", "I-GOOD"],
    ]
    predictions = [json.loads(line) for line in artifact.path("seed_1/predictions.jsonl").read_text().splitlines()]
    model = transformers.AutoModelForTokenClassification.from_pretrained(artifact.folder / "hf").eval()
    assert type(model).__name__ == "BertForTokenClassification"
    assert set(model.config.id2label.values()) == {"O", "B-GOOD", "I-GOOD", "B-BAD", "I-BAD"}
    material = Material.read(tuned, tmp_path / "tokenizer/tokenizer.json", None)
    for row, prediction in zip(material.validation_rows, predictions, strict=True):
        with torch.no_grad():
            logits = model(torch.from_numpy(row.sequences[0].tokens)[None]).logits[0]
        theirs = [model.config.id2label[int(logits[place].argmax())] for place in row.facts["places"]]
        assert theirs == prediction["prediction"]
    measured = _of_finetuning("accuracy", artifact)
    assert measured is not None
    assert measured.value == scores["scores"]["accuracy"]["mean"]
    assert 0.2 < (measured.chance or 0) < 0.6
    assert sum(size for _, size in measured.items.values()) == sum(len(line["label"]) for line in predictions)


def test_files_of_other_columns_are_refused(tmp_path: Path) -> None:
    files = tagged(tmp_path, 32, 16)
    task = {"type": "token_classification", "format": {"type": "conll", "label": 1}}
    with pytest.raises(ConfigError, match="all words of 32 examples have the tag 'x'"):
        stage(ENCODER, files, task).check_start()
    validation = tmp_path / "validation.txt"
    validation.write_text(validation.read_text().replace(" B-", " C-").replace(" I-", " C-").replace(" O", " P"))
    with pytest.raises(ConfigError, match="words have tags that training lacks"):
        stage(ENCODER, files, {**task, "format": {"type": "conll"}}).check_start()
    for file in files.values():
        Path(file).write_text("text\na\nb\n" if "train" in file else "text\nc\n")
    with pytest.raises(ConfigError, match="has no tags of words"):
        stage(ENCODER, files, {**task, "format": {"type": "fields"}}).check_start()
