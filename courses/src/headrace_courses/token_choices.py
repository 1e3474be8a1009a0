"""The probability of each token of a text that a decoder writes, and the likeliest other tokens in its place.

python -m headrace_courses.token_choices "The mill" --others 3 --run small

    token   p       -ln p  instead
    ␣wheel  0.4120  0.887  ␣stone 0.2010 (1.604), ␣river 0.0713 (2.641), ␣stands 0.0488 (3.020)

Probabilities are the model's own, before temperature, top k and top p change the choice.
"""

from collections.abc import Sequence

import click
import torch

from headrace.pipeline.command_line.declaration import command, run_option, sampling_options
from headrace.pipeline.command_line.model_options import given_sampling, model_folder, sampling_of
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.output.terminal import show_rows
from headrace.train.inference.generator import Generation, generator_of
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import with_opening
from headrace.train.inference.transformers_model import open_folder
from headrace_courses.program import run as run_program
from headrace_courses.row_example import token_name


@command
@click.argument("prompt", metavar="PROMPT")
@click.option("--others", metavar="K", default="3", show_default=True, help="Other tokens in the place of each.")
@click.option("--model", metavar="FOLDER", default="", type=click.Path(), help="A model in Hugging Face's format.")
@sampling_options
@run_option
def token_choices(overrides: Sequence[str], prompt: str, others: str, model: str, run: str, **sampling: str) -> None:
    """Prints each token that a decoder writes after PROMPT, with its probability and that of others."""
    config, given = config_of(overrides), given_sampling(sampling)
    number, folder = value_of(Positive, others, "--others"), model_folder(config.root, model, run)
    opened = open_folder(folder, config.evaluation)
    (text,) = generator_of(opened).generate([prompt], sampling_of(given, folder))
    log_probs_PV = log_probabilities(opened, text)
    rows = []
    for log_probs_V, token in zip(log_probs_PV, text.tokens, strict=True):
        best = [other for other in log_probs_V.topk(number + 1).indices.tolist() if other != token][:number]
        written, *instead = (
            (token_name(opened.tokenizer.decode([one])), float(log_probs_V[one].exp()), -float(log_probs_V[one]))
            for one in (token, *best)
        )
        alternatives = ", ".join(f"{name} {p:.4f} ({nats:.3f})" for name, p, nats in instead)
        rows.append((written[0], f"{written[1]:.4f}", f"{written[2]:.3f}", alternatives))
    show_rows(("token", "p", "-ln p", "instead"), rows)


@torch.inference_mode()
def log_probabilities(model: InferenceModel, text: Generation) -> torch.Tensor:
    """Returns ln p of all tokens before each token of ``text``, log_probs_PV in fp32."""
    ids = model.tokenizer.encode([text.prompt])[0].tolist()
    prompt = with_opening(ids, list(model.opening)) if ids else [model.tokenizer.end_of_text]
    read = torch.tensor([[*prompt[-text.prompt_tokens :], *text.tokens[:-1]]], device=model.device)
    logits_TV = model.network(read, torch.arange(read.shape[1], device=model.device)[None], torch.zeros_like(read))[0]
    return logits_TV[text.prompt_tokens - 1 :, : model.tokens].float().log_softmax(-1)


if __name__ == "__main__":
    run_program(token_choices)
