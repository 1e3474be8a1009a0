"""The formats of GLUE and SQuAD, on small files made here, and fields that a user names."""

import bz2
import gzip
import json
import lzma

import pytest
import zstandard

from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode, settings
from headrace.train.finetune.files import AnyFormat
from headrace.train.finetune.files.examples import AnswerSpan, Example, NamedFields
from headrace.train.finetune.files.published import Glue, Squad

COMPRESS = {".gz": gzip.compress, ".zst": zstandard.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@settings
class Holder:
    format: AnyFormat


@pytest.fixture
def write(tmp_path):
    """``write(name, text)`` returns the path of a file, compressed as its name says."""

    def file(name: str, text: str | bytes):
        content = text.encode() if isinstance(text, str) else text
        content = COMPRESS.get((tmp_path / name).suffix, bytes)(content)
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return file


def lines(*objects: object) -> str:
    return "".join(json.dumps(one) + "\n" for one in objects)


GLUE_FILES = {
    "cola": (
        'gj04\t1\t\tOur friends won\'t "buy" it.\ngj04\t0\t*\tThey drank the pub.\n',
        ({"sentence": 'Our friends won\'t "buy" it.'}, "acceptable", None),
        ({"sentence": "They drank the pub."}, "unacceptable", None),
    ),
    "sst2": (
        'sentence\tlabel\n"hide new secretions \t0\na\u2028b \t1\n',
        ({"sentence": '"hide new secretions '}, "negative", None),
        ({"sentence": "a\u2028b "}, "positive", None),
    ),
    "mrpc": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t70\t71\tA.\tB, \"so\r\n0\t7\t8\tC.\tD.\r\n",
        ({"sentence1": "A.", "sentence2": 'B, "so'}, "equivalent", None),
        ({"sentence1": "C.", "sentence2": "D."}, "not_equivalent", None),
    ),
    "qqp": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tWhy?\tHow?\t0\n4\t5\t6\tIs it?\t\t1\n",
        ({"question1": "Why?", "question2": "How?"}, "not_duplicate", None),
        ({"question1": "Is it?", "question2": ""}, "duplicate", None),
    ),
    "stsb": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        "0\tnews\tx\t2012\t1\tn\tn\tA.\tB.\t4.750\n",
        ({"sentence1": "A.", "sentence2": "B."}, None, 4.75),
    ),
    "mnli": (
        "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\tA.\tB.\tneutral\tneutral\n1\tC.\tD.\tneutral\tentailment\n",
        ({"premise": "A.", "hypothesis": "B."}, "neutral", None),
        ({"premise": "C.", "hypothesis": "D."}, "entailment", None),
    ),
    "qnli": (
        "index\tquestion\tsentence\tlabel\n0\tWho?\tHe.\tnot_entailment\n",
        ({"question": "Who?", "sentence": "He."}, "not_entailment", None),
    ),
    "rte": (
        "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tentailment\n",
        ({"sentence1": "A.", "sentence2": "B."}, "entailment", None),
    ),
    "wnli": (
        "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t1\n",
        ({"sentence1": "A.", "sentence2": "B."}, "entailment", None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("task", GLUE_FILES)
def test_glue(task, write):
    text, *wanted = GLUE_FILES[task]
    reader = decode(Holder, {"format": {"type": "glue", "task": task}}).format
    found = reader.read(write("train.tsv", text))
    assert [(dict(one.texts), one.label, one.value) for one in found.examples] == wanted
    first = 1 if task == "cola" else 2
    assert [one.id for one in found.examples] == [f"train.tsv:{first + number}" for number in range(len(wanted))]
    assert {one.label for one in found.examples} - {None} <= set(reader.classes)
    assert not found.dropped


def test_a_test_file_of_glue_has_no_results(write):
    path = write("test.tsv", "index\tsentence\n0\tA book.\n")
    for task in ("cola", "sst2"):
        (example,) = Glue(task=task).read(path, labelled=False).examples
        assert example == Example(id="test.tsv:2", texts={"sentence": "A book."})


def test_broken_lines_of_glue_are_dropped_with_a_reason(write):
    head = "index\tsentence1\tsentence2\tgold_label\n"
    good = "".join(f"{number}\tA.\tB.\tneutral\n" for number in range(6))
    bad = b"6\tA.\tB.\t-\n7\tA.\tB.\n\n8\tA.\tB\xff\tneutral\n9\t \t\tneutral\n"
    found = Glue(task="mnli").read(write("dev.tsv.gz", head.encode() + good.encode() + bad))
    assert len(found.examples) == 6
    assert found.dropped == {"unknown_label": 1, "wrong_columns": 1, "not_utf8": 1, "blank_text": 1}


HELLASWAG = {
    "ind": 24, "activity_label": "Roof", "ctx_a": "A man sits.", "ctx_b": "he", "ctx": "A man sits. he",
    "split": "val", "split_type": "indomain", "label": 3, "endings": ["eats.", "", "runs.", "sings."], "source_id": "x",
}  # fmt: skip


@pytest.mark.parametrize("labelled", [True, False])
def test_hellaswag_has_a_list_of_endings(write, labelled):
    reader = decode(NamedFields, option_values("finetune", "hellaswag")["task"]["format"])
    unlabelled = {key: value for key, value in HELLASWAG.items() if key != "label"}
    path = write(
        "hellaswag_val.jsonl", lines(HELLASWAG, {**HELLASWAG, "label": 4}, HELLASWAG) if labelled else lines(unlabelled)
    )
    listed = reader.read(path, labelled)
    assert listed.examples[0] == Example(
        id="hellaswag_val.jsonl:1", texts={"ctx": "A man sits. he"}, choices=("eats.", "", "runs.", "sings."),
        gold=3 if labelled else None,
    )  # fmt: skip
    assert listed.dropped == ({"unknown_choice": 1} if labelled else {})


SWAG = """,video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label
0,anetv_1,3416,"People, slowly. A drum","People, slowly.",A drum,gold,passes by.,has heard.,sleeps.,"turns, too.",3
1,anetv_2,3416,He sits. He,He sits.,He,gen,runs.,eats.,,reads.,1
2,anetv_2,3416,He sits. He,He sits.,He,gen,runs.,eats.,sings.,reads.,4
"""


@pytest.mark.parametrize("labelled", [True, False])
def test_swag_has_four_endings_that_begin_with_the_second_sentence(write, labelled):
    found = decode(NamedFields, option_values("finetune", "swag")["task"]["format"]).read(
        write("train.csv", SWAG), labelled
    )
    first, second, *_ = found.examples
    endings = ("passes by.", "has heard.", "sleeps.", "turns, too.")
    assert first == Example(
        id="train.csv:2",
        texts={"sent1": "People, slowly."},
        choices=tuple(f"A drum {ending}" for ending in endings),
        gold=3 if labelled else None,
    )
    assert second.choices == ("He runs.", "He eats.", "He ", "He reads.")
    assert found.dropped == ({"unknown_choice": 1} if labelled else {})


def squad(*questions: dict) -> str:
    context = "The Normans were in Normandy."
    return json.dumps(
        {"version": "v2.0", "data": [{"title": "N", "paragraphs": [{"context": context, "qas": questions}]}]}
    )


def test_squad(write):
    question = {
        "question": "Who?",
        "answers": [{"text": "Normans", "answer_start": 4}, {"text": "Nor", "answer_start": 4}],
    }
    path = write(
        "train-v2.0.json.zst",
        squad(
            {"id": "1", **question},
            {"id": "2", "question": "Why?", "answers": [], "is_impossible": True, "plausible_answers": []},
            {"id": "3", "question": "Who?", "answers": [{"text": "Normans", "answer_start": 5}]},
            {"id": "4", "question": "Who?", "answers": []},
            {"id": "5", **question, "is_impossible": False},
        ),
    )
    found = decode(Holder, {"format": {"type": "squad"}}).format.read(path)
    assert [(one.id, one.answers) for one in found.examples] == [
        ("1", (AnswerSpan("Normans", 4), AnswerSpan("Nor", 4))),
        ("2", ()),
        ("3", (AnswerSpan("Normans", 5),)),
        ("5", (AnswerSpan("Normans", 4), AnswerSpan("Nor", 4))),
    ]
    assert found.examples[0].texts == {"question": "Who?", "context": "The Normans were in Normandy."}
    assert found.dropped == {"no_answer": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", ": has no list of articles in a field 'data'; give a file of SQuAD: "),
        ("[]", ": is no JSON object; give a file of SQuAD: "),
        ('{"data": [{"title": "N"}]}', ": data[0]: is no article (no_field); give a file of SQuAD: "),
    ],
)
def test_another_json_is_not_squad(text, message, write):
    path = write("dev.json", text)
    with pytest.raises(ArtifactError) as caught:
        Squad().read(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_fields_of_the_users_own(write):
    number = NamedFields(texts=("a", "b"), names=("first", "second"), value="score")
    path = write("own.csv", 'a,b,score\n"one, ""two""\nthree",x,1.5\ny,z,nan\nu,v,-2\n')
    found = number.read(path)
    assert [(one.id, dict(one.texts), one.value) for one in found.examples] == [
        ("own.csv:2", {"first": 'one, "two"\nthree', "second": "x"}, 1.5),
        ("own.csv:5", {"first": "u", "second": "v"}, -2.0),
    ]
    assert found.dropped == {"no_number": 1}
    listed = NamedFields(texts=("query",), choices=("choices",), gold="gold")
    path = write(
        "own.jsonl",
        lines({"query": "Q", "choices": ["a", "b"], "gold": 1}, {"query": "Q", "choices": ["a", "b"], "gold": 2})
        + lines({"query": "Q", "choices": ["c", "d"], "gold": 0}),
    )
    found = listed.read(path)
    assert [(one.choices, one.gold) for one in found.examples] == [(("a", "b"), 1), (("c", "d"), 0)]
    assert found.dropped == {"unknown_choice": 1}
    unlabelled = write("test.jsonl", lines({"query": "Q", "choices": ["a", "b"]}, {"query": "Q", "choices": []}))
    assert listed.read(unlabelled, labelled=False).dropped == {"too_few_choices": 1}


def test_a_class_or_an_answer_that_is_not_utf8_is_dropped(write):
    """Latin-1: the name of such a class would end the export of the first seed."""
    found = NamedFields(label="label").read(write("own.tsv", b"text\tlabel\na\t\xe9\nb\tyes\nc\tno\n"))
    assert [one.label for one in found.examples] == ["yes", "no"]
    assert found.dropped == {"not_utf8": 1}
    found = NamedFields(answer="answer").read(write("own.csv", b"text,answer\na,\xe9\nb,yes\n"))
    assert [one.answers for one in found.examples] == [(AnswerSpan("yes"),)]
    assert found.dropped == {"not_utf8": 1}


@pytest.mark.parametrize("number", ["1" + "0" * 50, "1e39", '"Infinity"', '"3,5"', "null", "[1]", "{}"])
def test_a_number_that_fp32_does_not_hold_is_dropped(number, write):
    path = write("own.jsonl", '{"text": "a", "score": 3.4e38}\n{"text": "b", "score": ' + number + "}\n")
    found = NamedFields(value="score").read(path)
    assert [one.value for one in found.examples] == [3.4e38]
    assert found.dropped == {"no_number": 1}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "own.tsv",
            "sentense\tlabel\nA.\t0\nB.\t1\n",
            ": 2 records hold no example (no_field: 2), 0 do; field 'sentence' is missing, did you mean 'sentense'? "
            "(fields: sentense, label)",
        ),
        (
            "own.jsonl",
            "{\n[]\n" + lines({"sentence": "B.", "label": 0}),
            ": 2 records hold no example (not_json: 2), 1 do; check the format and the names of the fields",
        ),
        ("own.tsv", "", ": holds no examples; give a file with one example a line"),
        (
            "own.xml",
            "<a/>",
            ": is of no known format (.xml suffix); name it .tsv, .txt, .csv, .jsonl, .ndjson, .json, also with "
            ".gz, .zst, .bz2, .xz after it",
        ),
    ],
)
def test_a_file_of_another_format_is_refused(name, text, message, write):
    path = write(name, text)
    with pytest.raises(ArtifactError) as caught:
        Glue(task="sst2").read(path)
    assert str(caught.value) == f"{path}{message}"


def test_names_are_as_many_as_texts():
    with pytest.raises(ConfigError) as caught:
        NamedFields(texts=("a", "b"), names=("c",))
    assert str(caught.value) == "finetune.names: there are 1 names and 2 texts; give one name for each text"
