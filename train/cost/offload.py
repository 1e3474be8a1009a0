"""Bytes of a rank whose master weights and optimizer states are in CPU memory (``zero.offload``). Free of torch.

With N parameters, s bytes for a value of the arithmetic (fp32 4, bf16 2), m bytes for the moments of a parameter, R
ranks and a largest matrix of L values (ZeRO-Offload: Ren et al. 2021, section 4; the buffers are those of DeepSpeed
0.19, runtime/zero/stage_1_and_2.py and stage3.py):

    stage                         1            2            3
    on the GPU, gradients         s N + s L    s L          –
    the same, fp32 sums           4 N + 4 N / R + s L       –       at stage 2: 4 N / R + s L
    in CPU memory
      master weights              4 N / R      4 N / R      4 N / R
      optimizer states            m N / R      m N / R      m N / R
      gradients of the update     4 N / R      4 N / R      4 N / R
      gradients of micro-batches  s L          s L          s N / R  fp32 sums: 4 N / R
      the same, more than one     –            s N / R      –        fp32 sums: –
      rounded weights             s N / R      s N / R      –        on their way to the GPU

Weights and activations are as without it. A checkpoint is written from a copy of master weights and states, which is
in CPU memory from the first one on, with and without ``zero.offload``; it is not counted here.
"""

from headrace.train.parts import FP32


def gpu_gradient_bytes(stage: int, parameters: int, own: int, largest: int, size: int, fp32_sums: bool) -> int:
    """Returns the bytes of gradients and their buffers on the GPU.

    Args:
        stage: 1 to 3.
        parameters: those of the model.
        own: those of this rank.
        largest: the values of the largest matrix.
        size: bytes of a value of the arithmetic.
        fp32_sums: whether gradients of a narrower precision are added in fp32.
    """
    if stage == 3:
        return 0
    kept = (FP32 if fp32_sums else size) * parameters if stage == 1 else 0
    return kept + FP32 * own * fp32_sums + size * largest


def cpu_copy_bytes(stage: int, own: int, largest: int, size: int, fp32_sums: bool, accumulates: bool) -> int:
    """Returns the bytes in CPU memory besides master weights and optimizer states; arguments as above.

    ``accumulates``: an update has more than one micro-batch.
    """
    if stage == 3:
        return (FP32 + (FP32 if fp32_sums else size)) * own
    before = size * own if stage == 2 and accumulates and not fp32_sums else 0
    return (FP32 + size) * own + size * largest + before
