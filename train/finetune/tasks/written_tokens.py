"""The tokens that a model in training writes after prompts: greedily, or by beam search. All ranks write in step.

    prompts   E a b E' .  .          greedy: each forward pass adds the most likely token of each row
              E a E'   .  .  .       beams K: each prompt has K rows, and the rows of the best texts replace the others

A forward pass reads whole rows: a model whose weights are divided among ranks has no cache here. It ends when no row of
any rank is under way, so each rank has the same number of passes.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.train.data.batches import EncoderTokens, Tensors
from headrace.train.inference.growing_text import BeamSearch, GrowingText
from headrace.train.inference.settings import Sampling

if TYPE_CHECKING:
    from torch import Tensor, nn

OF_ENCODER = ("encoder_inputs", "encoder_positions", "encoder_documents")


def visible(batch: Tensors) -> dict[str, Any]:
    """Returns what the positions of ``batch`` see besides those before them."""
    if "encoder_inputs" in batch:
        return {"source": EncoderTokens(*(batch[name] for name in OF_ENCODER))}
    return {"prefix_BT": batch["prefix"].bool()} if "prefix" in batch else {}


@dataclasses.dataclass
class AnswersUnderWay:
    """Rows of prompts, and the tokens after them so far."""

    model: "nn.Module"
    tokens_RT: "Tensor"
    prompts_R: "Tensor"
    """The lengths of the prompts."""
    visible: dict[str, Any]
    step: int = 0

    @classmethod
    def of(cls, model: "nn.Module", batch: Tensors, start: int, steps: int, beams: int = 1) -> "AnswersUnderWay":
        """Returns ``beams`` rows for each row of ``batch``, with space for ``steps`` tokens.

        ``start`` is the first token of the decoder of two stacks.
        """
        import torch

        batch = {name: values.repeat_interleave(beams, 0) for name, values in batch.items()}
        inputs_RT = batch["inputs"]
        prompts_R = batch["prompts"] if "prompts" in batch else torch.ones_like(inputs_RT[:, 0])
        width = int(prompts_R.max()) + steps - 1
        tokens_RT = prompts_R.new_zeros(len(prompts_R), width)
        positions_RT = torch.arange(width, device=tokens_RT.device).expand_as(tokens_RT)
        if "prompts" in batch:
            given = min(width, inputs_RT.shape[1])
            tokens_RT[:, :given] = inputs_RT[:, :given] * (positions_RT[:, :given] < prompts_R[:, None])
        else:
            tokens_RT[:, 0] = start
        seen = visible(batch)
        if "prefix_BT" in seen:
            seen["prefix_BT"] = positions_RT < prompts_R[:, None]
        return cls(model, tokens_RT, prompts_R, seen)

    def next_logits(self) -> "Tensor":
        """Returns the logits of the next token of each row, (R, V) in fp32."""
        import torch

        ends_R1 = self.prompts_R[:, None] + self.step
        positions_RT = torch.arange(self.tokens_RT.shape[1], device=ends_R1.device).expand_as(self.tokens_RT)
        documents_RT = torch.where(positions_RT < ends_R1, 0, -1)
        logits_R1V: Tensor = self.model(self.tokens_RT, positions_RT, documents_RT, at_BK=ends_R1 - 1, **self.visible)
        return logits_R1V[:, 0].float()

    def add(self, tokens_R: "Tensor") -> None:
        """Adds the next token of each row."""
        ends_R1 = self.prompts_R[:, None] + self.step
        self.tokens_RT.scatter_(1, ends_R1, tokens_R[:, None])
        self.step += 1


def greedy_tokens(answers: AnswersUnderWay, steps: int, end: int) -> "Tensor":
    """Returns the most likely token after each prompt, then the one after that, …: (B, steps) int64.

    What comes after ``end`` is no part of an answer.
    """
    import torch

    chosen_BT = torch.full((len(answers.tokens_RT), steps), end, device=answers.tokens_RT.device)
    for step in range(steps):
        chosen_BT[:, step] = answers.next_logits().argmax(-1)
        if step + 1 == steps or not _any_rank(not bool((chosen_BT[:, : step + 1] == end).any(1).all()), chosen_BT):
            break
        answers.add(chosen_BT[:, step])
    return chosen_BT


def searched_tokens(
    answers: AnswersUnderWay, sampling: Sampling, end: int, decode: Callable[[Sequence[int], bool], str]
) -> "Tensor":
    """Returns the tokens of the best text after each prompt, as ``BeamSearch`` finds it: (B, steps) int64."""
    import torch

    beams, steps, device = sampling.beams, sampling.most_tokens, answers.tokens_RT.device
    rows = range(0, len(answers.tokens_RT), beams)
    searches = [BeamSearch(GrowingText(decode, (end,), (), steps), sampling) for _ in rows]
    for step in range(steps):
        log_probs_RV = answers.next_logits().log_softmax(-1)
        parents, tokens = list(range(len(answers.tokens_RT))), [end] * len(answers.tokens_RT)
        for first, search in zip(rows, searches, strict=True):
            if search.beams:
                search.advance(log_probs_RV[first : first + len(search.beams)])
            for row, beam in enumerate(search.beams, first):
                parents[row], tokens[row] = first + beam.parent, beam.text.tokens[-1]
        if step + 1 == steps or not _any_rank(any(search.beams for search in searches), log_probs_RV):
            break
        answers.tokens_RT = answers.tokens_RT[torch.tensor(parents, device=device)]
        answers.add(torch.tensor(tokens, device=device))
    whole = [[*search.best.tokens, *[end] * (steps - len(search.best.tokens))] for search in searches]
    return torch.tensor(whole, device=device)


def _any_rank(is_under_way: bool, like: "Tensor") -> bool:
    """Whether a row of any rank is under way; ranks that share a model call it together."""
    import torch

    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return is_under_way
    flag = torch.tensor(int(is_under_way), device=like.device)
    torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
    return bool(flag)
