"""Tagged words as they are published: columns of CoNLL-2003, CoNLL-U, and JSON lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.settings import decode, settings
from headrace.train.finetune.files import AnyFormat
from headrace.train.finetune.files.examples import Example


@settings
class Holder:
    format: AnyFormat


def reader(**values: Any) -> Any:
    return decode(Holder, {"format": values}).format


def preset(name: str) -> Any:
    return decode(Holder, {"format": option_values("finetune", name)["task"]["format"]}).format


CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
# NN B-NP O

-DOCSTART- -X- O O
Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER


BRUSSELS NNP
"""
CONLLU = """# sent_id = 1
# text = Don't go. 10 000 left.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tgo\tgo\tVERB\t_\t_\t_\t_\t_\t_
4\t10 000\t10 000\tNUM\tCD\t_\t3\tobj\t_\t_

# sent_id = 2
1\tYes\tyes\t_\tUH\t_\t0\troot\t_\t_

1\tNo\tno\tINTJ\tUH\t_\t0\troot\t_\t_
"""


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_columns_of_conll_2003(ends: str, tmp_path: Path) -> None:
    path = tmp_path / "eng.testa"
    path.write_text(CONLL.replace("\n", ends), newline="")
    listed = preset("conll2003").read(path)
    assert listed.examples == (
        Example(
            id="eng.testa:3", texts={"words": "EU rejects #"}, words=("EU", "rejects", "#"), tags=("B-ORG", "O", "O")
        ),
        Example(
            id="eng.testa:8", texts={"words": "Peter Blackburn"}, words=("Peter", "Blackburn"), tags=("B-PER", "I-PER")
        ),
    )
    assert listed.dropped == {"wrong_columns": 1}
    unlabelled = preset("conll2003").read(path, labelled=False)
    assert [example.words for example in unlabelled.examples][-1] == ("BRUSSELS",)
    assert {example.tags for example in unlabelled.examples} == {None}


def test_columns_are_those_of_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("#begin document\nDT\tthe  old\tO\nNN\tmill\tB-x\n#end\n\nlonely\n\nX\ta\tO\n")
    listed = reader(type="conll", word=1, label=None, separator="tab", comment="#").read(path)
    assert [(example.words, example.tags) for example in listed.examples] == [
        (("the  old", "mill"), ("O", "B-x")),
        (("a",), ("O",)),
    ]
    assert listed.dropped == {"wrong_columns": 1}
    path.write_text("O a\nB-x b\n")
    assert reader(type="conll", word=1, label=0).read(path).examples[0].tags == ("O", "B-x")
    with pytest.raises(ArtifactError, match="wrong_columns"):
        reader(type="conll", word=1, label=1).read(path)


def test_conll_u_has_words_without_comments_ranges_and_empty_words(tmp_path: Path) -> None:
    path = tmp_path / "en-ud-dev.conllu"
    path.write_text(CONLLU)
    listed = preset("ud_pos").read(path)
    first, last = listed.examples
    assert first.words == ("Do", "n't", "go", "10 000")
    assert first.tags == ("AUX", "PART", "VERB", "NUM")
    assert (last.id, last.tags) == ("en-ud-dev.conllu:13", ("INTJ",))
    assert listed.dropped == {"no_label": 1}
    relations = reader(type="conllu", label="deprel").read(path).examples
    assert relations[0].tags == ("aux", "advmod", "root", "obj")
    assert reader(type="conllu").read(path, labelled=False).examples[1].words == ("Yes",)
    path.write_text("1\tYes\tINTJ\n\n" * 2)
    with pytest.raises(ArtifactError, match="wrong_columns: 2"):
        reader(type="conllu").read(path)


def test_json_lines_have_texts_or_numbers_as_tags(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    rows = [
        {"words": ["Ann", "slept"], "ner": [1, 0]},
        {"words": ["Bob"], "ner": ["B-PER"]},
        {"words": ["a", "b"], "ner": [0]},
        {"words": ["a"], "ner": [2]},
        {"words": ["a"], "ner": [True]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:2] * 3 + rows[2:]))
    named = reader(type="tagged_words", words="words", tags="ner", names=["O", "B-PER"])
    listed = named.read(path)
    assert [example.tags for example in listed.examples[:2]] == [("B-PER", "O"), ("B-PER",)]
    assert listed.dropped == {"wrong_lengths": 1, "unknown_label": 1, "no_label": 1}
    assert named.classes == ("O", "B-PER")
    assert len(named.read(path, labelled=False).examples) == 9
    plain = reader(type="tagged_words", words="words", tags="ner").read(path)
    assert [example.tags for example in plain.examples[:2]] == [("1", "0"), ("B-PER",)]
