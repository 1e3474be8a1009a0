"""The probabilities of written tokens, compared with those of transformers."""

import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from courses.tests.command_line import courses_here
from headrace.train.inference.generator import generator_of
from headrace.train.inference.settings import Inference, Sampling
from headrace.train.inference.transformers_model import open_folder
from headrace_courses.token_choices import log_probabilities
from tests.pipeline.commands.test_generate import root

__all__ = ["root"]


@pytest.mark.parametrize("sampling", [Sampling(max_tokens=8, temperature=0.7, seed=2), Sampling(max_tokens=8, beams=3)])
def test_the_probabilities_are_those_of_the_model_itself(root, sampling: Sampling) -> None:
    folder = root / "weights" / "0123456789ab" / "hf"
    model = open_folder(folder, Inference(device="cpu"))
    (text,) = generator_of(model).generate(["On day 3"], sampling)
    prompt = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))("On day 3")["input_ids"]
    with torch.no_grad():
        logits_TV = LlamaForCausalLM.from_pretrained(folder).eval()(torch.tensor([[*prompt, *text.tokens]])).logits[0]
    expected_PV = logits_TV[len(prompt) - 1 : -1].log_softmax(-1)
    torch.testing.assert_close(log_probabilities(model, text), expected_PV, atol=1e-4, rtol=0)


def test_each_token_has_a_line_with_others(root) -> None:
    words = ["On day 3", "--max-tokens", "5", "--others", "2", f"root={root}", "evaluation.device=cpu"]
    done = courses_here("token_choices", *words)
    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["token", "p", "-ln", "p", "instead"]
    assert len(lines) == 5
    for line in lines:
        own, *others = [float(word) for word in line.split() if word.startswith("0.") and len(word) == 6]
        assert own >= others[0] >= others[1], "the text is greedy"
