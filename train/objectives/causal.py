"""The causal objective: every token is predicted from those before it in its document (Radford et al. 2018, eq. 1)."""

import dataclasses

import torch
from torch import Tensor, nn

from headrace.train.data.rows import IGNORED, Batch


@dataclasses.dataclass(frozen=True)
class DeviceBatch:
    """``headrace.train.data.rows.Batch`` as tensors on a device: each (rows, row_tokens) of int64."""

    inputs: Tensor
    targets: Tensor
    positions: Tensor
    documents: Tensor

    @classmethod
    def of(cls, batch: Batch, device: torch.device) -> "DeviceBatch":
        arrays = (batch.inputs, batch.targets, batch.positions, batch.documents)
        tensors = [torch.from_numpy(array) for array in arrays]
        if device.type == "cuda":
            with torch.cuda.device(device):  # a thread begins with device 0
                tensors = [tensor.pin_memory() for tensor in tensors]
        return cls(*(tensor.to(device, non_blocking=True) for tensor in tensors))

    def silent(self) -> "DeviceBatch":
        """The same rows with nothing to predict: what a rank computes to keep step when it has no rows left."""
        return dataclasses.replace(self, targets=torch.full_like(self.targets, IGNORED))


def nll(model: nn.Module, batch: DeviceBatch) -> Tensor:
    """Sum over the batch of -ln p(target | document so far), in nats; a scalar."""
    return model(batch.inputs, batch.positions, batch.documents, batch.targets)
