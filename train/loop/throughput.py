"""The speed of training: tokens per second, and the share of the hardware's peak that they use (MFU).

    MFU = FLOP per token · tokens per second / peak FLOP/s        (PaLM, Chowdhery et al. 2022, appendix B)

Both FLOP per token and the peak are those of train/cost/flops.py; where the peak is not known there is no MFU.
"""

import re
import time

import torch

from headrace.train.cost.flops import PEAK_FLOPS


def peak_flops(device: torch.device) -> float | None:
    """Returns the peak of ``device`` in FLOP/s, or None if it is not known."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for word, peak in PEAK_FLOPS.items() if re.search(rf"{word}\b", name)), None)


class Meter:
    """Measures the time of updates only, without validation and saving in between."""

    def __init__(self, flops_per_token: float, peak_flops: float | None) -> None:
        """``peak_flops`` of all ranks together; None where it is not known."""
        self._flops_per_token, self._peak_flops = flops_per_token, peak_flops
        self._tokens, self._seconds, self._started = 0.0, 0.0, 0.0
        self._updates, self._data_wait_seconds = 0, 0.0

    def start(self) -> None:
        self._started = time.perf_counter()

    def stop(self, tokens: float, data_wait_seconds: float) -> None:
        """Adds an update of ``tokens`` since ``start``, in which training waited for data for ``data_wait_seconds``."""
        self._seconds += time.perf_counter() - self._started
        self._tokens += tokens
        self._updates += 1
        self._data_wait_seconds += data_wait_seconds

    def read(self) -> dict[str, float]:
        """Returns the rates since the last reading, and the mean wait for data of an update."""
        rate = self._tokens / max(self._seconds, 1e-9)
        wait = self._data_wait_seconds / max(self._updates, 1)
        self._tokens, self._seconds, self._updates, self._data_wait_seconds = 0.0, 0.0, 0, 0.0
        mfu = {"mfu": rate * self._flops_per_token / self._peak_flops} if self._peak_flops else {}
        return {"tokens_per_second": rate, "data_wait_seconds": wait, **mfu}
