"""The Children's Book Test from files in its format."""

import pytest

from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Item
from headrace.train.evaluation.scoring import score
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import Text
from headrace_courses.cbt import REMEDY, ChildrensBooks
from tests.train.evaluation.test_benchmarks import answer, sources
from tests.train.evaluation.test_file_records import error_of
from tests.train.small_models import OfHuggingFace, Uniform, model_of, story

SENTENCE = "{0} The miller did n't stop ; `` come , '' he said -LRB- for the {0}th time -RRB- ."
SENTENCES = tuple(map(SENTENCE.format, range(1, 21)))
QUESTION = "21 `` I have seen the XXXXX 's door ! '' said Ann .\tmill\t\triver|mill|wheel"


def book(question: str = QUESTION, sentences=SENTENCES) -> tuple[str, ...]:
    return (*sentences, question)


def test_a_choice_is_scored_with_the_rest_of_the_sentence(write_lines):
    path = write_lines("cbtest_CN_valid.txt", *book(), "", *book(QUESTION.replace("\tmill\t", "\triver\t")), "")
    first, second = ChildrensBooks(paths=(str(path),)).items(sources())
    told = " ".join(f'The miller didn\'t stop; "come," he said (for the {n}th time).' for n in range(1, 21))
    context = f'{told} "I have seen the '
    assert first.queries == tuple(
        Text(context, f"{candidate}'s door!\" said Ann.") for candidate in ("river", "mill", "wheel")
    )
    assert (first.name, first.choices, first.gold) == ("cbtest_CN_valid.txt:21", ("river", "mill", "wheel"), 1)
    assert (second.name, second.gold, second.queries) == ("cbtest_CN_valid.txt:43", 0, first.queries)


def test_a_gap_after_a_quotation_mark_and_two_gaps(write_lines):
    path = write_lines("c.txt", *book("21 `` XXXXX ! XXXXX ! ''\tAnn\t\tAnn|Bea"))
    (item,) = ChildrensBooks(paths=(str(path),)).items(sources())
    assert item.queries[1].context.endswith('time). "')
    assert item.queries[1].continuation == 'Bea! Bea!"'


def test_the_likeliest_is_chosen_by_hand():
    item = Item("1", (), ("a", "b", "c"), gold=2)
    benchmark = ChildrensBooks(paths=())
    told = ((-3, -2, -1), (-1, -2, -1), (-3, -2, -4))
    outcomes = [benchmark.outcome(item, list(map(answer, scores))) for scores in told]
    assert outcomes == [{"acc": 1.0}, {"acc": 0.0}, {"acc": 0.0}]
    (metric,) = benchmark.metrics([item] * 3, outcomes, 7)
    assert (metric.name, metric.value, metric.random) == ("acc", pytest.approx(1 / 3), pytest.approx(1 / 3))


def test_models(encoder, gpt2, write_lines):
    """A uniform model chooses the continuation with the fewest tokens; all tokens of the rest are scored."""
    lines = [f"{n} {story(n)[:60]}" for n in range(1, 21)]
    path = write_lines("c.txt", *lines, "21 the old XXXXX turns the wheel .\tmiller\t\tzzqqxxvv|miller|farmer")
    benchmark = ChildrensBooks(paths=(str(path),))
    for model in (Uniform(encoder.vocabulary_size), OfHuggingFace(gpt2)):
        found = score("cbt", benchmark, sources(), None, model_of(model, encoder))
        ((wrong, right, _),) = found.answers
        assert right.tokens < wrong.tokens
        assert right.tokens > len(encoder.encode([" miller turns"])[0])
        if isinstance(model, Uniform):
            assert found.outcomes == [{"acc": 1.0}]
    assert found.scores.tally.truncated_contexts == 3


def test_texts_for_decontamination(write_lines):
    path = write_lines("c.txt", *book())
    texts = decode(Evaluation, {"benchmarks": {"cbt": {"type": "cbt", "paths": [str(path)]}}}).texts()["cbt"].texts()
    ((name, (text,)),) = texts
    assert name == "c.txt:21"
    assert text.endswith('(for the 20th time). "I have seen the mill\'s door!" said Ann.')


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (book("21 No gap .\tmill\t\triver|mill"), ":21: has no XXXXX; mark with it where the word is missing"),
        (book("21 A XXXXX .\tmill\triver|mill"),
         ":21: has 3 parts between tabs; give four: question, answer, nothing, candidates with | between them"),
        (book("21 A XXXXX .\tmill\t\t"), ":21: has the candidates ''; give two or more with | between them"),
        (book("21 A XXXXX .\tmill\t\tmill| "), ":21: has the candidates 'mill|'; give two or more with | between them"),
        (book("21 A XXXXX .\tmill\t\triver|wheel"),
         ":21: has the answer 'mill', which is no candidate; give one of river|wheel"),
        (("1 a", "3 b"), ":2: '3 b' is not line 2 of a question; " + REMEDY),
        (("1 a", ""), ":2: '' is not line 2 of a question; " + REMEDY),
        (("1 a", "2 b"), ":2: ends after 2 lines of a question; " + REMEDY),
        ((" ",), ": holds no text; give a file with text, and bytes that lie in it"),
    ],
)  # fmt: skip
def test_bad_files(write_lines, lines, message):
    assert error_of(ChildrensBooks, write_lines("cbt.txt", *lines)) == message
