"""Words become ordinary text, and come back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.train.evaluation.file_records import read_text
from headrace_courses.detokenizers import PENN_TREEBANK, STRAIGHT, TREEBANK_TEXT, WIKITEXT, Detokenizer

STYLES = {
    "wikitext": WIKITEXT,
    "penn_treebank": PENN_TREEBANK,
    "one_billion_words": STRAIGHT,
    "treebank": TREEBANK_TEXT,
}
ANY = """
The cat 12 3 U.S. Mr. A. boys x-ray . , ; : ! ? ... ( ) [ ] $ £ % " `` '' ' 's 't n't 'll @-@ @,@ @.@ / - -- = <unk>
N -LRB- -RRB- ". can't a/b Māori °
"""
WORDS = st.sampled_from(ANY.split())


@pytest.mark.parametrize(
    ("style", "words", "text"),
    [
        ("wikitext", " = Homarus gammarus = ", "= Homarus gammarus ="),
        ("wikitext", "The 12 @-@ year @-@ old ( or 13 ) isn 't here .", "The 12-year-old (or 13) isn't here."),
        ("wikitext", "7 @,@ 000 km / h , 0 @.@ 7 % and £ 5", "7,000 km/h, 0.7% and £5"),
        ("wikitext", 'He said " It \'s a <unk> . " ( " why ? " )', 'He said "It\'s a <unk>." ("why?")'),
        ("wikitext", "H. americanus met Mr. Low . It rained .", "H. americanus met Mr. Low. It rained."),
        ("wikitext", "the lobsters ' <unk> ; the U.S. 's", "the lobsters' <unk>; the U.S.'s"),
        ("wikitext", "<unk> @-@ like , the <unk> 's", "<unk>-like, the <unk>'s"),
        ("wikitext", "in the U.S .", "in the U.S ."),
        ("wikitext", "a well-known fact , though", "a well-known fact , though"),
        ("wikitext", " ", ""),
        ("penn_treebank", "the company 's profit rose $ N or N %", "the company's profit rose $N or N%"),
        ("penn_treebank", "mr. <unk> of pierce co. did n't say", "mr. <unk> of pierce co. didn't say"),
        ("one_billion_words", 'Crazy Talk : " They don \'t know ! "', 'Crazy Talk: "They don\'t know!"'),
        ("treebank", "`` I do n't know , '' said Ann -LRB- aloud -RRB- .", '"I don\'t know," said Ann (aloud).'),
    ],
)
def test_examples(style, words, text):
    assert STYLES[style].text(words) == text
    assert STYLES[style].words(text) == words.split() or text == words


@pytest.mark.parametrize("style", STYLES)
@given(st.lists(WORDS, max_size=12))
def test_words_come_back_or_stay_as_they_are(style, words):
    detokenizer = STYLES[style]
    text = detokenizer.detokenize(" ".join(words))
    assert detokenizer.words(text) == words or text == " ".join(words)


@pytest.mark.parametrize(("style", "name", "unlike"), [("wikitext", "wikitext2", 1), ("penn_treebank", "ptb", 0)])
def test_real_files_come_back(data_folder, style, name, unlike):
    """No two lines give one text. One of WikiText-2's first 1,000 lines has "." before "...", and stays unchanged."""
    lines = read_text(data_folder("evaluation") / f"{name}_valid.txt.zst").split("\n")[:1000]
    detokenizer = STYLES[style]
    texts = [detokenizer.detokenize(line) for line in lines]
    assert [line.split() for line in lines] == [detokenizer.words(text) for text in texts]
    assert len(set(texts)) == len({tuple(line.split()) for line in lines})
    assert sum(" , " in text for text in texts) == unlike


def test_lines_stay_lines():
    assert WIKITEXT.text(" \n = A = \n \n It is . \n") == "\n= A =\n\nIt is.\n"


def test_nothing_joined_where_nothing_is_said():
    assert Detokenizer().text("a , b . \n ( c )") == "a , b .\n( c )"
    assert re.fullmatch(r"\( c \)", Detokenizer().text("( c )"))
