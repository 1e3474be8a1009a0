"""``headrace fill``, and the refusals of settings that an encoder cannot have, as a person meets them."""

import math
import re

import pytest
import torch

from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.train.config import ModelConfig
from headrace.train.families.hf_folder import export
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from tests.command_line import headrace_here

SIZES = {"layers": 1, "width": 16, "heads": 2, "kv_heads": 2, "context": 24, "mlp_width": 32}
BERT = {
    **{"stack": "encoder", "norm_place": "post", "activation": "gelu_exact", "segments": 2},
    **{"embedding_norm": True, "output_transform": True},
}

ENCODER = ("model=bert_demo", "objective=masked", "evaluation=pairs")


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


def test_candidates_are_printed_for_each_place(folders):
    done = headrace_here("fill", "a [MASK] b [MASK]", "--model", str(folders / "encoder"), "--top", "3")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["1"] * 3 + ["2"] * 3
    fields = [re.fullmatch(r"\d  (\d\.\d{4})  (\d+\.\d{3})  .*", line) for line in lines]
    shares, nats = ([float(field[number]) for field in fields] for number in (1, 2))
    assert shares == pytest.approx([math.exp(-value) for value in nats], abs=1e-3)
    assert shares[:3] == sorted(shares[:3], reverse=True)
    assert 0 < sum(shares[:3]) <= 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["fill", "no place", "--model", "{}/encoder"],
            "headrace: TEXT: has no masked position: 'no place'; write [MASK]",
        ),
        (
            ["fill", "a [MASK]", "--model", "{}/decoder"],
            "/decoder' holds a model of stack decoder, which fills no masked position; give",
        ),
        (["fill", "a [MASK]", "--model", "{}"], "has no config.json; give the folder of a Hugging Face model"),
        (
            ["generate", "--prompt", "a", "--model", "{}/encoder"],
            "is an encoder (model.stack=encoder), which continues",
        ),
        (
            ["objective=masked"],
            "objective: masked trains a stack encoder, and model.stack is decoder; give a model of stack encoder",
        ),
        (
            ["model=bert_demo", "objective=masked", "packing.row_tokens=128"],
            "evaluation.benchmarks.continuations: type continuations needs a text's likelihood from left to right, and "
            "model.stack is encoder; leave it out: evaluation=pairs holds what every stack can answer",
        ),
        (
            [*ENCODER, "packing.method=concatenate", "packing.row_tokens=128"],
            "packing.method: concatenate makes no rows for this objective (masked); give packing.method=best_fit or "
            "padded",
        ),
        (
            [*ENCODER, "packing.row_tokens=2"],
            "packing.row_tokens: 2 leaves no position for text: objective=masked",
        ),
        (
            [*ENCODER, "model.norm_place=after", "model.first_attention_norm=false"],
            "first_attention_norm false needs norm_place pre or sandwich, not after",
        ),
    ],
)
def test_impossible_combinations_are_refused(folders, arguments, said):
    done = headrace_here(*(argument.format(folders) for argument in arguments))
    assert done.returncode == 2
    assert said in done.stderr


def test_the_demo_is_an_encoder_scored_by_pairs():
    shown = headrace_here("config", "experiment=bert_demo")
    assert shown.returncode == 0, shown.stderr
    assert {"  stack: encoder", "  type: masked"} <= {
        line.partition("  #")[0].rstrip() for line in shown.stdout.split("\n")
    }
    assert "type: held_out_order" in shown.stdout
