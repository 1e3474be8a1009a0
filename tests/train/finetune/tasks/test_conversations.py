"""Conversations: the loss is that of the answers alone, and the result can be talked to."""

import dataclasses
import io
import json
import time

import numpy as np
import pytest
from transformers import AutoTokenizer

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.__main__ import main
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.pipeline.core.settings import decode
from headrace.train.data.batches import IGNORED
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.session import Material
from headrace.train.finetune.tasks.conversations import Conversations, in_spans
from headrace.train.finetune.tasks.sequences import Form
from headrace.train.inference.chat_template import ChatTemplate
from tests.train.finetune.small_tasks import BAD, FILLERS, GOOD, stage
from tests.train.finetune.tasks.test_text_to_text import DECODER, words_artifact, words_tokenizer

WORDS = ("User", "Assistant", ":", "nice", "sad", "so", *FILLERS, *GOOD, *BAD)
INSTRUCT = (
    "{% for m in messages %}<s>{{ m.role }}\n{{ m.content | trim }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
FORGETFUL = "{{ messages[-1].content }}"
THINKING = (
    "{% set last = messages | map(attribute='role') | list %}"
    "{% for m in messages %}<s>{{ m.role }}\n{% if 'user' in last[loop.index:] %}{{ m.content.split(' so ')[-1] }}"
    "{% else %}{{ m.content }}{% endif %}</s>\n{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
"""A template that writes an answer without its thoughts, the words before "so", when the user goes on."""


def conversation(*contents: str) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": content} for number, content in enumerate(contents)]


def write(path, conversations) -> str:
    path.write_text("".join(json.dumps({"messages": one}) + "\n" for one in conversations))
    return str(path)


def fitted(template: str = "", context: int = 32):
    form = Form(Encoder(words_tokenizer(WORDS)), DECODER, context)
    return decode(Conversations, {"type": "conversations", "template": template}).fitted([], form)


def example(messages: list[dict[str, str]]) -> Example:
    return Example(id="c.jsonl:1", texts={"messages": json.dumps(messages)})


@pytest.mark.parametrize("template", ["", INSTRUCT])
def test_targets_are_the_answers_of_all_turns(template):
    """The rule in another way: the runs of targets, decoded, are the answers with their end tokens."""
    talks = [conversation("a good b", "nice", "c bad", "sad a"), conversation("c", "nice nice", "d", "sad", "a")]
    task = fitted(template)
    rows = task.rows([example(talk) for talk in talks], True)
    arrays = task.arrays(rows)
    tokenizer = words_tokenizer(WORDS)
    for number, talk in enumerate(talks):
        targets = arrays["targets"][number]
        runs = np.split(targets, np.flatnonzero(np.diff(targets == IGNORED)) + 1)
        found = [tokenizer.decode(run.tolist(), skip_special_tokens=False) for run in runs if run[0] != IGNORED]
        assert found == [f"{one['content']} </s>" for one in talk if one["role"] == "assistant"]
        inputs = arrays["inputs"][number][: (arrays["documents"][number] == 0).sum()]
        text = task.template.rendered(talk, False)
        assert inputs.tolist() == tokenizer.encode(text, add_special_tokens=False).ids
    assert task.counts(arrays)["nll"] == 5 + 5


TALKS = [
    conversation("a", "b so nice", "c", "d so sad", "a b"),
    conversation("a", "b so nice"),
    conversation("a", "nice", "c", "d so sad"),
    [{"role": "system", "content": "d"}, *conversation("a", "b so nice", "c", "sad")],
]


def read_before(talk: list[dict[str, str]], number: int) -> str:
    """The text that a model has read when it has written this answer, by hand."""
    earlier = [f"<s>{m['role']}\n{m['content'].rpartition(' so ')[2]}</s>\n" for m in talk[:number]]
    return "".join([*earlier, f"<s>assistant\n{talk[number]['content']}</s>\n"])


def test_an_answer_is_learned_after_what_the_model_will_read():
    """Where the template rewrites earlier answers, each has a row that ends with it; else one row has all."""
    task = fitted(THINKING, context=64)
    rows = task.rows([example(talk) for talk in TALKS], True)
    assert [row.example for row in rows] == [0, 0, 1, 2, 3, 3]
    arrays, tokenizer = task.arrays(rows), words_tokenizer(WORDS)
    last = [(0, [1]), (0, [3]), (1, [1]), (2, [1, 3]), (3, [2]), (3, [4])]
    for number, (talk, answers) in enumerate(last):
        inputs = arrays["inputs"][number][: (arrays["documents"][number] == 0).sum()]
        text = read_before(TALKS[talk], answers[-1])
        assert inputs.tolist() == tokenizer.encode(text, add_special_tokens=False).ids
        targets = arrays["targets"][number]
        learned = "".join(f"{TALKS[talk][answer]['content']}</s>" for answer in answers)
        assert targets[targets != IGNORED].tolist() == tokenizer.encode(learned, add_special_tokens=False).ids


def test_rows_of_a_conversation_have_one_prediction():
    task = fitted(THINKING, context=64)
    examples = [example(TALKS[0]), dataclasses.replace(example(TALKS[1]), id="c.jsonl:2")]
    rows = task.rows(examples, False)
    outputs = [np.array([nll], np.float32) for nll in (2.0, 6.0, 1.0)]
    predictions = task.predictions(examples, rows, outputs)
    assert predictions == [
        {"id": "c.jsonl:1", "prediction": -8.0 / 8, "tokens": 8},
        {"id": "c.jsonl:2", "prediction": -1.0 / 4, "tokens": 4},
    ]
    assert task.scores(examples, predictions) == {"log_likelihood": -9.0 / 12}


def test_answers_beyond_the_context_are_left_out_and_counted():
    talk = conversation("a", "b so nice", "c " * 20, "d so sad")
    (row,) = fitted(THINKING, context=16).rows([example(talk)], True)
    assert row.sequences[0].tokens.tolist() == words_tokenizer(WORDS).encode(read_before(talk, 1)).ids
    assert row.cut_tokens > 0


def test_a_long_conversation_is_cut_at_its_end():
    talk = conversation("a", "nice", "b " * 20, "sad")
    (row,) = fitted(context=16).rows([example(talk)], True)
    assert (len(row.sequences[0].tokens), row.facts["is_answer"].sum(), row.cut_tokens > 0) == (16, 2, True)
    with pytest.raises(ConfigError) as caught:
        fitted(context=16).rows([example(conversation("b " * 20, "sad"))], True)
    assert str(caught.value) == (
        "finetune.context: is 16, and no answer of 1 conversations begins before its end; give a larger one"
    )


@pytest.mark.parametrize(
    ("template", "talk", "message"),
    [
        (
            "",
            conversation("a </s> b", "nice"),
            "finetune.task: a message of c.jsonl:1 holds the special token '</s>'; remove it from the file",
        ),
        (
            FORGETFUL,
            conversation("a", "nice", "b", "sad"),
            "the chat template: writes message 1 in another way than it asks for it; give one that asks for an answer "
            "with its beginning",
        ),
        (
            "{{ raise_exception('no roles') }}",
            conversation("a", "nice"),
            "the chat template: cannot write these messages (no roles); correct it, or the roles of the messages",
        ),
    ],
)
def test_what_cannot_be_masked_is_refused(template, talk, message):
    with pytest.raises(ConfigError) as caught:
        fitted(template).rows([example(talk)], True)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "{% for m in messages %}",
            "is no Jinja (Unexpected end of template. Jinja was looking for the following tags: 'endfor' or 'else'. "
            "The innermost block that needs to be closed is 'for'., line 1); correct it",
        ),
        (
            "{{ messages | length + 'a' }}",
            "cannot write these messages (unsupported operand type(s) for +: 'int' and 'str'); correct it, or the "
            "roles of the messages",
        ),
    ],
)
def test_a_template_that_is_wrong_is_refused_before_any_stage(template, message, tmp_path):
    files = {name: write(tmp_path / f"{name}.jsonl", [conversation(name, "nice")]) for name in ("train", "validation")}
    with pytest.raises(ConfigError) as caught:
        stage(DECODER, files, {"type": "conversations", "template": template}).check_start()
    assert str(caught.value) == f"the chat template: {message}"


def test_the_cost_of_a_conversation_does_not_grow_with_what_is_cut():
    """Twenty thousand turns: each was written twice, with all before it (some 20 minutes)."""
    talk = conversation(*["a", "nice"] * 10_000)
    start = time.process_time()
    (row,) = fitted(context=16).rows([example(talk)], True)
    (short,) = fitted(context=16).rows([example(talk[:16])], True)
    assert time.process_time() - start < 10
    assert row.sequences[0].tokens.tolist() == short.sequences[0].tokens.tolist()
    assert (row.facts["is_answer"] == short.facts["is_answer"]).all()
    assert row.cut_tokens


def test_offsets_in_spans():
    spans = [(2, 4), (4, 5), (9, 12)]
    wanted = [any(first <= place < end for first, end in spans) for place in range(14)]
    assert in_spans(range(14), spans).tolist() == wanted
    assert not in_spans(range(3), []).any()


@pytest.mark.parametrize(
    ("name", "content", "wrong"),
    [
        ("chat_template.jinja", b"\xe9", "is not UTF-8 (byte 0xe9)"),
        ("tokenizer_config.json", b'{"chat_template": 3}', "has a chat_template that is no text"),
        (
            "tokenizer_config.json",
            b'{"chat_template": [{"name": "default", "template": [1]}]}',
            "has a chat_template that",
        ),
        ("tokenizer_config.json", b"[]", "holds no object"),
        ("tokenizer_config.json", b"{", "is not JSON"),
    ],
)
def test_a_template_file_that_is_odd_is_named(name, content, wrong, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ArtifactError) as caught:
        ChatTemplate.of_folder(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / name}: {wrong}")


@pytest.mark.parametrize("templates", ['[{"template": "a"}, {"name": "default"}]', '["a"]', "[]", "null"])
def test_a_list_without_a_default_template_is_none(templates, tmp_path):
    (tmp_path / "tokenizer_config.json").write_text(f'{{"chat_template": {templates}, "eos_token": {{}}}}')
    assert ChatTemplate.of_folder(tmp_path) is None


def test_lines_without_a_conversation_are_dropped(tmp_path):
    bad = [{"role": "tool", "content": "a"}, *conversation("a", "nice")], conversation("a"), [{"role": "user"}]
    path = write(tmp_path / "c.jsonl", [*[conversation("a", "nice")] * 3, *bad])
    examples, dropped = Conversations().read([path])
    assert len(examples) == 3
    assert dropped == {"unknown_role": 1, "no_answer": 1, "no_field": 1}


def test_a_template_of_a_folder_is_read_as_transformers_reads_it(tmp_path):
    words_tokenizer(WORDS).save(str(tmp_path / "tokenizer.json"))
    token = {"__type": "AddedToken", "content": "</s>", "special": True}
    values = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": token, "bos_token": "<pad>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(values))
    (tmp_path / "chat_template.jinja").write_text("{{ bos_token }}" + INSTRUCT)
    template = ChatTemplate.of_folder(tmp_path)
    talk = conversation("a good b", "nice", "c")
    reference = AutoTokenizer.from_pretrained(tmp_path)
    for begins in (True, False):
        wanted = reference.apply_chat_template(talk, tokenize=False, add_generation_prompt=begins)
        assert template.rendered(talk, begins) == wanted


@pytest.mark.parametrize(
    ("of_folder", "expected"),
    [({"eos_token_id": [7, 5]}, [5, 7, 1]), ({"eos_token_id": 5}, [5, 1]), ({"eos_token_id": None}, [1]), (None, None)],
)
def test_the_ends_of_the_folder_that_is_tuned_go_with_the_model(of_folder, expected, tmp_path):
    """Its template may end a turn with a token that only its generation_config.json names; 1 is ``</s>``.

    The export has that file already (predecessor.py).
    """
    given, written = tmp_path / "given", tmp_path / "written"
    for folder in (given, written):
        folder.mkdir()
        words_tokenizer(WORDS).save(str(folder / "tokenizer.json"))
        write_json(folder / "tokenizer_config.json", {"eos_token": "</s>", "chat_template": INSTRUCT})
    write_json(written / "config.json", {"eos_token_id": None})
    if of_folder is not None:
        write_json(written / "generation_config.json", of_folder)
    form = Form(Encoder.load(given / "tokenizer.json"), DECODER, 32, given)
    decode(Conversations, {"type": "conversations"}).fitted([], form).complete(written)
    file = written / "generation_config.json"
    assert (read_json(file)["eos_token_id"] if file.is_file() else None) == expected


def test_a_conversation_beyond_the_context_is_counted(tmp_path):
    talks = [conversation("a", "nice"), conversation("b " * 40, "sad"), conversation("c", "nice")]
    files = {
        "train": write(tmp_path / "train.jsonl", talks),
        "validation": write(tmp_path / "validation.jsonl", [conversation("d", "sad"), conversation("e " * 40, "sad")]),
    }
    tuning = stage(DECODER, files, {"type": "conversations"}, context=16)
    tokenizer_file = words_artifact(tmp_path / "tokenizer", WORDS).path("tokenizer.json")
    material = Material.read(tuning, tokenizer_file, None)
    assert material.dropped == {"train": {"beyond_context": 1}, "validation": {"beyond_context": 1}}


@pytest.mark.slow
def test_a_decoder_learns_to_answer_and_generate_chats_with_it(tmp_path, run_stage, monkeypatch, capsys):
    talks = [
        conversation(f"{a} {word} {b}", answer, f"{b} {a}", "a")
        for words, answer in ((GOOD, "nice"), (BAD, "sad"))
        for word in words
        for a, b in zip(FILLERS[:10], FILLERS[3:13], strict=True)
    ]
    files = {
        "train": write(tmp_path / "train.jsonl", [talk for n, talk in enumerate(talks) if n % 5]),
        "validation": write(tmp_path / "validation.jsonl", talks[::5]),
    }
    settings = stage(DECODER, files, {"type": "conversations"}, context=32, epochs=24)
    inputs = {"tokenizer": words_artifact(tmp_path / "tokenizer", WORDS)}
    artifact = run_stage(settings, inputs, tmp_path / "finetuned")
    assert read_json(artifact.path("scores.json"))["scores"]["log_likelihood"]["mean"] > -0.1
    monkeypatch.setattr("sys.stdin", io.StringIO("a good d\n/reset\nb bad e\n"))
    model = ["--model", str(artifact.folder / "hf")]
    monkeypatch.setattr("sys.argv", ["headrace", "generate", "--chat", *model, "--max-tokens", "4"])
    main()
    found = capsys.readouterr()
    assert found.out.split() == ["nice", "sad"]
    assert "no chat template" not in found.err
