"""Text that the model writes: beginnings, texts of the generator, repetition by hand."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.benchmarks.continuations import GREEDY, SAMPLED, Continuations, repeated_share
from headrace.train.evaluation.scoring import score
from headrace.train.inference.generator import generator_of
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import Written
from headrace.train.inference.settings import Sampling
from tests.train.small_models import OfHuggingFace, model_of, story


@pytest.fixture(scope="module")
def subject(gpt2, encoder) -> InferenceModel:
    return model_of(OfHuggingFace(gpt2), encoder)


def sources(encoder, *texts: str) -> Sources:
    """The sources of a run that held out ``texts``."""
    documents = [
        SimpleNamespace(
            name=f"00000:{number}",
            text=text,
            tokens=np.array([encoder.end_of_text, *encoder.encode([text])[0], encoder.end_of_text]),
            key=bytes([number]),
            encoder=encoder,
        )
        for number, text in enumerate(texts)
    ]
    return Sources(Path(), SimpleNamespace(documents=documents), "0:texts", tokenizer=encoder)


def test_a_beginning_ends_with_a_word_and_the_document_goes_on_there(encoder):
    benchmark = Continuations(beginning_tokens=20, max_tokens=15, prompts=("It",))
    items = benchmark.items(sources(encoder, "too short", story(1), story(2)))
    assert [item.name for item in items] == ["00000:1", "00000:2", "prompt:1"]
    for item, text in zip(items, (story(1), story(2)), strict=False):
        (greedy, sampled), (own,) = item.queries, item.choices
        assert greedy.context == sampled.context
        assert text.startswith(greedy.context + own)
        assert own[0].isspace()
        assert len(encoder.encode([greedy.context])[0]) <= 20
        assert 12 <= len(encoder.encode([own])[0]) <= 15
    assert items[2].choices == ()
    assert len(benchmark.items(sources(encoder, *map(story, range(9))))) == 5, "four documents and a prompt"
    assert [item.name for item in Continuations(limit=1).items(Sources(Path(), None, ""))] == ["prompt:1"]


def test_a_text_without_spaces_is_cut_between_characters(encoder):
    text = "水車小屋は川の水で回り谷の人々の麦を挽く" * 4
    (item,) = Continuations(beginning_tokens=20, max_tokens=15, prompts=()).items(sources(encoder, text))
    assert text.startswith(item.queries[0].context + item.choices[0])
    assert item.queries[0].context


def test_the_texts_are_those_of_generate(subject, encoder):
    """Greedily and with the seed, so ``headrace generate`` writes the same."""
    benchmark = Continuations(beginning_tokens=20, max_tokens=15, seed=3)
    found = score("texts", benchmark, sources(encoder, story(1), story(2)), None, subject)
    rows = found.samples()
    prompts = [row["prompts"][0] for row in rows]
    assert prompts[2:] == ["Once upon a time", "The most important"]
    samplings = [Sampling(max_tokens=15), Sampling(max_tokens=15, temperature=0.8, top_p=0.95, seed=3)]
    made = [[one.text for one in generator_of(subject).generate(prompts, one)] for one in samplings]
    assert [tuple(row["written"]) for row in rows] == list(zip(*made, strict=True))
    assert made[0] != made[1]
    assert [len(row["right_answers"]) for row in rows] == [1, 1, 0, 0]
    assert [metric.name for metric in found.scores.metrics] == [GREEDY, SAMPLED]
    assert all(0 <= metric.interval[0] <= metric.value <= metric.interval[1] <= 1 for metric in found.scores.metrics)
    assert found.scores.tally.queries == 8


def test_repetition_by_hand():
    """Nine words have six 4-grams; "a b c d" and "b c d a" and "c d a b" occur, the rest repeats them."""
    assert repeated_share("a b c d a b c d a") == pytest.approx(2 / 6)
    assert repeated_share("a b c d e") == repeated_share("a a a") == repeated_share("") == 0
    item, *_ = Continuations().items(Sources(Path(), None, ""))
    texts = [Written("a b c d a b c d a", 9), Written("a b c d e", 5)]
    assert Continuations().outcome(item, texts) == {GREEDY: pytest.approx(2 / 6), SAMPLED: 0}
