"""Rows of tasks that predict tokens with the model's own output layer, their loss and greedy answers.

    one stack        prompt  E a b E'        the row is prompt and answer; the loss is that of the answer's tokens
                     answer  c d E
    two stacks       the encoder reads the prompt, the decoder predicts the answer

The arrays are those of the objectives (train/objectives/causal.py, prefix.py, encoder_decoder.py).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.train.data.batches import IGNORED, Arrays, EncoderTokens, Tensors, stacked
from headrace.train.families.task_heads import TaskKind
from headrace.train.finetune.tasks.sequences import Framed, Ids
from headrace.train.finetune.tasks.task import ROW_MULTIPLE, Fitted, Row
from headrace.train.objectives.encoder_decoder import empty_row, source_losses, write_document
from headrace.train.objectives.prefix import prefix_losses

if TYPE_CHECKING:
    from torch import Tensor, nn

OF_ENCODER = ("encoder_inputs", "encoder_positions", "encoder_documents")
OF_DECODER = ("inputs", "targets", "positions", "documents")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenTask(Fitted):
    """A task whose results are tokens."""

    looks_ahead: bool = False
    """Whether the tokens of a prompt see each other in both directions, in a model of one stack."""
    answer_tokens: int = 0
    """The tokens that greedy answers have at most; 0: none are made."""
    kind: ClassVar[TaskKind | None] = None

    def arrays(self, rows: Sequence[Row], length: int | None = None) -> dict[str, NDArray[Any]]:
        """Returns the arrays of a batch, (B, T) each; for one stack also ``prompts``, the lengths of prompts, (B,)."""
        if self.form.is_two_stacks:
            return self._two_stacks(rows, length)
        width = length or _width([len(row.sequences[0].tokens) for row in rows])
        arrays = dict(stacked([self._one_stack(row, width) for row in rows]))
        prompts = np.array([row.facts["prompt_tokens"] for row in rows], np.int64)
        if self.looks_ahead:
            arrays["prefix"] = (np.arange(width) < prompts[:, None]).astype(np.int64)
        return arrays | {"prompts": prompts}

    def _one_stack(self, row: Row, width: int) -> Mapping[str, NDArray[np.int64]]:
        arrays, tokens = empty_row(dict.fromkeys(OF_DECODER, width)), row.sequences[0].tokens
        targets = np.where(row.facts["is_answer"][1:], tokens[1:], IGNORED)
        write_document(arrays, "", 0, 0, inputs=tokens, targets=np.append(targets, IGNORED))
        return arrays

    def _two_stacks(self, rows: Sequence[Row], length: int | None) -> dict[str, NDArray[Any]]:
        inputs, targets = (length or _width([len(row.sequences[side].tokens) for row in rows]) for side in (0, 1))
        of_rows, start = [], np.array([self.form.decoder_start])
        for row in rows:
            arrays = empty_row(dict.fromkeys(OF_ENCODER, inputs) | dict.fromkeys(OF_DECODER, targets))
            prompt, answer = (sequence.tokens for sequence in row.sequences)
            write_document(arrays, "encoder_", 0, 0, inputs=prompt)
            if len(answer):
                write_document(arrays, "", 0, 0, inputs=np.concatenate([start, answer[:-1]]), targets=answer)
            of_rows.append(arrays)
        return dict(stacked(of_rows))

    def counts(self, batch: Arrays) -> dict[str, int]:
        return {self.term: int((batch["targets"] != IGNORED).sum())}

    def losses(self, model: "nn.Module", batch: Tensors) -> "dict[str, Tensor]":
        if "encoder_inputs" in batch:
            return {self.term: source_losses(model, batch)}
        if "prefix" in batch:
            return {self.term: prefix_losses(model, batch)}
        return {self.term: model(*(batch[name] for name in ("inputs", "positions", "documents", "targets")))}

    def outputs(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        """Returns -ln p of each row's answer, and the tokens of its greedy answer: (B, 1 + answer_tokens) in fp32."""
        import torch
        from torch.nn import functional

        arguments = (batch[name] for name in ("inputs", "positions", "documents"))
        logits_BTV = model(*arguments, **_visible(batch)).float()
        nll_BT = functional.cross_entropy(
            logits_BTV.transpose(1, 2), batch["targets"], ignore_index=IGNORED, reduction="none"
        )
        columns = [nll_BT.sum(1, keepdim=True)]
        if self.answer_tokens:
            columns.append(self._greedy(model, batch).float())
        return torch.cat(columns, 1)

    def sums(self, outputs: "Tensor", batch: Tensors) -> "dict[str, Tensor]":
        return {self.term: outputs[:, 0].sum()}

    def _greedy(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        """Returns the most likely token after each prompt, then the one after that, …: (B, answer_tokens) int64.

        Every call has the same number of forward passes, so ranks that share a model stay together.
        """
        import torch

        prompts_B = batch["prompts"] if "prompts" in batch else torch.ones_like(batch["inputs"][:, 0])
        rows, steps = len(prompts_B), self.answer_tokens
        width = int(prompts_B.max()) + steps - 1
        tokens_BT = prompts_B.new_zeros(rows, width)
        positions_BT = torch.arange(width, device=tokens_BT.device).expand(rows, width)
        if "prompts" in batch:
            given = min(width, batch["inputs"].shape[1])
            tokens_BT[:, :given] = batch["inputs"][:, :given] * (positions_BT[:, :given] < prompts_B[:, None])
        else:
            tokens_BT[:, 0] = self.form.decoder_start
        visible, chosen = _visible(batch), []
        if "prefix_BT" in visible:
            visible["prefix_BT"] = positions_BT < prompts_B[:, None]
        for step in range(steps):
            ends_B1 = prompts_B[:, None] + step
            documents_BT = torch.where(positions_BT < ends_B1, 0, -1)
            logits_B1V = model(tokens_BT, positions_BT, documents_BT, at_BK=ends_B1 - 1, **visible)
            chosen.append(logits_B1V.float().argmax(-1))
            if step + 1 < steps:
                tokens_BT.scatter_(1, ends_B1, chosen[-1])
        return torch.cat(chosen, 1)


def _visible(batch: Tensors) -> "dict[str, Any]":
    """Returns what the positions of ``batch`` see besides those before them."""
    if "encoder_inputs" in batch:
        return {"source": EncoderTokens(*(batch[name] for name in OF_ENCODER))}
    return {"prefix_BT": batch["prefix"].bool()} if "prefix" in batch else {}


def _width(lengths: Sequence[int]) -> int:
    return -(-max(1, *lengths) // ROW_MULTIPLE) * ROW_MULTIPLE if lengths else ROW_MULTIPLE


def plain_sequence(tokens: Ids, cut_tokens: int = 0) -> Framed:
    """Returns ``tokens`` as a sequence of one segment."""
    return Framed(tokens, np.zeros_like(tokens), (0,), cut_tokens)


def answer_row(example: int, tokens: Ids, is_answer: NDArray[np.bool_], prompt_tokens: int, cut_tokens: int) -> Row:
    """Returns the row of a model of one stack: ``tokens``, of which those with ``is_answer`` are predicted."""
    facts = {"is_answer": is_answer, "prompt_tokens": prompt_tokens}
    return Row(example, (plain_sequence(tokens, cut_tokens),), {}, facts)
