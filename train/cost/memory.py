"""Bytes that one rank of a training holds at its peak, counted from the shapes. Free of torch.

With N parameters, s bytes for a value of the arithmetic (fp32 4, bf16 2), m bytes for the moments of a parameter and R
ranks (ZeRO: Rajbhandari et al. 2020, section 3; what DeepSpeed 0.19 does beyond it was measured):

    stage                  0        1         2         3
    weights               s N      s N       s N      s N / R, and s min(N, 1e9) gathered if R > 1
    master weights         –      4 N / R   4 N / R   4 N / R     fp32; also where the arithmetic is fp32
    optimizer states      m N     m N / R   m N / R   m N / R     the moments, fp32; 8 for AdamW's two
    gradients             s N      s N      s N / R   s N / R
    the same, fp32 sums    –     (4+s) N  (4+s) N / R  4 N / R    training.gradient_sums=fp32; stage 1 in fp16: 4 N

    peak = weights + master weights + optimizer states + larger of
               a micro-batch    gradients of the ones before, activations, and the output layer or one layer's gradients
                                (with recomputation also this layer's activations)
               the update       gradients of the rank's share (stage 0: all), their copies (stage 0 alone: none), and
                                what the optimizer computes with

m may differ by the role of a parameter; statistics, of which every rank has all, are added to the optimizer states.
Activations are the tensors that the backward pass of train/model needs, layer by layer; with recomputation the inputs
of the layers, with selective also the results that are kept (layer_memory.py). Ranks that compute rows together have
equal parts of them, but for two copies of what attention reads, and on a CPU each the whole mask. With
``zero.offload`` the states are in CPU memory. With a largest matrix of L values (ZeRO-Offload: Ren et al. 2021, section
4; the buffers are those of DeepSpeed 0.19, runtime/zero/stage_1_and_2.py and stage3.py):

    stage                         1            2            3
    on the GPU, gradients         s N + s L    s L          –
    the same, fp32 sums           4 N + 4 N / R + s L       –       at stage 2: 4 N / R + s L
    in CPU memory
      gradients of the update     4 N / R      4 N / R      4 N / R
      gradients of micro-batches  s L          s L          s N / R  fp32 sums: 4 N / R
      the same, more than one     –            s N / R      –        fp32 sums: –
      rounded weights             s N / R      s N / R      –        on their way to the GPU

Neither a CUDA context, what an allocator loses between tensors, nor the copy that checkpoints are written from, which
is in CPU memory, is counted.
"""

import dataclasses
import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any, get_args

from headrace.train.config import ModelConfig, chunk_positions, padded_vocabulary
from headrace.train.cost.layer_memory import Device, LayerMemory
from headrace.train.cost.shapes import shapes_by_role
from headrace.train.engine.optimizers.base import Elementwise, Optimizer, divided_bytes, statistic_bytes
from headrace.train.engine.zero import can_recompute, stage_on
from headrace.train.parts import ACTIVATIONS, FP32, NORM_PLACES, NORMS, POSITIONS
from headrace.train.training_config import Recompute, TrainingConfig, ZeroConfig

LIVE_VALUES = 1_000_000_000
"""Parameters that DeepSpeed's stage 3 leaves gathered (stage3_max_live_parameters)."""
REDUCED_VALUES = 500_000_000
"""Gradients that are copied into one message at most, at stage 0 and where stage 1 has sums in fp32."""


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of one rank."""

    weights: int
    master_weights: int
    optimizer_states: int
    gradients: int
    activations: int
    output_layer: int
    """Gradients of the output layer, the copy of its weight with padding, and the logits of one chunk."""
    update: int
    """Copies of gradients that the optimizer takes, and what it computes with."""
    peak: int
    """The most at once; on a CPU with ``cpu``."""
    cpu: int = 0
    """Bytes in CPU memory with ``zero.offload``: master weights, optimizer states and buffers."""


@dataclasses.dataclass(frozen=True)
class Footprint:
    """A training whose memory is computed."""

    model: ModelConfig
    vocabulary: int
    row_tokens: int
    training: TrainingConfig
    optimizer: Optimizer
    zero: ZeroConfig
    ranks: int
    device: Device = "cuda"
    row_targets: int | None = None
    """Positions of a row whose logits are computed, in an encoder–decoder those of the decoder; None: all."""

    @property
    def stage(self) -> int:
        return stage_on(self.ranks, self.training, self.zero)

    @property
    def value_bytes(self) -> int:
        return FP32 if self.training.precision == "fp32" else 2

    @property
    def _logit_positions(self) -> int:
        return self.row_tokens if self.row_targets is None else self.row_targets

    def memory(self, micro_rows: int) -> Memory:
        """Returns the memory with micro-batches of ``micro_rows`` rows."""
        stage, ranks, parts = self.stage, self.ranks, self.training.sequence_ranks
        parameters = self.model.parameters(self.vocabulary)
        share = -(-parameters // ranks) if stage else parameters
        low, low_share = self.value_bytes * parameters, self.value_bytes * share
        accumulates = self.training.batch_rows > micro_rows * ranks // parts
        gradients, at_update = self._gradient_bytes(parameters, share)
        gathered = self.value_bytes * min(parameters, LIVE_VALUES) if ranks > 1 else 0
        weights = low_share + gathered if stage == 3 else low
        master_weights = FP32 * share if stage else 0
        activations = micro_rows * self.activation_bytes_per_row() // parts
        output_layer = self._output_layer_bytes(micro_rows * self._logit_positions // parts)
        update = self._update_bytes(parameters, share) + self._optimizer_bytes()
        before = gradients if accumulates else 0
        layer = micro_rows * self._backward_bytes_per_row() // parts
        micro_batch = max(before + activations + max(output_layer, layer), gradients)
        optimizer_states = self._optimizer_states(ranks if stage else 1)
        cpu = 0
        if self._offloads:
            cpu = master_weights + optimizer_states + self._cpu_copy_bytes(share, accumulates)
            master_weights = optimizer_states = 0
        peak = weights + master_weights + optimizer_states + max(micro_batch, at_update + update)
        return Memory(
            weights=weights,
            master_weights=master_weights,
            optimizer_states=optimizer_states,
            gradients=gradients,
            activations=activations,
            output_layer=output_layer,
            update=update,
            peak=peak + (cpu if self.device == "cpu" else 0),
            cpu=cpu,
        )

    @property
    def _offloads(self) -> bool:
        return self.zero.offload == "optimizer"

    @property
    def _largest(self) -> int:
        """The values of the largest matrix."""
        return max(
            math.prod(shape) for shapes in shapes_by_role(self.model, self.vocabulary).values() for shape in shapes
        )

    def _gradient_bytes(self, parameters: int, share: int) -> tuple[int, int]:
        """Returns the bytes of gradients after a micro-batch, and during the update."""
        stage, size, sums_in_fp32 = self.stage, self.value_bytes, self._sums_in_fp32
        if self._offloads:
            summed = (FP32 if sums_in_fp32 else size) * parameters if stage == 1 else 0
            kept = 0 if stage == 3 else summed + FP32 * share * sums_in_fp32 + size * self._largest
            return kept, kept
        if sums_in_fp32:
            of_stage_1 = FP32 + size * (self.training.precision == "bf16")
            kept = {1: of_stage_1 * parameters, 2: (FP32 + size) * share, 3: FP32 * share}[stage]
            return kept, kept
        return size * (parameters if stage < 2 else share), size * (share if stage else parameters)

    def _cpu_copy_bytes(self, share: int, accumulates: bool) -> int:
        """Returns the bytes in CPU memory besides master weights and states; ``accumulates``: an update has several
        micro-batches."""
        size, sums_in_fp32 = self.value_bytes, self._sums_in_fp32
        if self.stage == 3:
            return (FP32 + (FP32 if sums_in_fp32 else size)) * share
        before = size * share if self.stage == 2 and accumulates and not sums_in_fp32 else 0
        return (FP32 + size) * share + size * self._largest + before

    @property
    def _sums_in_fp32(self) -> bool:
        """Whether gradients of a narrower precision are added in fp32."""
        return self.training.gradient_sums == "fp32" and self.value_bytes < FP32

    def largest_micro_rows(self, memory_bytes: float) -> int:
        """Returns the largest micro-batch that divides a rank's share of rows and fits; 0 if one row does not fit."""
        share = self.training.batch_rows * self.training.sequence_ranks // self.ranks
        fitting = (n for n in range(share, 0, -1) if share % n == 0 and self.memory(n).peak <= memory_bytes)
        return next(fitting, 0)

    def activation_bytes_per_row(self) -> int:
        """Returns the bytes that the backward pass keeps of one row, without the output layer."""
        if self.model.stack != "encoder_decoder":
            return self.row_tokens * self.activation_bytes_per_token()
        targets, (encoder, decoder) = self._logit_positions, self._stacks
        of_stacks = encoder.activation_bytes_per_row() + targets * decoder.activation_bytes_per_token()
        return of_stacks + self.model.layers * self._cross_bytes_per_row(self.training.recompute)

    @property
    def _layer(self) -> LayerMemory:
        parts = self.training.sequence_ranks
        return LayerMemory(self.model, self.value_bytes, self.row_tokens, self.device, parts)

    @property
    def _stacks(self) -> "tuple[Footprint, Footprint]":
        """The encoder and the decoder of an encoder–decoder."""
        return (
            dataclasses.replace(self, model=self.model.encoder, row_targets=None),
            dataclasses.replace(self, row_tokens=self._logit_positions),
        )

    def _backward_bytes_per_row(self) -> int:
        """Returns the bytes that the backward pass of one layer adds for one row: gradients, and the activations that
        it computes again, minus the activations of the feed-forward layer that are freed by then; in an encoder also
        minus the products of the decoder, which is finished before."""
        gradients, recompute = self.row_tokens * self._layer.gradient_bytes(), self.training.recompute
        if recompute == "none":
            return gradients
        done = ACTIVATIONS[self.model.activation].kept_values // 2
        gradients -= self.row_tokens * self.value_bytes * self.model.mlp_width * done
        if self.model.stack == "encoder_decoder":
            encoder, decoder = self._stacks
            targets, cross = decoder.row_tokens, self._cross_bytes_per_row(recompute)
            of_decoder = targets * decoder._layer.again_bytes(recompute) + self._cross_bytes_per_row("none") - cross
            of_encoder = encoder.row_tokens * encoder._layer.again_bytes(recompute)
            of_encoder -= self.model.layers * (targets * decoder._layer.product_bytes(recompute) + cross)
            return gradients + max(of_encoder, of_decoder)
        return gradients + self.row_tokens * self._layer.again_bytes(recompute)

    def _cross_bytes_per_row(self, recompute: Recompute) -> int:
        """Returns the bytes that a layer's cross-attention keeps of one row."""
        of_target, of_token = self._layer.kept_cross_bytes(recompute)
        return self._logit_positions * of_target + self.row_tokens * of_token

    def activation_bytes_per_token(self) -> int:
        """Returns the bytes that the backward pass keeps of one position, without the output layer."""
        model = self.model
        layer = self._layer.kept_bytes(self.training.recompute)
        mask = 0 if self.training.recompute == "none" else self._mask_of_layers_bytes_per_token()
        last = model.width if model.dropout and "last" in model.dropout_places else 0
        return model.layers * layer + mask + self._ends_bytes_per_token() + last

    def _ends_bytes_per_token(self) -> int:
        """Returns the bytes that are kept outside the layers: by the first and the last normalization, by what widens
        the embedding, and of the last vectors, of which the output layer of an encoder reads those of targets alone."""
        model, size, norm = self.model, self.value_bytes, NORMS[self.model.norm]
        embedding_width = model.embedding_width or model.width
        first = norm.kept_bytes(embedding_width, size) if model.embedding_norm else 0
        first += size * embedding_width * (embedding_width != model.width)
        last = size * model.width + NORM_PLACES[model.norm_place].at_end * norm.kept_bytes(model.width, size)
        is_chosen = model.stack == "encoder" and self.row_targets is not None
        return first + (last * self._logit_positions // self.row_tokens if is_chosen else last)

    def _mask_of_layers_bytes_per_token(self) -> int:
        """Returns the bytes of the masks with a bias, one of all layers or one of each, and of the gradient of one if
        the bias is learned. Without recomputation what each layer keeps of it is more."""
        positions = POSITIONS[self.model.positions]
        is_dense = self.device == "cpu" or positions.biases_per_head > 0
        if not (positions.biases_logits and is_dense):
            return 0
        masks = positions.tables(self.model.layers) + 1 if positions.biases_per_head else 1
        return self.value_bytes * self.row_tokens * self.model.heads * masks

    def _output_layer_bytes(self, tokens: int) -> int:
        width = self.model.embedding_width or self.model.width
        vocabulary = padded_vocabulary(self.vocabulary) if self.training.pads_on(self.device) else self.vocabulary
        weight, at_once = vocabulary * width, chunk_positions(vocabulary, self.device)
        copy_bytes = self.value_bytes * weight * (vocabulary > self.vocabulary)
        gradient_bytes = self.value_bytes * tokens * width + FP32 * weight
        logit_bytes = self._logit_bytes() + self.value_bytes * (tokens > at_once)
        return copy_bytes + gradient_bytes + max(min(tokens, at_once) * vocabulary * logit_bytes, FP32 * weight)

    def _logit_bytes(self) -> int:
        """Returns the bytes of one logit of a chunk: itself and its gradient. A CPU also has both in fp32; with a cap,
        it also has the cap's derivative and the product of that with the gradient, in fp32."""
        if self.device == "cpu" and self.model.logit_cap is not None:
            return self.value_bytes + 4 * FP32
        if self.device == "cuda" or self.value_bytes == FP32:
            return 2 * self.value_bytes
        return self.value_bytes + 2 * FP32

    def _update_bytes(self, parameters: int, share: int) -> int:
        """Returns the bytes of copied gradients: stage 0 copies to send, the others concatenate in fp32. Of fp32
        sums stage 1 copies to send in bf16, and stage 2 nothing."""
        if self._offloads:
            return 0
        of_stage_1 = self._sums_in_fp32 and self.stage == 1 and self.training.precision == "bf16"
        if not self.stage or of_stage_1:
            return FP32 * min(parameters, REDUCED_VALUES) * (self.ranks > 1)
        if self._sums_in_fp32:
            return FP32 * share * (self.stage != 2)
        return share * (FP32 if self.value_bytes == FP32 else self.value_bytes + FP32)

    def _optimizer_states(self, parts: int) -> int:
        """Returns the bytes of state that is divided into ``parts``, and of statistics, which are not."""
        shapes = shapes_by_role(self.model, self.vocabulary)
        return -(-divided_bytes(self.optimizer, shapes) // parts) + statistic_bytes(self.optimizer, shapes)

    def _optimizer_bytes(self) -> int:
        """Returns the bytes that the optimizer computes an update with."""
        return self.optimizer.update_bytes(
            shapes_by_role(self.model, self.vocabulary), is_divided=self.stage > 0 and self.ranks > 1
        )


Changes = dict[str, Any]
"""Setting → value: what a training would have otherwise."""


def advice(footprint: Footprint, micro_rows: int, memory_bytes: float) -> str:
    """Returns what to set so that micro-batches fit into ``memory_bytes``; an empty text if those of ``micro_rows`` do.

    Each of the ways in the text is enough alone.
    """
    if footprint.memory(micro_rows).peak <= memory_bytes:
        return ""
    ways = [f"training.micro_batch_rows={rows}"] if (rows := footprint.largest_micro_rows(memory_bytes)) else []
    ways += _ways(footprint, {}, micro_rows, memory_bytes)
    if not ways and footprint.zero.offload == "none" and isinstance(footprint.optimizer, Elementwise):
        first = {"zero.offload": "optimizer"} | ({} if footprint.stage else {"zero.stage": 1})  # the slowest way
        ways = [*itertools.islice(_ways(footprint, first, micro_rows, memory_bytes), 1)]
    return "give " + ", or ".join([*ways, "more or larger GPUs"])


def _ways(footprint: Footprint, first: Changes, micro_rows: int, memory_bytes: float) -> Iterator[str]:
    """Yields settings that make it fit: ``first`` and one change. Of alternatives it is the one with the most rows, of
    equal ones the one that costs least time."""
    begun = _changed(footprint, first)
    alone: list[Changes] = [{}] if first else []
    for alternatives in (alone, *_alternatives(begun)):
        fitting = [
            (min(micro_rows, changed.largest_micro_rows(memory_bytes)), changes)
            for changes in alternatives
            for changed in [_changed(begun, changes)]
            if can_recompute(changed.training, changed.stage, changed.model)
        ]
        rows, changes = max(fitting, key=operator.itemgetter(0), default=(0, {}))
        if rows:
            settings = first | changes | ({"training.micro_batch_rows": rows} if rows < micro_rows else {})
            yield " ".join(f"{name}={value}" for name, value in settings.items())


def _alternatives(footprint: Footprint) -> Iterator[list[Changes]]:
    """Yields changes that need less memory, the one that costs least time first."""
    kinds = get_args(Recompute)
    yield [{"training.recompute": kind} for kind in kinds[kinds.index(footprint.training.recompute) + 1 :]]
    if footprint.stage == 1 and footprint.zero.offload != "none":  # then gradients leave the GPU, too
        yield [{"zero.stage": 2}]
    if footprint.stage < 3 and footprint.ranks > 1:
        yield [{"zero.stage": 3}]


def _changed(footprint: Footprint, changes: Changes) -> Footprint:
    """Returns the training with other settings of ``training`` and ``zero``."""
    for setting, value in changes.items():
        group, name = setting.split(".")
        footprint = dataclasses.replace(
            footprint, **{group: dataclasses.replace(getattr(footprint, group), **{name: value})}
        )
    return footprint
