"""Perplexity of raw texts: windows, units, formulas by hand, lm-evaluation-harness's own numbers.

The in-context-learning score: the tokens that it uses, its value by hand, its refusals.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Item, Sources
from headrace.train.evaluation.benchmarks.language_modelling import (
    LanguageModelling,
    articles,
    lm_eval_wikitext,
    windows,
)
from headrace.train.evaluation.score_rows import Metric
from headrace.train.evaluation.scoring import score
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import Answer
from tests.train.small_models import WINDOW_TOKENS, Uniform, model_of, story

ROUNDING = 1e-6
"""Rounding of log-probabilities in fp32."""


@pytest.fixture
def text_file(tmp_path):
    def write(content: str | bytes, name: str = "text.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def sources(encoder, window_tokens: int = WINDOW_TOKENS) -> Sources:
    return Sources(Path(), None, "0", tokenizer=encoder, window_tokens=window_tokens)


def scored(benchmark: LanguageModelling, model, encoder, window_tokens: int = WINDOW_TOKENS) -> dict[str, Metric]:
    subject = model_of(model, encoder, window_tokens=window_tokens)
    found = score("x", benchmark, sources(encoder, window_tokens), None, subject)
    return {metric.name: metric for metric in found.scores.metrics}


@given(st.integers(1, 60), st.integers(2, 12), st.none() | st.integers(1, 15))
def test_each_token_is_predicted_once_after_as_much_as_fits(length, window, stride):
    ids = np.arange(1, length + 1)
    found = list(windows(ids, 0, window, stride))
    assert np.concatenate([query.continuation for query in found]).tolist() == ids.tolist()
    for number, query in enumerate(found):
        read = np.concatenate([query.context, query.continuation])
        assert read.tolist() == list(range(read[0], read[-1] + 1))
        assert len(read) == min(window + 1, read[-1] + 1)
        most = min(stride or window, window) if number else window
        assert len(query.continuation) == most or query is found[-1]


@pytest.mark.parametrize("stride", [1, 7, None])
def test_windows_are_those_of_the_harness(stride):
    utils = pytest.importorskip("lm_eval.utils", reason="the optional extra 'evaluation' is not installed")
    for length in (1, 9, 10, 11, 35):
        ids = list(range(1, length + 1))
        theirs = utils.get_rolling_token_windows(ids, 0, max_seq_len=10, context_len=11 - (stride or 10))
        ours = windows(np.array(ids), 0, 10, stride)
        assert [(q.context.tolist() + q.continuation[:-1].tolist(), q.continuation.tolist()) for q in ours] == [*theirs]


def test_a_uniform_model_has_the_vocabulary_s_perplexity_per_token(encoder, text_file):
    """And per word V to the power of tokens per word, log2 V bits a token."""
    path = text_file("".join(f" {story(number)} \n" for number in range(3)))
    v, text = encoder.vocabulary_size, path.read_text()
    tokens = len(encoder.encode([text])[0])
    words, characters = len(text.split()) + 3, len(text)
    names = ("word_perplexity", "token_perplexity", "byte_perplexity", "bits_per_byte", "bits_per_character")
    for stride in (None, 5):
        benchmark = LanguageModelling(paths=(str(path),), scores=names, stride_tokens=stride)
        metrics = scored(benchmark, Uniform(v), encoder)
        assert list(metrics) == list(names)
        expected = {
            "token_perplexity": v,
            "word_perplexity": v ** (tokens / words),
            "byte_perplexity": v ** (tokens / characters),
            "bits_per_byte": math.log2(v) * tokens / characters,
            "bits_per_character": math.log2(v) * tokens / characters,
        }
        for name, value in expected.items():
            assert metrics[name].value == pytest.approx(value, rel=50 * ROUNDING)
            assert metrics[name].random == pytest.approx(value)
        assert metrics["token_perplexity"].value == pytest.approx(v, rel=ROUNDING)
        assert metrics["token_perplexity"].standard_error == pytest.approx(0, abs=1e-3)


def test_formulas_by_hand():
    """Two documents: 12 nats for 10 tokens, 4 words, 20 bytes, 18 characters."""
    benchmark = LanguageModelling(
        paths=("a",),
        scores=("word_perplexity", "token_perplexity", "byte_perplexity", "bits_per_byte", "bits_per_character"),
    )
    items = [Item("1", (), sizes={"words": 3, "bytes": 12, "characters": 10}),
             Item("2", (), sizes={"words": 1, "bytes": 8, "characters": 8})]  # fmt: skip
    outcomes = [
        benchmark.outcome(items[0], [Answer(-3.0, False, 4), Answer(-5.0, False, 4)]),
        benchmark.outcome(items[1], [Answer(-4.0, False, 2)]),
    ]
    assert outcomes[0] == {"nats": 8.0, "tokens": 8, "words": 3, "bytes": 12, "characters": 10}
    metrics = {metric.name: metric for metric in benchmark.metrics(items, outcomes, 16)}
    assert {name: metric.value for name, metric in metrics.items()} == pytest.approx({
        "word_perplexity": math.exp(12 / 4),
        "token_perplexity": math.exp(12 / 10),
        "byte_perplexity": math.exp(12 / 20),
        "bits_per_byte": 12 / math.log(2) / 20,
        "bits_per_character": 12 / math.log(2) / 18,
    })  # fmt: skip
    # ratio of 3 nats a word over two documents that have 8/3 and 4: residuals -1 and 1
    error = math.sqrt(2 / 1 * (1 + 1)) / 4
    assert metrics["word_perplexity"].standard_error == pytest.approx(math.exp(3) * error)
    assert metrics["word_perplexity"].items == 2


def test_units_are_counted_in_the_file_as_it_is(encoder, text_file):
    """Words and line ends of WikiText before, bytes and characters too; windows share them by their tokens."""
    content = " = Tĩtle = \n \n It is 12 @-@ year @-@ old . \n" * 4
    path = text_file(content)
    benchmark = LanguageModelling(paths=(str(path),), detokenizer="lm_eval_wikitext")
    items = benchmark.items(sources(encoder))
    assert len(items) > 1
    assert sum(item.sizes["words"] for item in items) == pytest.approx(4 * (3 + 8 + 3))
    assert sum(item.sizes["bytes"] for item in items) == pytest.approx(len(content.encode()))
    assert sum(item.sizes["characters"] for item in items) == pytest.approx(len(content))
    text = "".join(encoder.decode(item.queries[0].continuation) for item in items)
    assert text == lm_eval_wikitext(content)
    assert [item.name for item in items[:2]] == ["text.txt:1@0", f"text.txt:1@{WINDOW_TOKENS}"]
    assert items[0].sizes["words"] / items[-1].sizes["words"] == pytest.approx(
        len(items[0].queries[0].continuation) / len(items[-1].queries[0].continuation)
    )


def test_documents(encoder, text_file):
    content = " = A = \n a\x85a \n = = B = = \n b \n = C = \n c \n\n"
    path = text_file(content)
    by_line = LanguageModelling(paths=(str(path),), documents="line", stride_tokens=3).items(sources(encoder))
    assert [item.name for item in by_line] == [f"text.txt:{number}" for number in (1, 2, 3, 4, 5, 6)]
    assert [item.sizes["words"] for item in by_line] == [4, 3, 6, 2, 4, 2]
    for item in by_line:
        assert item.queries[0].context.tolist() == [encoder.end_of_text]
    assert articles(content) == [" = A = \n a\x85a \n = = B = = \n b ", " = C = \n c \n\n"]
    assert articles("before\n = A = \nx") == ["before", " = A = \nx"]
    by_article = LanguageModelling(paths=(str(path),), documents="article").items(sources(encoder))
    assert [item.name for item in by_article] == ["text.txt:1", "text.txt:2"]
    assert len(LanguageModelling(paths=(str(path),), documents="line", limit=2).items(sources(encoder))) == 2


def test_a_part_of_a_file_ends_and_begins_at_whole_characters(encoder, text_file):
    path = text_file("aäbcdé f")  # a ä ä b c d é é _ f

    def part(start, end):
        benchmark = LanguageModelling(paths=(str(path),), from_byte=start, to_byte=end)
        (item,) = benchmark.items(sources(encoder))
        return encoder.decode(item.queries[0].continuation), item.sizes["bytes"]

    assert part(0, 2) == ("a", 1)
    assert part(2, 7) == ("bcd", 3)
    assert part(3, None) == ("bcdé f", 7)


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("", {}, ": holds no text; give a file with text, and bytes that lie in it"),
        (" \n \n", {}, ": holds no text; give a file with text, and bytes that lie in it"),
        ("abc", {"from_byte": 7}, ": holds no text; give a file with text, and bytes that lie in it"),
        (b"one\ntwo\nth\xffee", {}, ":3: is not UTF-8 (byte 0xff); convert the file to UTF-8"),
    ],
)
def test_bad_files(text_file, content, settings, message):
    path = text_file(content)
    with pytest.raises(ArtifactError) as caught:
        LanguageModelling(paths=(str(path),), **settings).raw_files(path.parent)
    assert str(caught.value) == f"{path}{message}"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"from_byte": 5, "to_byte": 5}, ": bytes 5 to 5 are no part of a file; give a to_byte above from_byte"),
    ],
)  # fmt: skip
def test_bad_settings(settings, message):
    with pytest.raises(ConfigError) as caught:
        decode(Evaluation, {"benchmarks": {"x": {"type": "language_modelling", "paths": ["a"], **settings}}})
    assert str(caught.value).removeprefix("evaluation.") == f"benchmarks{message}"


def test_real_files_have_the_words_that_papers_count(data_folder):
    """WikiText-2's validation set has 217,646 tokens (Merity et al. 2016, table 1), Mikolov's of PTB 73,760."""
    data = data_folder("evaluation")
    for name, words in (("wikitext2_valid", 217_646), ("ptb_valid", 73_760)):
        ((_, text),) = LanguageModelling(paths=(f"{name}.txt.zst",)).read(data)
        assert len(text.split()) + text.count("\n") == words


def test_what_is_searched_for_is_text_as_it_stands_elsewhere(text_file):
    path = text_file("The mill 's 3 @.@ 5 tons .\nIt turns .\n")
    lines = LanguageModelling(paths=(str(path),), documents="line", detokenizer="lm_eval_wikitext")
    names, documents = zip(*lines.read(Path()), strict=True)
    assert names == ("text.txt:1", "text.txt:2")
    assert lines.texts(documents) == [("The mill's 3.5 tons .\n",), ("It turns .\n",)]
