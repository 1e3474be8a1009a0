"""Benchmarks of held-out text: items by rules, the same whatever the order of the documents."""

import re
from collections import Counter

import pytest

from headrace.train.evaluation.benchmarks.held_out import (
    HeldOutOrder,
    HeldOutSentences,
    HeldOutWords,
    passages,
)
from tests.train.evaluation.test_benchmarks import STORIES, document, sources


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
