"""The speed of a training, and the rank that computes more slowly than the others, for which all of them wait.

    MFU = FLOP per token · tokens per second / peak FLOP/s        (PaLM, Chowdhery et al. 2022, appendix B)

    blocks of this rank ── BlockClock ──────────┐
    wait for the others before an update ───────┴── all ranks ──> metrics.jsonl; a line that names rank and node

All ranks end an update together, so the time of an update does not show which one is slow. The forward pass of a block
waits for no other rank: ZeRO's stage 3 gathers the weights before it. (Layers with shared weights are the exception:
DeepSpeed gathers theirs inside, and all ranks look alike.) With ``training.sequence_ranks`` the ranks that compute rows
together wait for each other in each block, so they are compared as groups.
"""

import dataclasses
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headrace.pipeline.core import work_log
from headrace.train.cost.flops import PEAK_FLOPS
from headrace.train.distributed.processes import Ranks, gather, total
from headrace.train.model.layers import Block

SLOW = 1.2
"""A rank is slow when it takes so many times as long as the median rank."""
SLOW_SECONDS = 0.005
"""A difference below this in the layers of an update is the operating system's."""
SLOW_ROWS = 3
"""A rank is named after so many rows of the log in a row in which it was slow."""


@dataclasses.dataclass(frozen=True)
class SlowRanks:
    """A rank, or neighbouring ranks that wait for each other, that take ``ratio`` times as long as the median."""

    first: int
    nodes: tuple[str, ...]
    """The node of each of them."""
    ratio: float
    seconds_more: float
    """Their time minus the median."""
    is_alone: bool = False
    """Whether all ranks are on one node."""

    def line(self) -> str:
        """Returns the message about it."""
        nodes = sorted(set(self.nodes))
        several = f"one of ranks {self.first} to {self.first + len(self.nodes) - 1}"
        who = f"{several if len(self.nodes) > 1 else f'rank {self.first}'} ({', '.join(nodes)})"
        slower = f"weights: {who} takes {self.ratio:.1f} times as long as the median for its layers"
        if len(nodes) > 1:
            return f"{slower}, and all ranks wait for it; these ranks wait for each other, so its node is not known"
        if self.is_alone:
            return f"{slower}, and all ranks wait for it; all of them are on this node"
        remedy = f"cluster.train_options=['--exclude={nodes[0]}'] leaves its node out"
        return f"{slower}, and all ranks wait for it; {remedy}"


def slow_ranks(times: Sequence[tuple[str, float]], together: int = 1) -> Iterator[SlowRanks]:
    """Yields the slow ranks; ``times`` are the node and the seconds of each rank.

    Of ranks that wait for each other, so many neighbours ``together``, it yields the slow groups.
    """
    groups = [times[first : first + together] for first in range(0, len(times), together)]
    longest = [max(seconds for _, seconds in group) for group in groups]
    median = statistics.median(longest)
    for number, (group, seconds) in enumerate(zip(groups, longest, strict=True)):
        if seconds > SLOW * median:
            nodes = tuple(node for node, _ in group)
            is_alone = len({node for node, _ in times}) == 1
            yield SlowRanks(number * together, nodes, seconds / median, seconds - median, is_alone)


def report(slow: SlowRanks, folder: Path, device: torch.device) -> None:
    """Prints the line of slow ranks and records their node, if it is one, below the artifact's ``folder``.

    Cores are shared with other jobs, whose load says nothing about the node: that of ranks on a CPU is not recorded.
    """
    print(slow.line(), file=sys.stderr, flush=True)
    if len(set(slow.nodes)) == 1 and device.type == "cuda":
        work_log.add_bad_node(folder, slow.nodes[0])


class BlockClock:
    """Measures the time of the forward passes of the blocks of ``model`` in training: on a GPU, of its kernels."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        """Call it after DeepSpeed has added its hooks: what they wait for is not counted."""
        self._is_cuda = device.type == "cuda"
        self._begun: Any = None
        self._spans: list[tuple[Any, Any]] = []
        for module in model.modules():
            if isinstance(module, Block):
                module.register_forward_pre_hook(self._begin)
                module.register_forward_hook(self._end)

    def read(self) -> float:
        """Returns the seconds since the last reading."""
        spans, self._spans = self._spans, []
        if not self._is_cuda:
            return float(sum(end - begun for begun, end in spans))
        if spans:
            spans[-1][1].synchronize()
        return float(sum(begun.elapsed_time(end) for begun, end in spans)) / 1e3

    def _begin(self, block: nn.Module, _: Any) -> None:
        if block.training:
            self._begun = self._now()

    def _end(self, block: nn.Module, *_: Any) -> None:
        if block.training:
            self._spans.append((self._begun, self._now()))

    def _now(self) -> Any:
        """Returns the time in seconds, or an event of the GPU."""
        if not self._is_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch does not annotate it
        event.record()
        return event


class Stragglers:
    """Compares the ranks of a training whenever it logs. A single rank is compared with nothing."""

    def __init__(self, model: nn.Module, ranks: Ranks, folder: Path, together: int = 1) -> None:
        """Compares ``ranks``, of which so many neighbours ``together`` compute rows of ``model``."""
        self._ranks, self._folder, self._together = ranks, folder, together
        self._clock = BlockClock(model, ranks.device) if ranks.world > 1 else None
        self._nodes = gather(work_log.this_node()) if ranks.world > 1 else []
        self._updates, self._wait_seconds = 0, 0.0
        self._slow_rows: Counter[int] = Counter()

    def updated(self, wait_seconds: float) -> None:
        """Counts an update, before which this rank waited for the others."""
        self._updates += 1
        self._wait_seconds += wait_seconds

    def read(self) -> dict[str, float]:
        """Compares the ranks in the updates since the last reading; all of them call it. Rank 0 names slow ones.

        slowest_rank         its number
        slowest_rank_ratio   its time for the layers over that of the median rank
        rank_wait_seconds    the longest mean time that a rank waited for others before an update
        """
        if self._clock is None:
            return {}
        ranks, updates = self._ranks, max(self._updates, 1)
        mine = [self._clock.read() / updates, self._wait_seconds / updates]
        self._updates, self._wait_seconds = 0, 0.0
        others_before, others_after = [0.0] * 2 * ranks.rank, [0.0] * 2 * (ranks.world - ranks.rank - 1)
        all_values = total(ranks, [*others_before, *mine, *others_after])
        seconds, waits = all_values[::2], all_values[1::2]
        if ranks.first:
            self._name_slow(seconds)
        slowest, median = max(range(ranks.world), key=seconds.__getitem__), statistics.median(seconds)
        ratio = seconds[slowest] / median if median else 1.0
        return {"slowest_rank": slowest, "slowest_rank_ratio": ratio, "rank_wait_seconds": max(waits)}

    def _name_slow(self, seconds: Sequence[float]) -> None:
        """Names each rank that has now been slow for SLOW_ROWS rows."""
        times = list(zip(self._nodes, seconds, strict=True))
        slow_of = {slow.first: slow for slow in slow_ranks(times, self._together) if slow.seconds_more > SLOW_SECONDS}
        self._slow_rows = Counter({first: self._slow_rows[first] + 1 for first in slow_of})
        for first, slow in slow_of.items():
            if self._slow_rows[first] == SLOW_ROWS:
                report(slow, self._folder, self._ranks.device)


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
