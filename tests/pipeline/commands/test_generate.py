"""``headrace generate``, as a person calls it."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch

from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenizer import Tokenizer
from headrace.pipeline.__main__ import main
from headrace.pipeline.api.run import Run
from headrace.pipeline.command_line.model_options import weights_of
from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.families.hf_folder import export
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from tests.command_line import headrace_here, understood
from tests.finished import finished
from tests.train.small_models import story
from tests.unique_documents import unique_documents


@pytest.fixture(scope="module")
def root(tmp_path_factory, run_stage):
    """A root with the finished weights of a tiny LLaMA."""
    root = tmp_path_factory.mktemp("root")
    unique = unique_documents(root / "unique", [[story(number) for number in range(20)]])
    tokenizer = run_stage(Tokenizer(settings=Trained(vocabulary_size=300)), {"unique": unique}, root / "tokenizer")
    config = ModelConfig(
        layers=2, width=32, heads=4, kv_heads=2, context=256, mlp_width=48,
        positions="rope", norm="rmsnorm", activation="swiglu", bias=False, tied=False,
    )  # fmt: skip
    model = Transformer(config, 300)
    initialize(model, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6 if parameter.dim() >= 2 else 1)
    weights = root / "weights" / "0123456789ab"
    export(model.named_parameters(), config, 300, tokenizer.path("tokenizer.json"), weights / "hf")
    finished(weights)
    return root


@pytest.fixture
def generate(root, capsys, monkeypatch):
    """``generate(argument, ...)`` runs the command in this process and returns stdout and stderr."""

    def run(*words: str):
        own_root = [] if any(word.startswith("root=") for word in words) else [f"root={root}"]
        monkeypatch.setattr("sys.argv", ["headrace", "generate", *words, *own_root, "evaluation.device=cpu"])
        main()
        return capsys.readouterr()

    return run


def test_one_text_and_a_file_of_prompts(generate, root, tmp_path):
    """The text of one prompt alone is that of the same prompt among others; the memory is the formula's."""
    alone = generate("--prompt", "On day 3", "--max-tokens", "20", "--temperature", "1", "--seed", "4")
    prompts = tmp_path / "prompts.jsonl"
    lines = ["The old miller", "On day 3", "On day 3", "The old\nriver " * 100]
    prompts.write_text("".join(json.dumps({"prompt": line}) + "\n" for line in lines))
    words = ("--max-tokens=20", "--temperature=1", "--seed=4")
    model = root / "weights" / "0123456789ab" / "hf"
    found = generate("--prompts", str(prompts), *words, "--model", str(model))
    rows = [json.loads(line) for line in found.out.splitlines()]
    assert [row["prompt"] for row in rows] == lines
    assert rows[1]["text"] + "\n" == alone.out
    assert rows[2]["text"] != rows[1]["text"]
    assert [row["lost_prompt_tokens"] > 0 for row in rows] == [False, False, False, True]
    assert "cache: 256 bytes a token = 2 · 2 layers · 2 key/value heads · 8 wide · 4 bytes; " in alone.err
    assert "65,536 bytes for the longest sequence" in found.err
    assert "cut on the left, to fit the window with the new tokens: 1 prompts" in found.err


def test_a_damaged_model_of_a_run_is_named(root, tmp_path):
    """A digit of config.json is another one: the shape would still be one that the weights fit."""
    folder = tmp_path / "weights" / "0123456789ab"
    shutil.copytree(root / "weights" / "0123456789ab", folder)
    config = folder / "hf" / "config.json"
    config.write_text(config.read_text().replace('"rms_norm_eps": 1e-05', '"rms_norm_eps": 1e-03'))
    saved = SimpleNamespace(stages=[SimpleNamespace(name="weights", folder=folder)])
    for opened in (lambda: weights_of(str(tmp_path), ""), lambda: Run(saved).model("cpu")):
        with pytest.raises(ArtifactError) as error:
            opened()
        assert str(error.value) == f"{config}: is damaged or missing; remove {folder} and run again"


def test_beam_search_draws_no_random_token(generate, capsys):
    words = ("--prompt", "On day 3", "--max-tokens", "10", "--beams", "4")
    assert generate(*words).out == generate(*words, "--seed", "5").out
    assert generate(*words, "--length-penalty", "2").out
    for more, message in {
        ("--temperature", "0.5"): "--beams: is 4 with a temperature of 0.5, and beam search draws no random token",
        ("--beams", "1", "--length-penalty", "0.6"): "--length-penalty: is 0.6 without beam search; give beams",
    }.items():
        with pytest.raises(SystemExit):
            generate(*words, *more)
        assert message in capsys.readouterr().err


def test_samples_and_stops(generate):
    words = ("--prompt", "The", "--samples", "3", "--temperature", "1", "--max-tokens", "30", "--stop", '["e", "a"]')
    rows = [json.loads(line) for line in generate(*words).out.splitlines()]
    assert len(rows) == 3
    assert not any(letter in row["text"] for row in rows for letter in "ea")
    assert {row["ending"] for row in rows} & {"stop"}


def test_the_models_own_sampling_counts_unless_another_is_given(generate, root, tmp_path):
    model = shutil.copytree(root / "weights" / "0123456789ab" / "hf", tmp_path / "model")
    words = ("--prompt", "The", "--model", str(model), "--max-tokens", "20", "--seed", "3")
    greedy = generate(*words)
    file = model / "generation_config.json"
    file.write_text('{"do_sample": true, "temperature": 2.0}')
    drawn = generate(*words)
    line = f"{file}: temperature 2.0, top_k 50, top_p 1.0 (--temperature 0 is greedy)\n"
    assert line in drawn.err
    assert drawn.out == generate(*words, "--temperature", "2", "--top-k", "50").out != greedy.out
    for more in (("--temperature", "0"), ("--beams", "1", "--temperature", "0")):
        again = generate(*words, *more)
        assert (again.out, str(file) in again.err) == (greedy.out, False)
    assert str(file) not in generate(*words, "--beams", "2").err


def test_an_empty_prompt_is_the_beginning_of_a_text(generate):
    end = generate("--prompt", "<|endoftext|>", "--max-tokens", "20")  # the model reads this token
    assert generate("--prompt", "", "--max-tokens", "20").out == end.out
    assert generate("--prompt=", "--max-tokens", "20").out == end.out


A = ("--prompt", "a")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--prompt: no prompt is given; give --prompt TEXT, or --prompts FILE with one a line"),
        ([*A, "--prompts", "f"], "--prompt: both --prompt and --prompts are given; give --prompt TEXT, or --pro"),
        ([*A, "--top-p", "1.5"], "--top-p: must be at most 1 (got '1.5'); correct the value"),
        ([*A, "--seed", "x"], "--seed: must be a whole number (got 'x'); correct the value"),
        ([*A, "--samples", "0"], "--samples: must be at least 1 (got '0'); correct the value"),
        (
            ["--prompt", "a", "--stop", "[1"],
            """--stop: '[1' is not JSON (Expecting ',' delimiter: line 1 column 3 (char 2)); """,
        ),
        (["--prompts", "no/such"], "--prompts: cannot read 'no/such' (No such file or directory); name a text file"),
        (
            ["--prompt", "a", "root=no/such"],
            "--model: no training is finished below 'no/such'; name a folder with a model, or ",
        ),
        (
            ["--prompt", "a", "--model", "no/such"],
            "--model: 'no/such' has no config.json; give the folder of a Hugging Face model",
        ),
        (
            ["--prompt", "a", "--max_tokens", "3"],
            "command line: generate has no option '--max_tokens'; did you mean '--max-tok",
        ),
    ],
)
def test_a_mistake_gets_one_clear_line(generate, words, message, capsys):
    with pytest.raises(SystemExit) as end:
        generate(*words)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith(f"headrace: {message}")


def test_a_broken_line_of_prompts_is_named(generate, tmp_path, capsys):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "a"}\n{"text": "b"}\n')
    with pytest.raises(SystemExit):
        generate("--prompts", str(prompts))
    assert (
        capsys.readouterr().err
        == f'headrace: {prompts}:2: has no text in a field \'prompt\'; write {{"prompt": "…"}}\n'
    )


def test_a_prompt_may_hold_an_equals_sign():
    for prompt in ("a = b", "root=y", "--x=1"):
        assert understood("generate", "--prompt", prompt, "root=x") == ({"prompt": prompt}, ["root=x"])
        assert understood("generate", f"--prompt={prompt}", "root=x") == ({"prompt": prompt}, ["root=x"])


SIZES = {"layers": 1, "width": 16, "heads": 2, "kv_heads": 2, "context": 24, "mlp_width": 32}
BERT = {
    **{"stack": "encoder", "norm_place": "post", "activation": "gelu_exact", "segments": 2},
    **{"embedding_norm": True, "output_transform": True},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folders of a random encoder and a random decoder."""
    root = tmp_path_factory.mktemp("models")
    (root / "given.json").write_text(Trained(vocabulary_size=270).train(["a"], ("[CLS]", "[SEP]", "[MASK]")))
    for name, parts in (("encoder", BERT), ("decoder", {})):
        config = ModelConfig(**SIZES, **parts)
        model = Transformer(config, 260)
        initialize(model, 1)
        with torch.no_grad():
            model.embedding.weight.mul_(20)
        export(model.named_parameters(), config, 260, root / "given.json", root / name)
    return root


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["generate", "--prompt", "a", "--model", "{}/encoder"],
            "is an encoder (model.stack=encoder), which continues",
        ),
    ],
)
def test_impossible_combinations_are_refused(folders, arguments, said):
    done = headrace_here(*(argument.format(folders) for argument in arguments))
    assert done.returncode == 2
    assert said in done.stderr
