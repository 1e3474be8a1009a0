"""Each kind of benchmark: its prompts, its judgement of answers, its metrics."""

import json
import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import canonical, decode
from headrace.train.evaluation.benchmarks.base import Item, Sources
from headrace.train.evaluation.benchmarks.choices import Lambada, MultipleChoice
from headrace.train.evaluation.benchmarks.language_modelling import LanguageModelling, Validation
from headrace.train.evaluation.benchmarks.minimal_pairs import PARADIGMS, Agreement
from headrace.train.evaluation.held_out_documents import HeldOut
from headrace.train.evaluation.prompt import encode
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import Answer, Text
from tests.train.small_models import Uniform, likelihood_of, story


def sources(folder: Path = Path(), documents=(), seed: str = "0:x") -> Sources:
    return Sources(folder, SimpleNamespace(documents=list(documents)), seed)


def document(name: str, text: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, text=text, key=text.encode())


def answer(log_likelihood: float, greedy: bool = False, tokens: int = 1) -> Answer:
    return Answer(log_likelihood, greedy, tokens)


def questions(write_lines, *rows) -> Path:
    return write_lines("questions.jsonl", *(json.dumps(row) for row in rows))


def test_agreement_pairs_differ_in_one_word_and_are_balanced():
    items = Agreement().items(sources())
    assert Counter(item.group for item in items) == dict.fromkeys(PARADIGMS, 26)
    assert len({item.choices for item in items}) == 104
    for item in items:
        good, bad = (choice.split() for choice in item.choices)
        assert sum(a != b for a, b in zip(good, bad, strict=True)) == 1
        assert item.queries[0] == Text("", item.choices[0])
    changed = Counter()
    for item in items:
        good, bad = (choice.split() for choice in item.choices)
        changed[next(a for a, b in zip(good, bad, strict=True) if a != b)] += 1
    singular = sum(changed[word] for word in ("is", "was", "has", "does", "needs", "seems", "looks", "this", "that"))
    assert singular == 52


def test_agreement_examples():
    choices = {item.name: item.choices for item in Agreement().items(sources())}
    assert choices["simple:1"] == ("The file is ready for the next step.", "The file are ready for the next step.")
    assert choices["attractor:2"] == (
        "The files near the house need more time.",
        "The files near the house needs more time.",
    )
    assert choices["determiner:2"] == (
        "Nobody wants these files now.",
        "Nobody wants this files now.",
    )
    assert choices["existential:1"] == (
        "There is a file in the first room.",
        "There are a file in the first room.",
    )


STORIES = [document(f"00000:{number}", story(number)) for number in range(12)]


def test_validation_asks_for_every_held_out_token_once(line, encoder):
    held_out = HeldOut(line["tokens"], line["packed"], encoder)
    items = Validation().items(Sources(Path(), held_out, ""))
    counts = line["packed"].counts
    assert len(items) == counts["validation_documents"] > 20
    assert sum(len(query.continuation) for item in items for query in item.queries) == counts["validation_tokens"]
    assert sum(item.sizes["bytes"] for item in items) == counts["validation_text_bytes"]
    assert any(len(item.queries) > 1 for item in items)
    for item, document_ in zip(items, held_out.documents, strict=True):
        shard, number = map(int, item.name.split(":"))
        assert document_.text == story(40 * shard + number)
        text = "".join(encoder.decode(query.continuation) for query in item.queries)
        assert text == document_.text + "<|endoftext|>"
        assert item.queries[0].context.tolist() == [encoder.end_of_text]


def test_validation_metrics_by_hand():
    validation = Validation()
    items = [Item("a", (), sizes={"bytes": 10}), Item("b", (), sizes={"bytes": 30})]
    outcomes = [
        validation.outcome(items[0], [answer(-3.0, tokens=3), answer(-1.0, tokens=1)]),
        validation.outcome(items[1], [answer(-8.0, tokens=6)]),
    ]
    bits, loss, perplexity, by_byte = validation.metrics(items, outcomes, 16)
    assert loss.value == pytest.approx(12 / 10)
    assert perplexity.value == pytest.approx(math.exp(1.2))
    assert bits.value == pytest.approx(12 / math.log(2) / 40)
    assert by_byte.value == pytest.approx(2**bits.value)
    assert (loss.random, perplexity.random) == (pytest.approx(math.log(16)), 16)
    assert bits.random == pytest.approx(4 * 10 / 40)
    assert by_byte.random == pytest.approx(2)


def test_a_uniform_model_is_at_chance(line, encoder, write_lines):
    rows = [{"query": f"The {n}", "choices": ["aaaa", "bbbb", "cccc", "dddd"], "gold": n % 4} for n in range(40)]
    choice = MultipleChoice(paths=(str(questions(write_lines, *rows)),))
    likelihood = likelihood_of(Uniform(encoder.vocabulary_size))
    held_out = HeldOut(line["tokens"], line["packed"], encoder)
    found = {}
    for name, benchmark in (("choice", choice), ("validation", Validation()), ("agreement", Agreement())):
        items = benchmark.items(Sources(Path(), held_out, ""))
        flat = likelihood.answers(encode([query for item in items for query in item.queries], encoder))
        remaining = iter(flat)
        outcomes = [benchmark.outcome(item, [next(remaining) for _ in item.queries]) for item in items]
        metrics = benchmark.metrics(items, outcomes, encoder.vocabulary_size)
        found |= {(name, metric.name): metric for metric in metrics if not metric.group}
    assert found["choice", "acc"].value == found["choice", "acc"].random == 0.25
    perplexity = found["validation", "perplexity"]
    assert perplexity.value == pytest.approx(encoder.vocabulary_size, rel=1e-6)
    assert found["validation", "bits_per_byte"].value == pytest.approx(found["validation", "bits_per_byte"].random)


def test_where_files_lie_stays_out_of_the_address():
    one = Evaluation(benchmarks={"a": Lambada(paths=("x/a.jsonl",))}, data="/x", device="cpu")
    other = Evaluation(benchmarks={"a": Lambada(paths=("y/a.jsonl",))}, data="/y", device="cuda")
    assert canonical(one) == canonical(other)
    assert canonical(one) != canonical(Evaluation(benchmarks={"a": Lambada(paths=("x/a.jsonl",), shots=1)}))


@pytest.mark.parametrize("name", ["../x", "", "a b", ".hidden"])
def test_a_name_must_name_a_file(name):
    with pytest.raises(ConfigError) as caught:
        decode(Evaluation, {"benchmarks": {name: {"type": "validation"}}})
    assert str(caught.value) == f"evaluation.benchmarks: {name!r} names a file; use letters, digits, _ . and -"


def test_wrong_settings_name_their_place():
    with pytest.raises(ConfigError) as caught:
        decode(Evaluation, {"benchmarks": {"piqa": {"type": "multiple_choise", "paths": ["a"]}}})
    assert str(caught.value) == ("benchmarks.piqa: unknown type 'multiple_choise'; did you mean 'multiple_choice'?")
    with pytest.raises(ConfigError) as caught:
        decode(Evaluation, {"benchmarks": {"held_out": {"type": "validation", "limits": 3}}})
    assert str(caught.value) == "benchmarks.held_out.limits: unknown key 'limits'; did you mean 'limit'?"


def texts_of(write_lines, rows, **settings) -> list[tuple[str, tuple[str, ...]]]:
    path = questions(write_lines, *rows)
    evaluation = decode(Evaluation, {"benchmarks": {"x": {"paths": [str(path)], **settings}}})
    return list(evaluation.texts()["x"].texts())


def test_texts_of_choices_are_question_and_answers_without_the_form(write_lines):
    rows = [{"query": "Question: Why is it so?\nHint: no", "choices": ["a b", "c", "d"], "gold": 1},
            {"query": "Question: Who was it then?\nHint: no", "choices": ["e", "f"], "gold": 0},
            {"query": "Question: Hint: no", "choices": ["g", "h"], "gold": 1}]  # fmt: skip
    for suffix in ("", " Answer:", "\nQ"):
        assert texts_of(write_lines, rows, type="multiple_choice", query_suffix=suffix, shots=1, limit=1) == [
            ("questions.jsonl:1", ("Why is it so? c", "a b", "d")),
            ("questions.jsonl:2", ("Who was it then? e", "f")),
            ("questions.jsonl:3", (" h", "g")),
        ]
    (only,) = texts_of(write_lines, rows[:1], type="multiple_choice")
    assert only[1][0] == "Question: Why is it so?\nHint: no c"


def test_texts_of_passages_and_pairs(write_lines):
    assert texts_of(write_lines, [{"text": "I don't care about signs"}], type="lambada") == [
        ("questions.jsonl:1", ("I don't care about signs",))
    ]
    pair = {"sentence_good": "Cats sleep.", "sentence_bad": "Cats sleeps."}
    assert texts_of(write_lines, [pair], type="minimal_pairs") == [
        ("questions.jsonl:1", ("Cats sleep.", "Cats sleeps."))
    ]


def test_benchmarks_that_read_the_same_share_their_texts():
    benchmarks = {
        "b": MultipleChoice(paths=("b",)),
        "b_5shot": MultipleChoice(paths=("b",), shots=5, limit=2, query_suffix="A:"),
        "as_passages": Lambada(paths=("b",)),
        "more": MultipleChoice(paths=("b", "c")),
        "agreement": Agreement(),
        "validation": Validation(),
        "raw": LanguageModelling(paths=("b",)),
        "raw_articles": LanguageModelling(paths=("b",), documents="article"),
        "raw_lines": LanguageModelling(paths=("b",), documents="line"),
        "raw_lines_sliding": LanguageModelling(paths=("b",), documents="line", stride_tokens=5),
    }
    evaluation = Evaluation(benchmarks=benchmarks)
    same = {"as_passages": "as_passages", "b": "b", "b_5shot": "b", "more": "more"}
    same |= {"raw_articles": "raw_articles", "raw_lines": "raw_lines", "raw_lines_sliding": "raw_lines"}
    assert evaluation.same_texts() == same
    texts = evaluation.texts()
    assert texts.keys() == set(same.values())
    shares = {name: one.dirty_share for name, one in texts.items() if one.dirty_share}
    assert shares == {"raw_articles": 0.2}, "others are dirty by one n-gram"
    zero, five = (Evaluation(benchmarks={"b": benchmarks[name]}, data="/x").texts() for name in ("b", "b_5shot"))
    assert canonical(zero) == canonical(five) == {"b": {"type": "multiple_choice"}}
