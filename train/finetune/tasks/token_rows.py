"""Rows of tasks that predict tokens with the model's own output layer, their loss and the answers that it writes.

    one stack        prompt  E a b E'        the row is prompt and answer; the loss is that of the answer's tokens
                     answer  c d E
    two stacks       the encoder reads the prompt, the decoder predicts the answer

The arrays are those of the objectives (train/objectives/causal.py, denoising.py).

Answers are written greedily, or by beam search; all ranks write in step:

    prompts   E a b E' .  .          greedy: each forward pass adds the most likely token of each row
              E a E'   .  .  .       beams K: each prompt has K rows, and the rows of the best texts replace the others

A forward pass reads whole rows: a model whose weights are divided among ranks has no cache here. It ends when no row of
any rank is under way, so each rank has the same number of passes.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.train.data.batches import IGNORED, Arrays, EncoderTokens, Tensors, stacked
from headrace.train.families.task_heads import TaskKind
from headrace.train.finetune.tasks.sequences import Framed, Ids
from headrace.train.finetune.tasks.task import ROW_MULTIPLE, Fitted, Row
from headrace.train.inference.growing_text import BeamSearch, GrowingText
from headrace.train.inference.settings import Sampling
from headrace.train.objectives.base import named
from headrace.train.objectives.causal import prefix_losses
from headrace.train.objectives.denoising import empty_row, source_losses, write_document

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


if TYPE_CHECKING:
    from torch import Tensor, nn

SMOOTHING = "label_smoothing"
"""The term and the option of the output layer."""
OF_DECODER = ("inputs", "targets", "positions", "documents")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenTask(Fitted):
    """A task whose results are tokens."""

    looks_ahead: bool = False
    """Whether the tokens of a prompt see each other in both directions, in a model of one stack."""
    answer_tokens: int = 0
    """The tokens that answers have at most; 0: none are made."""
    beams: int = 1
    """The texts that beam search keeps for each answer; 1: answers are greedy."""
    length_penalty: float = 0.0
    """The power of the length by which beam search divides ln p (``Sampling.length_penalty``)."""
    label_smoothing: float = 0.0
    """The share of a uniform distribution in the targets (``CrossEntropy.label_smoothing``)."""
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

    @property
    def weights(self) -> Mapping[str, float]:
        """The term of the loss, and that of label smoothing, whose gradient is in that of the first one."""
        return {self.term: 1.0} | ({SMOOTHING: 0.0} if self.label_smoothing else {})

    def counts(self, batch: Arrays) -> dict[str, int]:
        return dict.fromkeys(self.weights, int((batch["targets"] != IGNORED).sum()))

    def losses(self, model: "nn.Module", batch: Tensors) -> "dict[str, Tensor]":
        options = {SMOOTHING: self.label_smoothing} if self.label_smoothing else {}
        if "encoder_inputs" in batch:
            sums = source_losses(model, batch, **options)
        elif "prefix" in batch:
            sums = prefix_losses(model, batch, **options)
        else:
            sums = model(*(batch[name] for name in ("inputs", "positions", "documents", "targets")), **options)
        return named(self.weights, sums)

    def outputs(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        """Returns each row's terms of the loss, the first one -ln p of its answer, and the tokens that the model writes
        instead: (B, terms + answer_tokens) in fp32."""
        import torch
        from torch.nn import functional

        arguments = (batch[name] for name in ("inputs", "positions", "documents"))
        logits_BTV = model(*arguments, **visible(batch)).float()
        targets_BT = batch["targets"]
        nll_BT = functional.cross_entropy(
            logits_BTV.transpose(1, 2), targets_BT, ignore_index=IGNORED, reduction="none"
        )
        columns = [nll_BT.sum(1, keepdim=True)]
        if self.label_smoothing:
            mean_BT = torch.where(targets_BT != IGNORED, -logits_BTV.log_softmax(-1).mean(-1), 0)
            columns.append(self.label_smoothing * (mean_BT - nll_BT).sum(1, keepdim=True))
        if self.answer_tokens:
            columns.append(self._written(model, batch).float())
        return torch.cat(columns, 1)

    def sums(self, outputs: "Tensor", batch: Tensors) -> "dict[str, Tensor]":
        return {name: outputs[:, column].sum() for column, name in enumerate(self.weights)}

    def written(self, output: NDArray[Any]) -> NDArray[np.int64]:
        """Returns the tokens that the model wrote, of one row of ``outputs``."""
        tokens: NDArray[np.int64] = output[len(self.weights) :].astype(np.int64)
        return tokens

    def _written(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        end, steps = self.form.encoder.end_of_text, self.answer_tokens
        start = 0 if "prompts" in batch else self.form.decoder_start
        answers = AnswersUnderWay.of(model, batch, start, steps, self.beams)
        if self.beams == 1:
            return greedy_tokens(answers, steps, end)
        sampling = Sampling(max_tokens=steps, beams=self.beams, length_penalty=self.length_penalty)
        return searched_tokens(answers, sampling, end, self.form.encoder.decode)


def _width(lengths: Sequence[int]) -> int:
    return -(-max(1, *lengths) // ROW_MULTIPLE) * ROW_MULTIPLE if lengths else ROW_MULTIPLE


def plain_sequence(tokens: Ids, cut_tokens: int = 0) -> Framed:
    """Returns ``tokens`` as a sequence of one segment."""
    return Framed(tokens, np.zeros_like(tokens), (0,), cut_tokens)


def answer_row(example: int, tokens: Ids, is_answer: NDArray[np.bool_], prompt_tokens: int, cut_tokens: int) -> Row:
    """Returns the row of a model of one stack: ``tokens``, of which those with ``is_answer`` are predicted."""
    facts = {"is_answer": is_answer, "prompt_tokens": prompt_tokens}
    return Row(example, (plain_sequence(tokens, cut_tokens),), {}, facts)
