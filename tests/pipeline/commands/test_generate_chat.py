"""``headrace generate --chat``, with lines from a pipe."""

import io
import json
import re
import shutil
import signal
from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer

from headrace.pipeline.__main__ import main
from headrace.pipeline.command_line import model_options
from headrace.pipeline.commands import generate as command
from headrace.pipeline.core.signals import Stop
from headrace.train.inference.chat_template import DEFAULT_STOPS
from headrace.train.inference.language_model import LanguageModel
from headrace.train.inference.settings import Inference
from tests.finished import finished
from tests.pipeline.commands.test_generate import root
from tests.train.small_models import story

__all__ = ["root"]

TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'system' and not loop.first %}"
    "{{ raise_exception('the system speaks first') }}{% endif %}"
    "[{{ message['role'] }}] {{ message['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture
def folder(root):
    """A small LLaMA with random weights in Hugging Face's format, without a chat template."""
    return root / "weights" / "0123456789ab" / "hf"


@pytest.fixture
def chat(folder, capsys, monkeypatch):
    """``chat(lines, argument, ...)`` runs the command in this process and returns stdout and stderr."""

    def run(lines: str, *words: str):
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        named = words if "--model" in words else ("--model", str(folder), *words)
        monkeypatch.setattr("sys.argv", ["headrace", "generate", "--chat", *named, "evaluation.device=cpu"])
        main()
        return capsys.readouterr()

    return run


SHORT = ("--max-tokens", "12")


def test_each_line_gets_an_answer_that_knows_those_before(chat, folder):
    """The answers are the continuations of the texts that the default template makes of the messages."""
    found = chat("Hello\n\nWho?\n/reset\n Hello \n/quit\nnever read\n", *SHORT)
    model = LanguageModel.open(folder, Inference(device="cpu"))
    first = "User: Hello\nAssistant:"
    one = model.generate(first, max_tokens=12, stops=DEFAULT_STOPS)
    second = f"{first} {one.strip()}<|endoftext|>\nUser: Who?\nAssistant:"
    two = model.generate(second, max_tokens=12, stops=DEFAULT_STOPS)
    assert one.strip() != two.strip()
    assert found.out == "".join(f"{text.lstrip()}\n" for text in (one, two, one))
    assert found.err == f'{folder} has no chat template: lines "User: …" and "Assistant: …" are used\n'


def test_the_template_of_the_folder_is_that_of_transformers(chat, folder, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    for file in folder.iterdir():
        if file.name != "tokenizer_config.json":
            (own / file.name).symlink_to(file)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (own / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": TEMPLATE}))
    found = chat("Hello\n", "--model", str(own), *SHORT, "--system", "Be short.", "--temperature", "1", "--seed", "3")
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hello"}]
    tokenizer = AutoTokenizer.from_pretrained(own)
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    model = LanguageModel.open(own, Inference(device="cpu"))
    assert found.out.strip() == model.generate(prompt, max_tokens=12, temperature=1, seed=3).strip()
    assert not found.err
    assert prompt == "[system] Be short.<|endoftext|>[user] Hello<|endoftext|>[assistant]"


@pytest.mark.parametrize("template", ["{{ messages | length + 'a' }}", "{% for m in messages %}"])
def test_a_template_with_a_mistake_costs_one_line_a_message(template, chat, folder, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(folder, own)
    (own / "chat_template.jinja").write_text(template)
    found = chat("Hello\n/quit\n", "--model", str(own), *SHORT)
    assert re.match(r"headrace: the chat template: (cannot write these messages|is no Jinja) \(", found.err)
    assert found.err.count("\n") == 1


def test_the_oldest_exchanges_make_room(chat):
    """The window has 256 tokens. A message that does not fit alone is refused, and the conversation goes on."""
    lines = "".join(f"{story(number)[:200]}\n" for number in range(3))
    found = chat(f"{lines}{story(1)}\nHello\n", *SHORT)
    remedy = "244 fit in addition to the answer; write a shorter one, or give a smaller --max-tokens"
    assert re.search(rf"headrace: the message: has \d+ tokens with the template, {remedy}\n", found.err)
    last = found.out.splitlines()[-1]
    assert chat(f"{lines}Hello\n", *SHORT).out.splitlines()[-1] == last  # the refused message changed nothing


def test_ctrl_c_ends_the_answer_and_not_the_command(chat, monkeypatch):
    whole = chat("Hello\n", *SHORT).out
    parts = []

    def interrupted_once(number: int, text: str) -> None:
        parts.append(text)
        print(text, end="")
        if len(parts) == 3:
            raise Stop(signal.SIGINT)

    monkeypatch.setattr(command, "to_file", interrupted_once)
    found = chat("Hello\n/reset\nHello\n", *SHORT).out
    assert found == f"{''.join(parts[:3])}\n{whole}"
    parts[:] = []
    monkeypatch.setattr(command, "to_file", lambda number, text: (_ for _ in ()).throw(Stop(signal.SIGTERM)))
    with pytest.raises(SystemExit) as end:
        chat("Hello\nHello\n", *SHORT)
    assert end.value.code == 128 + signal.SIGTERM


def test_a_run_that_learned_conversations_talks_with_that_model(folder, tmp_path, monkeypatch):
    """Without a template, as a classifier has none, it is the model of the weights."""
    tuned = SimpleNamespace(name="finetuned", folder=tmp_path / "plain", is_whole=True)
    monkeypatch.setattr(model_options, "named_file", lambda root, run: tmp_path)
    monkeypatch.setattr(model_options.SavedRun, "read", lambda path: SimpleNamespace(stages=[tuned]))
    monkeypatch.setattr(model_options, "weights_of", lambda root, run, where: tmp_path / "hf")
    shutil.copytree(folder, tmp_path / "plain" / "hf")
    finished(tmp_path / "plain")
    assert model_options.chat_model_of("runs", "small") == tmp_path / "hf"
    tuned.folder = tmp_path / "talks"
    shutil.copytree(folder, tmp_path / "talks" / "hf")
    (tmp_path / "talks" / "hf" / "chat_template.jinja").write_text(TEMPLATE)
    finished(tmp_path / "talks")
    assert model_options.chat_model_of("runs", "small") == tmp_path / "talks" / "hf"
    tuned.is_whole = False
    assert model_options.chat_model_of("runs", "small") == tmp_path / "hf"


def test_unknown_commands_are_named(chat):
    found = chat("/help\n", *SHORT)
    assert found.err.endswith(
        "/help is no command: /reset begins a new conversation, /quit ends; Ctrl-C ends an answer\n"
    )
    assert not found.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--max-tokens", "256"],
            "generation.max_tokens: is 256, the model's window has 256 tokens, one of them for a prompt; give 255 or "
            "less",
        ),
        (["--prompt", "a"], "--chat: is given with options of a prompt; leave out --prompt, --prompts and --samples"),
    ],
)
def test_a_mistake_gets_one_clear_line(chat, words, message, capsys):
    with pytest.raises(SystemExit) as end:
        chat("Hello\n", *words)
    assert end.value.code == 2
    assert capsys.readouterr().err == f"headrace: {message}\n"
