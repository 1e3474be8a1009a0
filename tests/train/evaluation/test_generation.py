"""Benchmarks whose answers the model writes: prompts, judgement by hand, texts of the generator.

Text that the model writes: beginnings, texts of the generator, repetition by hand.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Item, Sources
from headrace.train.evaluation.benchmarks.generation import (
    FLEXIBLE,
    GREEDY,
    LENIENT,
    SAMPLED,
    STRICT,
    Continuations,
    ShortAnswers,
    WordProblems,
    normalized,
    repeated_share,
)
from headrace.train.evaluation.metrics import f1_of_words
from headrace.train.evaluation.scoring import answers_to, score
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.generator import generator_of
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import Generate, Text, Written
from headrace.train.inference.settings import Sampling
from tests.train.evaluation.test_benchmarks import questions, sources
from tests.train.evaluation.test_file_records import error_of
from tests.train.small_models import WINDOW_TOKENS, OfHuggingFace, model_of, story

TRIVIA = [{"context": f"Question: Who {n}?\nAnswer:", "aliases": [f"The Man {n}", "man"]} for n in range(5)]
PROBLEMS = [
    {"context": f"How many {n}?", "chain_of_thought": f"{n} + 1 = {n + 1}", "answer": str(n + 1)} for n in range(5)
]


def greedy(context: str, stops: tuple[str, ...], max_tokens: int) -> Generate:
    return Generate(context, Sampling(max_tokens=max_tokens, stops=stops))


def test_prompts(write_lines):
    path = str(questions(write_lines, *TRIVIA))
    item, *_ = ShortAnswers(paths=(path,), max_tokens=9).items(sources())
    assert item == Item(
        "questions.jsonl:1", (greedy("Question: Who 0?\nAnswer:", ("\n", ".", ","), 9),), ("The Man 0", "man")
    )
    path = str(questions(write_lines, *PROBLEMS))
    settings = {"rewrites": ((r"\A", "Question: "),), "query_suffix": "\nAnswer:"}
    item, *_ = WordProblems(paths=(path,), shots=2, **settings).items(sources())
    assert item.choices == ("1",)
    (query,) = item.queries
    assert (query.sampling.stops, query.sampling.max_tokens) == (("Question:", "</s>", "<|im_end|>"), 256)
    *worked, asked = query.context.split("\n\n")
    assert asked == "Question: How many 0?\nAnswer:"
    assert len(worked) == 2
    for example in worked:
        n = int(example.removeprefix("Question: How many ")[0])
        assert example == f"Question: How many {n}?\nAnswer: {n} + 1 = {n + 1}\n#### {n + 1}"


@pytest.mark.parametrize(
    ("text", "lenient", "em", "f"),
    [
        (" The Man 0", 1, 1, 1),
        ("man 0!\n", 0, 1, 1),
        ("MAN", 1, 1, 1),
        ("an old man", 0, 0, 2 / 3),
        ("old_man 0 man", 0, 0, 2 * 2 / (4 + 2)),
        ("the", 0, 0, 0),
        ("", 0, 0, 0),
    ],
)
def test_short_answers_by_hand(text, lenient, em, f):
    outcome = ShortAnswers(paths=()).outcome(Item("1", (), ("The Man 0", "man")), [Written(text, 1)])
    assert outcome == {LENIENT: lenient, "em": em, "f1": pytest.approx(f)}


def test_words_of_an_answer():
    assert normalized("The ‘Battle_of’ an Hastings—A.D. 1066!") == ["battle", "of", "hastings—", "d", "1066"]
    assert f1_of_words(["a", "a", "b"], ["a", "b", "b", "c"]) == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))


@pytest.mark.parametrize(
    ("text", "right", "strict", "flexible"),
    [
        (" 3 + 4 = 7\n#### 7", "7", 1, 1),
        (" 3 + 4 = 7", "7", 0, 1),
        ("#### 1,450,000.", "1450000", 1, 1),
        ("#### 70000", "70,000", 1, 1),
        ("####7", "7", 0, 1),
        ("#### -10", "-10", 1, 1),
        ("#### 7\n\nAnd 8", "7", 1, 0),
        ("#### 6 #### 7", "7", 0, 1),
        ("It costs $7.", "7", 0, 1),
        ("seven", "7", 0, 0),
        ("", "7", 0, 0),
    ],
)
def test_word_problems_by_hand(text, right, strict, flexible):
    outcome = WordProblems(paths=()).outcome(Item("1", (), (right,)), [Written(text, 1)])
    assert outcome == {STRICT: strict, FLEXIBLE: flexible}


def test_metrics():
    trivia, problems = ShortAnswers(paths=()), WordProblems(paths=())
    outcomes = [{LENIENT: 0.0, "em": 1.0, "f1": 1.0}, {LENIENT: 0.0, "em": 0.0, "f1": 0.5}]
    found = trivia.metrics([], outcomes, 7)
    assert [(m.name, m.value, m.random, m.items) for m in found] == [
        (LENIENT, 0.0, 0.0, 2), ("em", 0.5, 0.0, 2), ("f1", 0.75, 0.0, 2)
    ]  # fmt: skip
    assert found[2].standard_error == pytest.approx(0.25)
    found = problems.metrics([], [{STRICT: 0.0, FLEXIBLE: 1.0}], 7)
    assert [(m.name, m.value) for m in found] == [(STRICT, 0.0), (FLEXIBLE, 1.0)]


@pytest.fixture(scope="module")
def subject(gpt2, encoder) -> InferenceModel:
    return model_of(OfHuggingFace(gpt2), encoder)


def test_what_is_written_is_the_generator_s(subject, write_lines):
    rows = [{"context": story(n)[: 20 + 60 * n], "aliases": ["x"]} for n in range(5)]
    benchmark = ShortAnswers(paths=(str(questions(write_lines, *rows)),), max_tokens=12, stops=("e",))
    found = score("trivia", benchmark, sources(), None, subject)
    made = generator_of(subject).generate([row["context"] for row in rows], Sampling(max_tokens=12, stops=("e",)))
    assert [row["written"] for row in found.samples()] == [[one.text] for one in made]
    assert len({one.text for one in made}) > 1
    assert (found.scores.tally.queries, found.scores.tally.tokens) == (5, sum(len(one.tokens) for one in made))
    assert found.scores.tally.truncated_contexts == sum(one.lost_tokens > 0 for one in made) > 0
    assert found.scores.tally.truncated_tokens == sum(one.lost_tokens for one in made)
    row = found.samples()[0]
    assert (row["prompts"], row["continuations"], row["log_likelihoods"]) == ([rows[0]["context"]], [], [])
    assert row["right_answers"] == ["x"]


def test_queries_of_all_kinds_are_answered_in_their_order(subject):
    queries = [greedy("On day", (), 3), Text("On", " day"), greedy("The old", ("a",), 3), greedy("On day", (), 3)]
    found, tally = answers_to(queries, subject)
    assert [type(one).__name__ for one in found] == ["Written", "Answer", "Written", "Written"]
    assert found[0] == found[3]
    assert tally.queries == 4


def test_a_window_that_is_too_short_for_the_text_gives_half_of_it(subject):
    (one, other), _ = answers_to([greedy("On day", (), WINDOW_TOKENS), greedy("On day", (), 9)], subject)
    assert (one.tokens, other.tokens) == (WINDOW_TOKENS // 2, 9)
    assert one.text.startswith(other.text)


def test_texts_for_decontamination(write_lines):
    path = str(questions(write_lines, PROBLEMS[0]))
    evaluation = decode(Evaluation, {"benchmarks": {"x": {"type": "word_problem", "paths": [path]}}})
    assert list(evaluation.texts()["x"].texts()) == [("questions.jsonl:1", ("How many 0? 0 + 1 = 1\n#### 1",))]
    path = str(questions(write_lines, TRIVIA[0], {"context": "Question: Where was it?\nAnswer:", "aliases": ["there"]}))
    evaluation = decode(Evaluation, {"benchmarks": {"x": {"type": "short_answer", "paths": [path]}}})
    assert [texts for _, texts in evaluation.texts()["x"].texts()] == [("Who 0? The Man 0",), ("Where was it? there",)]


@pytest.mark.parametrize(
    ("kind", "row", "message"),
    [
        (ShortAnswers, {"context": "Q"}, ":1: has no field 'aliases'; its fields are: context"),
        (ShortAnswers, {"context": "Q", "aliases": []},
         ":1: field 'aliases' holds []; give it a list of one or more texts, none blank"),
        (ShortAnswers, {"context": "Q", "aliases": "x"},
         ":1: field 'aliases' holds 'x'; give it a list of one or more texts, none blank"),
        (WordProblems, {"context": "Q", "answer": "1"},
         ":1: has no field 'chain_of_thought'; its fields are: answer, context"),
        (WordProblems, {"context": "Q", "chain_of_thought": "so", "answer": 1},
         ":1: field 'answer' holds 1; give it a text that is not blank"),
    ],
)  # fmt: skip
def test_bad_files(write_lines, kind, row, message):
    assert error_of(kind, write_lines("bad.jsonl", json.dumps(row))) == message


@pytest.fixture(scope="module")
def continuing(gpt2, encoder) -> InferenceModel:
    return model_of(OfHuggingFace(gpt2), encoder)


def run_sources(encoder, *texts: str) -> Sources:
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
    items = benchmark.items(run_sources(encoder, "too short", story(1), story(2)))
    assert [item.name for item in items] == ["00000:1", "00000:2", "prompt:1"]
    for item, text in zip(items, (story(1), story(2)), strict=False):
        (greedy, sampled), (own,) = item.queries, item.choices
        assert greedy.context == sampled.context
        assert text.startswith(greedy.context + own)
        assert own[0].isspace()
        assert len(encoder.encode([greedy.context])[0]) <= 20
        assert 12 <= len(encoder.encode([own])[0]) <= 15
    assert items[2].choices == ()
    assert len(benchmark.items(run_sources(encoder, *map(story, range(9))))) == 5, "four documents and a prompt"
    assert [item.name for item in Continuations(limit=1).items(Sources(Path(), None, ""))] == ["prompt:1"]


def test_a_text_without_spaces_is_cut_between_characters(encoder):
    text = "水車小屋は川の水で回り谷の人々の麦を挽く" * 4
    (item,) = Continuations(beginning_tokens=20, max_tokens=15, prompts=()).items(run_sources(encoder, text))
    assert text.startswith(item.queries[0].context + item.choices[0])
    assert item.queries[0].context


def test_the_texts_are_those_of_generate(continuing, encoder):
    """Greedily and with the seed, so ``headrace generate`` writes the same."""
    benchmark = Continuations(beginning_tokens=20, max_tokens=15, seed=3)
    found = score("texts", benchmark, run_sources(encoder, story(1), story(2)), None, continuing)
    rows = found.samples()
    prompts = [row["prompts"][0] for row in rows]
    assert prompts[2:] == ["Once upon a time", "The most important"]
    samplings = [Sampling(max_tokens=15), Sampling(max_tokens=15, temperature=0.8, top_p=0.95, seed=3)]
    made = [[one.text for one in generator_of(continuing).generate(prompts, one)] for one in samplings]
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
