"""The probabilities of written tokens, compared with those of transformers."""

import re

import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from courses.tests.command_line import courses_here
from headrace.pipeline.report.formatting import token_name
from tests.pipeline.commands.test_generate import root

__all__ = ["root"]


@pytest.mark.parametrize("way", [["--temperature=0"], ["--temperature", "0.7", "--top-k", "5", "--seed", "2"]])
def test_the_probabilities_are_those_of_the_model_itself(root, way) -> None:
    folder = root / "weights" / "0123456789ab" / "hf"
    words = ["On day 3", "--max-tokens", "8", "--others", "2", "--model", str(folder), *way, "evaluation.device=cpu"]
    done = courses_here("token_choices", *words)
    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["token", "p", "-ln", "p", "instead"]
    assert len(lines) == 8
    theirs = LlamaForCausalLM.from_pretrained(folder).eval()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    names = [token_name(tokenizer.decode([token])) for token in range(len(tokenizer))]
    tokens = tokenizer("On day 3")["input_ids"]
    for line in lines:
        with torch.no_grad():
            shares_V = theirs(torch.tensor([tokens])).logits[0, -1].softmax(-1)
        own, *others = [float(share) for share in re.findall(r" (0\.\d{4})\b", line)]
        (token,) = [
            token for token, name in enumerate(names)
            if name == line.split()[0] and float(shares_V[token]) == pytest.approx(own, abs=1e-4)
        ]  # fmt: skip
        best = [float(shares_V[other]) for other in shares_V.topk(3).indices if int(other) != token][:2]
        assert others == pytest.approx(best, abs=1e-4)
        tokens.append(token)
