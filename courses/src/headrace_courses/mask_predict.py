"""Fills all masked positions of a text together, so that the tokens fit each other.

python -m headrace_courses.mask_predict "The [MASK] [MASK] ." --steps 4                  your newest weights
python -m headrace_courses.mask_predict "The [MASK] [MASK] ." --model path/to/bert       any BERT or RoBERTa

Mask-Predict (Ghazvininejad et al. 2019) with 3 steps: the least certain tokens are masked and predicted again.

    The [MASK] [MASK] [MASK] .      all positions at once
    The  old   old    mill   .      2 of 3 are masked again:  The  old  [MASK] [MASK] .
    The  old   water  mill   .      1 of 3:                   The  old  [MASK]  mill  .

Shapes: T tokens of the sequence, K masked positions, V vocabulary.
"""

from collections.abc import Sequence

import click
import numpy as np
import torch

from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.model_options import model_folder
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.report.formatting import visible
from headrace.train.inference.encoder_likelihood import Ids, MaskedLikelihood, logits_at
from headrace.train.inference.transformers_model import open_folder
from headrace_courses.fill_mask import encoder_of, masked_sequence
from headrace_courses.program import run as run_program


@command
@click.argument("text", metavar="TEXT")
@click.option("--model", metavar="FOLDER", default="", type=click.Path(), help="A model in Hugging Face's format.")
@click.option("--steps", metavar="N", default="10", show_default=True, help="Passes over the text.")
@run_option
def mask_predict(overrides: Sequence[str], text: str, model: str, steps: str, run: str) -> None:
    """Prints TEXT with a token at each [MASK], all predicted together by an encoder."""
    config, passes = config_of(overrides), value_of(Positive, steps, "--steps")
    folder = model_folder(config.root, model, run)
    opened = open_folder(folder, config.evaluation)
    likelihood = encoder_of(opened, folder)
    sequence_T = masked_sequence(opened, likelihood, text)
    fill(likelihood, sequence_T, passes)
    whole = opened.tokenizer.decode(sequence_T[1:-1].tolist())
    print(visible(whole, len(whole)))


@torch.inference_mode()
def fill(encoder: MaskedLikelihood, sequence_T: Ids, steps: int) -> None:
    """Fills the masked positions of ``sequence_T``. Step t of n masks the K · (n - t) / n least certain ones.

    Tokens that frame or mask a text are impossible in it.
    """
    positions_K, tokens = np.flatnonzero(sequence_T == encoder.tokens.mask), encoder.tokens
    certainty_K = np.zeros(len(positions_K))
    for step in range(steps):
        masked = np.argsort(certainty_K, kind="stable")[: len(positions_K) * (steps - step) // steps]
        if len(masked):
            places_K = positions_K[masked]
            sequence_T[places_K] = tokens.mask
            logits_KV = logits_at(encoder.network, sequence_T[None], places_K[None], encoder.device)[0].float()
            logits_KV[:, [tokens.first, tokens.last, tokens.mask]] = -torch.inf
            best = logits_KV.softmax(1).max(1)
            sequence_T[places_K], certainty_K[masked] = best.indices.cpu().numpy(), best.values.cpu().numpy()


if __name__ == "__main__":
    run_program(mask_predict)
