"""Worked examples and the cut between context and continuation.

Prompts that a chat template writes: the rules by hand, and likelihoods as transformers computes them.
"""

import dataclasses
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing
from transformers import AutoModelForCausalLM, AutoTokenizer

from headrace.data_prep.overlaps import Overlaps
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import canonical, decode
from headrace.pipeline.stages import stages
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.prompt import ChatPrompts, PromptForm, Turns, WorkedExample, encode, shot_numbers
from headrace.train.evaluation.scoring import TemplateTokenizer, score_all, with_form
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.chat_template import ChatTemplate
from headrace.train.inference.generator import generator_of
from headrace.train.inference.queries import Text, TokenQuery
from headrace.train.inference.settings import Sampling
from headrace.train.inference.transformers_model import open_folder
from headrace.train.scores import FolderScores, Scores
from tests.train.evaluation.test_benchmarks import questions, sources
from tests.train.small_models import WINDOW_TOKENS, model_of, story

QUERIES = [f"Q{number}" for number in range(8)] + ["Q3"]


@given(shots=st.integers(0, 7), seed=st.text(max_size=5))
@settings(max_examples=40)
def test_shots_never_include_the_item_or_its_twin(shots, seed):
    for item, numbers in enumerate(shot_numbers(QUERIES, shots, seed)):
        assert len(set(numbers)) == shots
        assert all(QUERIES[number] != QUERIES[item] for number in numbers)


def test_shots_are_the_draws_of_the_harness():
    """One generator for all items, one example more than is needed, the item taken out (ContextSampler.sample)."""
    generator, queries = random.Random(1234), [str(number) for number in range(20)]
    expected = [
        [number for number in generator.sample(range(20), 4) if number != item][:3] for item in range(len(queries))
    ]
    assert shot_numbers(queries, 3, 1234) == expected


def test_too_many_shots():
    with pytest.raises(ConfigError) as caught:
        shot_numbers(["a", "b", "b"], 2, "")
    assert str(caught.value) == "evaluation.benchmarks: 2 shots of 3 records; ask for fewer shots"


def cut_texts(tokens: TokenQuery, encoder) -> tuple[str, str]:
    return encoder.decode(tokens.context), encoder.decode(tokens.continuation)


def test_white_space_moves_to_the_continuation(encoder):
    encoded = encode([Text("the old miller", " turns"), Text("the old miller \n", "turns")], encoder)
    assert [cut_texts(tokens, encoder) for tokens in encoded] == [
        ("the old miller", " turns"),
        ("the old miller", " \nturns"),
    ]


def test_an_empty_context_is_the_end_of_text(encoder):
    for context in ("", "  "):
        (tokens,) = encode([Text(context, "The miller.")], encoder)
        assert tokens.context.tolist() == [encoder.end_of_text]
        assert encoder.decode(tokens.continuation) == context + "The miller."


def test_the_cut_counts_tokens_of_the_context_alone(encoder):
    """If the two merge across the cut, the rest of the whole is scored, as in the harness."""
    (whole,) = encoder.encode(["the old miller"])
    (context,) = encoder.encode(["the old mill"])
    (tokens,) = encode([Text("the old mill", "er")], encoder)
    assert tokens.context.tolist() == context.tolist()
    assert tokens.continuation.tolist() == (whole[len(context) :].tolist() or encoder.encode(["er"])[0].tolist())
    assert len(tokens.continuation)


def test_tokens_pass_through_in_their_place(encoder):
    given_tokens = TokenQuery(np.array([1]), np.array([2, 3]))
    encoded = encode([Text("a b", " c"), given_tokens, Text("d e", " f")], encoder)
    assert encoded[1] is given_tokens
    assert [cut_texts(encoded[i], encoder) for i in (0, 2)] == [("a b", " c"), ("d e", " f")]


MARKED = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
REFUSING = "{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
NO_SYSTEM = "{% for m in messages %}" + REFUSING + "[{{ m.content }}]{% endfor %}"
END = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
TURNS = Turns("2+2?", (WorkedExample("1+1?", " = ", "2"), WorkedExample("3+4?", " = ", "7")), "Add.")


def form(examples: str = "turns", system: str = "", template: str = MARKED) -> PromptForm:
    made = ChatTemplate(template, {})
    return PromptForm(made, examples, system, made.takes_system)


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (PromptForm(), "Add.1+1? = 2\n\n3+4? = 7\n\n2+2?"),
        (
            form(),
            "<system>Add.</><user>1+1?</><assistant>2</><user>3+4?</><assistant>7</><user>2+2?</><assistant>",
        ),
        (form("text"), "<system>Add.</><user>1+1? = 2\n\n3+4? = 7\n\n2+2?</><assistant>"),
        (
            form("text", "You count."),
            "<system>You count.\n\nAdd.</><user>1+1? = 2\n\n3+4? = 7\n\n2+2?</><assistant>",
        ),
        (form("turns", "S", NO_SYSTEM), "[1+1?][2][3+4?][7][2+2?]"),
    ],
)
def test_parts_of_a_prompt_as_one_text(of, text):
    assert of.context(TURNS) == text


BENCHMARKS = {
    "multiple_choice": (
        {"query_suffix": "A:"},
        {"query": "Q", "choices": ["x", "y"], "gold": 1},
        ["QA:"] * 2,
        ["x", "y"],
    ),
    "field_choice": (
        {"prompt": "{q}", "choices": ["x", "y"], "description": "D"},
        {"q": "Q"},
        ["<system>D</>Q"] * 2,
        ["x", "y"],
    ),
    "schema": (
        {},
        {"context_options": ["A", "B"], "continuation": "went", "gold": 0},
        ["A", "B"],
        ["went"] * 2,
    ),
    "lambada": ({"worked_delimiter": "  "}, {"context": "Q", "continuation": "x"}, ["Q"], [" x"]),
    "completion": ({"delimiter": ""}, {"context": "Q", "completion": " x"}, ["Q"], [" x"]),
    "minimal_pairs": ({}, {"sentence_good": "Q", "sentence_bad": "x"}, ["", ""], ["Q", "x"]),
}


@pytest.mark.parametrize("kind", BENCHMARKS)
def test_queries_of_a_benchmark(kind, write_lines):
    """No delimiter is before an answer, but a space of its own stays: that of a target, or the second of two."""
    settings, record, asked, continuations = BENCHMARKS[kind]
    path = str(questions(write_lines, record))
    benchmark = decode(Evaluation, {"benchmarks": {"x": {"type": kind, "paths": [path], **settings}}}).benchmarks["x"]
    (item,) = benchmark.items(dataclasses.replace(sources(), form=form()))
    marked = [text if "</>" in text else f"<user>{text}" for text in asked]
    contexts = [text.replace("</>Q", "</><user>Q") + "</><assistant>" for text in marked]
    assert [query.context for query in item.queries] == contexts
    assert [query.continuation for query in item.queries] == continuations


@pytest.mark.parametrize(
    ("settings", "answer", "continuation"),
    [
        ({}, "x", "y"),
        ({"delimiter": "  "}, " x", " y"),
        ({"delimiter": "\n"}, "x", "y"),
        ({"worked_delimiter": " = "}, "x", "y"),
    ],
)
def test_worked_examples_end_as_answers_begin(settings, answer, continuation, write_lines):
    rows = [{"query": name, "choices": ["x", "y"], "gold": 0} for name in "ab"]
    own = {"type": "multiple_choice", "paths": [str(questions(write_lines, *rows))], "shots": 1, **settings}
    benchmark = decode(Evaluation, {"benchmarks": {"x": own}}).benchmarks["x"]
    item, _ = benchmark.items(dataclasses.replace(sources(), form=form()))
    assert item.queries[1] == Text(f"<user>b</><assistant>{answer}</><user>a</><assistant>", continuation)


def test_bytes_of_the_end_of_a_schema_are_those_without_a_template(write_lines):
    row = {"context_options": ["A", "B"], "continuation": "went", "gold": 0}
    own = {"type": "schema", "paths": [str(questions(write_lines, row))], "own_space": True}
    benchmark = decode(Evaluation, {"benchmarks": {"x": own}}).benchmarks["x"]
    items = [benchmark.items(dataclasses.replace(sources(), form=of))[0] for of in (PromptForm(), form())]
    assert [item.queries[0].continuation for item in items] == ["  went", " went"]
    assert [item.sizes for item in items] == [{"bytes": 5.0}] * 2


@pytest.fixture(scope="module")
def folder(line, tmp_path_factory) -> Path:
    """An exported model whose template writes its token for the end of a text."""
    copied = shutil.copytree(line["weights"].path("hf/config.json").parent, tmp_path_factory.mktemp("own") / "hf")
    file = copied / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": END, "eos_token": "<|endoftext|>"}))
    return copied


def evaluation(write_lines, **chat) -> Evaluation:
    rows = [{"query": story(n)[:30], "choices": [story(n)[30:50], story(n + 9)[:20]], "gold": 0} for n in range(6)]
    own = {"type": "multiple_choice", "paths": [str(questions(write_lines, *rows))], "shots": 1}
    return decode(Evaluation, {"benchmarks": {"x": own}, "chat": chat, "device": "cpu"})


@pytest.mark.parametrize("examples", ["turns", "text"])
def test_likelihoods_are_those_of_transformers(folder, examples, write_lines):
    """The messages are written out here, and rendered, encoded and scored by transformers."""
    asked = evaluation(write_lines, template="own", examples=examples, system="The mill.")
    (scored,) = score_all(asked, None, {}, open_folder(folder, asked))
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    plain = decode(Evaluation, {"benchmarks": {"x": dataclasses.asdict(asked.benchmarks["x"])}}).benchmarks["x"]
    for item, bare, answers in zip(scored.items, plain.items(sources()), scored.answers, strict=True):
        example, _, question = bare.queries[0].context.partition("\n\n")
        turns = [{"role": "user", "content": example[:30]}, {"role": "assistant", "content": example[31:]}]
        messages = [{"role": "system", "content": "The mill."}, *turns, {"role": "user", "content": question}]
        if examples == "text":
            messages[1:] = [{"role": "user", "content": bare.queries[0].context}]
        context = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        for choice, answer in zip(item.choices, answers, strict=True):
            before, whole = tokenizer(context).input_ids, tokenizer(context + choice).input_ids
            assert before.count(tokenizer.eos_token_id) == len(messages)
            read = torch.tensor([whole[-WINDOW_TOKENS - 1 :]])
            with torch.no_grad():
                logits_TV = model(read[:, :-1]).logits[0].log_softmax(-1)
            new = len(whole) - len(before)
            expected = logits_TV[-new:].gather(1, read[0, -new:, None]).sum()
            assert answer.log_likelihood == pytest.approx(float(expected), abs=1e-4)


def test_a_run_is_scored_with_a_template_as_its_folder_is(line, folder, run_stage, write_lines, tmp_path, capsys):
    """One line says that a system's text is left out."""
    file = tmp_path / "template.jinja"
    file.write_text(END.replace("{{ m", "{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ m"))
    asked = evaluation(write_lines, template=str(file), system="The mill.")
    overlaps = run_stage(Overlaps(ngram_words=13), line, tmp_path / "overlaps")
    of_run = run_stage(Scores(evaluation=asked), line | {"overlaps": overlaps}, tmp_path / "run")
    of_folder = run_stage(FolderScores(evaluation=asked, folder=str(folder)), {}, tmp_path / "folder")
    rows = [json.loads(row) for row in of_run.path("samples/x.jsonl").read_text().splitlines()]
    assert rows == [json.loads(row) for row in of_folder.path("samples/x.jsonl").read_text().splitlines()]
    assert all(row["prompts"][0].count("<|endoftext|>") == 3 for row in rows)
    said = "the chat template has no message of the system: evaluation.chat.system and descriptions of benchmarks are "
    assert capsys.readouterr().err.count(said + "left out\n") == 2


def test_special_tokens_are_read_without_a_folder(gpt2, encoder, folder, write_lines, tmp_path):
    """A checkpoint has the tokenizer of the run, which takes special tokens of a page for text."""
    file = tmp_path / "template.jinja"
    file.write_text(END)
    asked = evaluation(write_lines, template=str(file))
    made, model = with_form(asked, model_of(gpt2, encoder))
    assert isinstance(model.tokenizer, TemplateTokenizer)
    text = made.context(Turns(story(1)[:20]))
    assert text == story(1)[:20] + "<|endoftext|>"
    (ids,) = model.tokenizer.encode([text])
    assert ids.tolist() == AutoTokenizer.from_pretrained(folder)(text).input_ids
    assert ids[-1] == encoder.end_of_text != encoder.encode([text])[0][-1]
    assert model.tokenizer.decode(ids) == encoder.decode(ids)
    plain = model_of(gpt2, encoder)
    form_of_plain, written = with_form(Evaluation(), plain)
    assert (form_of_plain, written.tokenizer) == (PromptForm(), encoder)
    assert (written.tokens, written.stops) == (None, ("<|endoftext|>",))


def test_a_document_is_cut_so_that_the_template_fits(folder, write_lines):
    row = {"text": " ".join(story(number) for number in range(3)), "right": "x"}
    own = {"type": "written_answers", "paths": [str(questions(write_lines, row))], "max_tokens": 9, "document": "text"}
    own |= {"prompt": "{text}\nTL;DR:", "answer": "{right}"}
    asked = decode(Evaluation, {"benchmarks": {"x": own}, "device": "cpu"})
    model = open_folder(folder, asked)
    of = form(
        system="The old miller follows the river.", template="{% for m in messages %}({{ m.content }}){% endfor %}"
    )
    read = Sources(Path(), None, "0", tokenizer=model.tokenizer, window_tokens=WINDOW_TOKENS, form=of)
    (item,) = asked.benchmarks["x"].items(read)
    (ids,) = model.tokenizer.encode([item.queries[0].context])
    assert item.queries[0].context.endswith("\nTL;DR:)")
    assert WINDOW_TOKENS - 9 - 16 <= len(ids) <= WINDOW_TOKENS - 9


def test_a_beginning_that_the_template_writes_is_not_repeated(folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "hf")
    tokenizer = AutoTokenizer.from_pretrained(copied)
    end = tokenizer.eos_token_id
    processor = TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", end)])
    tokenizer.backend_tokenizer.post_processor = processor
    tokenizer.save_pretrained(copied)
    model = open_folder(copied, Evaluation(device="cpu"))
    assert model.opening == (end,)
    queries = [Text("<|endoftext|>the old", " miller"), Text("the old", " miller")]
    written, bare = encode(queries, model.tokenizer, model.opening)
    assert written.context.tolist() == bare.context.tolist() == tokenizer("the old").input_ids
    texts = generator_of(model).generate([query.context for query in queries], Sampling(max_tokens=5))
    assert texts[0].tokens == texts[1].tokens
    assert [text.prompt_tokens for text in texts] == [len(bare.context)] * 2
    assert np.array_equal(written.continuation, bare.continuation)


def test_addresses():
    """A template of a file counts by its content, that of the model by its name; the default changes nothing."""
    assert "chat" not in canonical(Evaluation())
    own, path = (canonical(decode(Evaluation, {"chat": {"template": name}})).get("chat") for name in ("own", "x.jinja"))
    assert own == {"revision": 1}
    assert path is None


def test_the_template_of_a_file_is_a_raw_file_and_that_of_a_folder_too(folder, tmp_path):
    (tmp_path / "a.jinja").write_text(MARKED)
    asked = decode(Evaluation, {"chat": {"template": str(tmp_path / "a.jinja")}})
    assert [(file.name, file.bytes) for file in asked.raw_files()] == [("chat_template", len(MARKED))]
    copied = shutil.copytree(folder, tmp_path / "hf")
    (copied / "chat_template.jinja").write_text(END)
    names = [
        {file.name for file in FolderScores(evaluation=of, folder=str(copied)).raw_files()}
        for of in (Evaluation(), decode(Evaluation, {"chat": {"template": "own"}}))
    ]
    assert names[1] - names[0] == {"model/chat_template.jinja"}


@pytest.mark.parametrize(
    ("chat", "message"),
    [
        (
            {"examples": "text"},
            "evaluation.chat.examples: is 'text', and prompts are plain text; give evaluation.chat.template=own, or "
            "the path of one",
        ),
        (
            {"system": "S"},
            "evaluation.chat.system: is 'S', and prompts are plain text; give evaluation.chat.template=own, or the "
            "path of one",
        ),
        (
            {"template": "gone.jinja"},
            "evaluation.chat.template: is 'gone.jinja', and there is no such file; give own, or the path of a file "
            "with a template in Jinja",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(chat, message):
    with pytest.raises(ConfigError) as caught:
        decode(Evaluation, {"chat": chat}).raw_files()
    assert str(caught.value) == message


def test_templates_that_cannot_be_used_are_refused_before_any_stage(tmp_path):
    file = tmp_path / "template.jinja"
    asked = decode(Evaluation, {"chat": {"template": str(file)}})
    file.write_bytes(b"\xe9")
    with pytest.raises(ArtifactError, match=r"is not UTF-8 \(byte 0xe9\)"):
        asked.raw_files()
    file.write_text("{% for %}")
    with pytest.raises(ConfigError, match="the chat template: is no Jinja"):
        asked.raw_files()
    file.write_text("{{ raise_exception('only tools') }}")
    with pytest.raises(ConfigError, match=r"cannot write these messages \(only tools\)"):
        asked.raw_files()


def test_a_run_without_a_template_of_its_own_is_refused_before_it_is_trained(folder, line):
    bare = line["weights"].path("hf/config.json").parent
    own, none = decode(ChatPrompts, {"template": "own"}), ChatPrompts()
    for initial_weights, is_scored_early, problem in (
        (None, False, "the first weights of the run bring no chat template"),
        (str(bare), False, "the first weights of the run bring no chat template"),
        (str(folder), True, "training.evaluate_every scores checkpoints, which have no chat template"),
    ):
        none.check_run(initial_weights, is_scored_early)
        with pytest.raises(ConfigError) as caught:
            own.check_run(initial_weights, is_scored_early)
        assert str(caught.value) == f"evaluation.chat.template: is own, and {problem}; give the path of a template"
    own.check_run(str(folder), False)
    with pytest.raises(ConfigError, match="the first weights of the run bring no chat template"):
        stages(decoded(compose(["experiment=demo", "evaluation.chat.template=own"])))


def test_models_that_have_no_template_or_write_nothing_are_refused(gpt2, encoder):
    own = decode(Evaluation, {"chat": {"template": "own"}})
    with pytest.raises(ConfigError) as caught:
        with_form(own, model_of(gpt2, encoder))
    assert str(caught.value) == (
        "evaluation.chat.template: is own, and the model has no chat template; give the path of a template"
    )
    with pytest.raises(ConfigError) as caught:
        own.check_stack("encoder")
    assert str(caught.value) == (
        "evaluation.chat.template: is 'own', and a model with model.stack=encoder writes no answer; leave it out"
    )
