"""Each kind of benchmark: its prompts, its judgement of answers, its metrics."""

import json
import math
import random
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import canonical, decode
from headrace.train.evaluation.benchmarks.agreement import PARADIGMS, Agreement
from headrace.train.evaluation.benchmarks.base import Item, Sources
from headrace.train.evaluation.benchmarks.held_out import (
    HeldOutOrder,
    HeldOutSentences,
    HeldOutWords,
    exchanged,
    passages,
)
from headrace.train.evaluation.benchmarks.lambada import Lambada
from headrace.train.evaluation.benchmarks.language_modelling import LanguageModelling
from headrace.train.evaluation.benchmarks.minimal_pairs import MinimalPairs
from headrace.train.evaluation.benchmarks.multiple_choice import MultipleChoice
from headrace.train.evaluation.benchmarks.validation_loss import Validation
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


PIQA = [{"query": f"Question: goal {n}\n", "choices": [f"left {n}", f"right {n}"], "gold": n % 2} for n in range(6)]


def test_piqa_prompts_equal_the_harness(write_lines):
    """piqa.yaml: doc_to_text "Question: {{goal}}\\nAnswer:", target_delimiter " "."""
    path = questions(write_lines, *PIQA)
    (item, *_) = MultipleChoice(paths=(str(path),), query_suffix="Answer:").items(sources())
    context = "Question: goal 0\nAnswer:"
    assert item == Item(
        "questions.jsonl:1", (Text(context, " left 0"), Text(context, " right 0")), ("left 0", "right 0"), 0
    )


def test_arc_and_openbookqa_prompts_equal_the_harness(write_lines):
    """arc_easy.yaml: "Question: {{question}}\\nAnswer:"; openbookqa.yaml: question_stem."""
    path = questions(write_lines, {"query": "Question: why?", "choices": ["a", "b", "c"], "gold": 2})
    (arc,) = MultipleChoice(paths=(str(path),), query_suffix="\nAnswer:").items(sources())
    assert arc.queries[2] == Text("Question: why?\nAnswer:", " c")
    (openbookqa,) = MultipleChoice(paths=(str(path),)).items(sources())
    assert openbookqa.queries[0] == Text("Question: why?", " a")


def test_few_shot_prompts_equal_the_harness(write_lines):
    """Examples are question, target_delimiter, answer, fewshot_delimiter ("\\n\\n"); never the item itself."""
    path = questions(write_lines, *PIQA)
    items = MultipleChoice(paths=(str(path),), query_suffix="Answer:", shots=3).items(sources())
    for number, item in enumerate(items):
        *worked, last = item.queries[0].context.split("\n\n")
        assert last == f"Question: goal {number}\nAnswer:"
        assert len(set(worked)) == 3
        for example in worked:
            other = int(re.fullmatch(r"Question: goal (\d)\nAnswer: (left|right) \1", example)[1])
            assert other != number
            assert example.endswith(f" {PIQA[other]['choices'][PIQA[other]['gold']]}")


def test_a_limit_takes_the_first_and_changes_no_prompt(write_lines):
    path = questions(write_lines, *PIQA)
    whole = MultipleChoice(paths=(str(path),), shots=2).items(sources())
    assert MultipleChoice(paths=(str(path),), shots=2, limit=4).items(sources()) == whole[:4]


def test_negative_shots():
    with pytest.raises(ConfigError) as caught:
        decode(Evaluation, {"benchmarks": {"x": {"type": "lambada", "paths": ["a"], "shots": -1}}})
    assert str(caught.value) == "benchmarks.x.shots: must be at least 0 (got -1); correct the value"


def test_choices_are_judged_by_sum_by_character_and_by_byte():
    item = Item("x", (), ("aaaa", "éé", "a" * 10), gold=1)
    outcome = MultipleChoice(paths=()).outcome(item, [answer(-4.0), answer(-3.0), answer(-8.0)])
    assert outcome == {"acc": 1.0, "acc_norm": 0.0, "acc_bytes": 1.0, "nats": 3.0, "bytes": 4.0}
    outcome = MultipleChoice(paths=()).outcome(item, [answer(-4.0), answer(-3.3), answer(-8.0)])
    assert outcome == {"acc": 1.0, "acc_norm": 0.0, "acc_bytes": 0.0, "nats": 3.3, "bytes": 4.0}


def test_the_first_of_equal_choices_wins():
    item = Item("x", (), ("a", "b"), gold=0)
    assert MultipleChoice(paths=()).outcome(item, [answer(-1.0), answer(-1.0)])["acc"] == 1


def test_random_baseline_is_the_mean_over_items():
    items = [Item("x", (), ("a", "b")), Item("y", (), ("a", "b", "c", "d"))]
    accuracies = {"acc": 1.0, "acc_norm": 0.0, "acc_bytes": 0.0}
    outcomes = [accuracies | {"nats": 3 * math.log(2), "bytes": 1.0}, accuracies | {"nats": 0.0, "bytes": 5.0}]
    metrics = MultipleChoice(paths=()).metrics(items, outcomes, 10)
    assert [metric.name for metric in metrics] == ["acc", "acc_norm", "acc_bytes", "bits_per_byte"]
    assert metrics[0].random == pytest.approx(0.375)
    assert metrics[3].value == pytest.approx(3 / 6)


def test_lambada_reads_both_forms_alike(write_lines):
    path = questions(write_lines, {"text": "I don't care about signs"}, {"context": "I don't care about",
                                                                         "continuation": "signs"})  # fmt: skip
    first, second = Lambada(paths=(str(path),)).items(sources())
    assert first.queries == second.queries == (Text("I don't care about", " signs"),)


def test_lambada_by_the_last_token(write_lines):
    path = questions(write_lines, {"text": "I don't care about signs"})
    (item,) = Lambada(paths=(str(path),), reading="last_token").items(sources())
    assert item.queries == (Text("I don't care about", " signs", last_token=True),)


def test_lambada_metrics():
    lambada = Lambada(paths=())
    item = Item("x", (), ("signs",))
    outcomes = [lambada.outcome(item, [answer(-math.log(4), True, 1)]), lambada.outcome(item, [answer(0.0, False, 3)])]
    accuracy, perplexity, bits = lambada.metrics([item] * 2, outcomes, 10)
    assert (accuracy.value, accuracy.random) == (0.5, 0)
    assert (perplexity.value, perplexity.random) == (pytest.approx(2), pytest.approx(100))
    assert bits.value == pytest.approx(2 / (2 * len("signs")))
    last = Lambada(paths=(), reading="last_token")
    outcome = last.outcome(item, [answer(-1.0, True, 1)])
    assert [metric.name for metric in last.metrics([item], [outcome], 10)] == ["acc", "perplexity"]


def test_pairs_are_whole_sentences_after_the_end_of_text(write_lines, encoder):
    rows = [{"sentence_good": f"Cats sleep {n}.", "sentence_bad": f"Cats sleeps {n}.", "UID": "ab"[n % 2]}
            for n in range(6)]  # fmt: skip
    path = questions(write_lines, *rows)
    items = MinimalPairs(paths=(str(path),), limit_per_group=2).items(sources())
    assert Counter(item.group for item in items) == {"a": 2, "b": 2}
    assert MinimalPairs(paths=(str(path),), limit=3).items(sources()) == items[:3]
    assert items[0].queries == (Text("", " Cats sleep 0."), Text("", " Cats sleeps 0."))
    good, _ = encode(items[0].queries, encoder)
    assert good.context.tolist() == [encoder.end_of_text]
    assert encoder.decode(good.continuation) == " Cats sleep 0."


def test_pairs_by_paradigm():
    pairs = MinimalPairs(paths=())
    items = [Item("1", (), ("x", "y"), group="a"), Item("2", (), ("x", "y"), group="a"), Item("3", (), (), group="b")]
    answers = [[answer(-1), answer(-2)], [answer(-2), answer(-1)], [answer(-1), answer(-1)]]
    outcomes = [pairs.outcome(item, found) for item, found in zip(items, answers, strict=True)]
    assert [outcome["acc"] for outcome in outcomes] == [1, 0, 0.5]
    whole, a, b = pairs.metrics(items, outcomes, 10)
    assert (whole.value, a.value, b.value) == (0.5, 0.5, 0.5)
    assert (whole.random, whole.items, a.group, b.group) == (0.5, 3, "a", "b")


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


def test_passages_hold_the_fewest_sentences_with_enough_words():
    text = 'One two three. Four five six! "Seven eight?" Nine ten.\nEleven twelve.'
    found = [(context, sentence) for _, context, sentence in passages(text, 4)]
    assert found == [
        ("One two three. Four five six! ", '"Seven eight?"'),
        ('Four five six! "Seven eight?" ', "Nine ten."),
        ('"Seven eight?" Nine ten.\n', "Eleven twelve."),
    ]
    for start, context, sentence in passages(text, 4):
        assert text[start - len(context) : start] == context
        assert text[start:].startswith(sentence)


def test_held_out_words_have_occurred_before():
    items = HeldOutWords(limit=20, context_words=20).items(sources(documents=STORIES))
    assert len(items) == 20
    texts = {story.name: story.text for story in STORIES}
    for item in items:
        ((context, continuation),) = [(query.context, query.continuation) for query in item.queries]
        word = continuation.removeprefix(" ")
        assert context + continuation in texts[item.name.partition("@")[0]]
        assert re.search(rf"\b{word}\b", context)
        assert item.choices == (word,)
        assert len(context.split()) >= 20
    assert max(Counter(item.name.partition("@")[0] for item in items).values()) <= 4


def test_held_out_sentences_offer_the_next_one_and_three_of_others():
    items = HeldOutSentences(limit=30).items(sources(documents=STORIES))
    assert len(items) == 30
    texts = {story.name: story.text for story in STORIES}
    for item in items:
        text = texts[item.name.partition("@")[0]]
        assert len(set(item.choices)) == 4
        right = item.choices[item.gold]
        assert item.queries[item.gold].context + " " + right in text
        assert all(choice not in text for choice in item.choices if choice != right)
    assert len({item.gold for item in items}) == 4


def test_held_out_order_exchanges_two_neighbouring_words_of_a_sentence():
    items = HeldOutOrder(limit=30).items(sources(documents=STORIES))
    assert len(items) == 30
    texts = {story.name: story.text for story in STORIES}
    for item in items:
        text, (good, bad) = texts[item.name.partition("@")[0]], item.choices
        assert item.queries[0].context + item.queries[0].continuation in text
        assert [query.continuation for query in item.queries] == [f" {good}", f" {bad}"]
        moved = [pair for pair in zip(good.split(), bad.split(), strict=True) if pair[0] != pair[1]]
        (first, second), other = moved
        assert other == (second, first)
        assert not {first, second} & {good.split()[0], good.split()[-1]}


def test_words_with_capitals_or_punctuation_are_not_exchanged():
    assert exchanged(["The", "mill,", "the", "the", "3", "Old", "rivers."], random.Random(0)) == ""
    assert exchanged(["The", "old", "mill", "turns."], random.Random(0)) == "The mill old turns."


@pytest.mark.parametrize("kind", [HeldOutWords, HeldOutSentences, HeldOutOrder])
def test_held_out_items_do_not_depend_on_the_order_of_documents(kind):
    forwards = kind(limit=15).items(sources(documents=STORIES))
    assert forwards == kind(limit=15).items(sources(documents=STORIES[::-1]))
    assert forwards != kind(limit=15).items(sources(documents=STORIES, seed="1:x"))


@pytest.mark.parametrize("kind", [HeldOutWords, HeldOutSentences, HeldOutOrder])
def test_held_out_items_come_from_so_many_documents(kind):
    items = kind(documents=5).items(sources(documents=STORIES))
    assert len({item.name.partition("@")[0] for item in items}) == 5


@pytest.mark.parametrize("kind", [HeldOutWords, HeldOutSentences, HeldOutOrder])
@pytest.mark.parametrize("texts", [[], [""], ["No end"], ["One. Two. Three."] * 3])
def test_too_little_text_gives_no_items(kind, texts):
    assert kind().items(sources(documents=[document(str(n), text) for n, text in enumerate(texts)])) == []


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


def test_a_limited_validation_takes_documents_by_hash(line, encoder):
    held_out = HeldOut(line["tokens"], line["packed"], encoder)
    items = Validation(limit=5).items(Sources(Path(), held_out, ""))
    assert len(items) == 5
    assert len({item.name.partition(":")[0] for item in items}) > 1


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
