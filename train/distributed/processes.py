"""The ranks of a training or scoring: their numbers, their devices, and what they do together.

    RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE    torchrun's variables; the worker sets them from another launcher's
    MASTER_ADDR MASTER_PORT                        where the ranks meet; a process alone needs none of them

gloo carries the messages between CPUs, nccl between GPUs; nothing else differs.
"""

import contextlib
import dataclasses
import datetime
import fcntl
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import torch
import torch.distributed as dist
from torch.distributed import DistBackendError, distributed_c10d
from torch.distributed.rendezvous import rendezvous

from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact_files import make
from headrace.pipeline.core.environment import CORES, STORE_SOCKET
from headrace.pipeline.core.errors import ConfigError, HeadraceError, RetryableError, StoppedError
from headrace.pipeline.core.signals import die_with_parent
from headrace.train.training_config import Recompute, TrainingConfig

T = TypeVar("T")

TIMEOUT = datetime.timedelta(minutes=30)
"""The time that a rank waits for the others: a checkpoint of a large model may take minutes."""

MARGIN = datetime.timedelta(minutes=5)
"""The time between the watchdog's limit and that of a process group."""
LONGEST_SECONDS = 1e6
"""Limits above it are treated as equal to it."""

FLIGHT_RECORDER = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
"""NCCL keeps its last operations, and writes them to a file when it gives up waiting."""


@dataclasses.dataclass(frozen=True)
class Ranks:
    """The number of this process among all ranks and among the ranks of its machine, and its device."""

    rank: int
    world: int
    local_rank: int
    local_world: int
    device: torch.device = dataclasses.field(default_factory=lambda: torch.device("cpu"))

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which writes the files that all ranks share."""
        return self.rank == 0


def from_environment(environment: Mapping[str, str]) -> Ranks:
    """Reads torchrun's variables.

    Raises:
        ConfigError: when there are several ranks and no address to meet at.
    """
    rank, local_rank = (int(environment.get(name, "0")) for name in ("RANK", "LOCAL_RANK"))
    world, local_world = (int(environment.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if world > 1 and not {"MASTER_ADDR", "MASTER_PORT"} <= set(environment):
        raise ConfigError(
            "weights", f"{world} ranks and no MASTER_ADDR and MASTER_PORT", "launch with torchrun, or export both"
        )
    return Ranks(rank, world, local_rank, local_world)


def start(device: Literal["auto", "cpu", "cuda"], setting: str = "training.device") -> Ranks:
    """Joins the other ranks (once per process), and takes a device and a share of the cores. Errors name ``setting``.

    Raises:
        ConfigError: when CUDA is asked for and absent, or the launcher's variables are incomplete.
    """
    ranks = from_environment(os.environ)
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(setting, "is 'cuda', but torch finds no GPU", "give auto or cpu")
    kind = "cpu" if device == "cpu" or not torch.cuda.is_available() else "cuda"
    os.environ["DS_ACCELERATOR"] = kind
    if "TORCHELASTIC_RUN_ID" in os.environ:
        die_with_parent()
    own_device = torch.device("cpu")
    if kind == "cuda":
        own_device = torch.device("cuda", device_index(ranks, torch.cuda.device_count(), setting))
        torch.cuda.set_device(own_device)
    else:
        torch.set_num_threads(own_cores(ranks, os.environ))
    if not dist.is_initialized():
        _join(ranks, own_device, setting)
    return dataclasses.replace(ranks, device=own_device)


def _join(ranks: Ranks, device: torch.device, setting: str) -> None:
    """Makes the process group of all ranks, each with its own ``device``."""
    store = _store(ranks)
    on_gpu = device.type == "cuda"
    os.environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")  # ranks connect at the first message, not each with all others
    if on_gpu:
        claim_device(ranks, str(torch.cuda.get_device_properties(device).uuid), store, setting)
        for name, value in FLIGHT_RECORDER.items():
            os.environ.setdefault(name, value)
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        rank=ranks.rank,
        world_size=ranks.world,
        store=store,
        timeout=TIMEOUT,
        device_id=device if on_gpu else None,
    )


def _store(ranks: Ranks) -> distributed_c10d.Store:
    """Returns the store of all ranks. Rank 0 serves it, at the socket that its parent has opened if there is one."""
    if ranks.world == 1:
        return dist.HashStore()  # type: ignore[attr-defined]  # torch lists none of the three
    if socket_number := os.environ.pop(STORE_SOCKET, ""):
        at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        return dist.TCPStore(*at, ranks.world, True, TIMEOUT, master_listen_fd=int(socket_number))  # type: ignore[attr-defined]
    store: distributed_c10d.Store = next(rendezvous("env://", ranks.rank, ranks.world))[0]  # type: ignore[attr-defined]
    return store


def device_index(ranks: Ranks, devices: int, setting: str) -> int:
    """Returns the number of this rank's GPU among the ``devices`` that it sees: those of its machine, or a single one
    that the launcher has chosen for it (srun --gpus-per-task). The error names ``setting``.

    Raises:
        ConfigError: with the number of GPUs, when there are fewer than ranks.
    """
    if devices == 1:
        return 0
    if ranks.local_rank >= devices:
        problem = f"rank {ranks.rank} is number {ranks.local_rank} on {socket.gethostname()}, which has {devices} GPUs"
        raise ConfigError(setting, problem, "start as many ranks on a machine as it has GPUs")
    return ranks.local_rank


def claim_device(ranks: Ranks, uuid: str, store: distributed_c10d.Store, setting: str) -> None:
    """Refuses two ranks on the GPU ``uuid``, by an entry in the ``store`` of all ranks. The error names ``setting``.

    Raises:
        ConfigError: with both ranks, on the later one.
    """
    holder = store.compare_set(f"gpu {uuid}", "", str(ranks.rank)).decode()
    if holder != str(ranks.rank):
        problem = f"ranks {holder} and {ranks.rank} share the GPU {uuid} of {socket.gethostname()}"
        raise ConfigError(setting, problem, "start as many ranks on a machine as it has GPUs, each with one of its own")


def wait_longer_than(watchdog_seconds: float) -> None:
    """Sets the timeout of every process group to TIMEOUT, or to more than the watchdog's limit.

    The watchdog prints the stacks of all ranks; a group that gives up first would end them without. DeepSpeed's groups
    have torch's default, 10 minutes for nccl.
    """
    timeout = max(TIMEOUT, datetime.timedelta(seconds=min(watchdog_seconds, LONGEST_SECONDS)) + MARGIN)
    for group in distributed_c10d._world.pg_map:
        distributed_c10d._set_pg_timeout(timeout, group)


def own_cores(ranks: Ranks, environment: Mapping[str, str]) -> int:
    """The number of cores that this rank may keep busy: the launcher's number, else an equal share of the machine."""
    given = environment.get(CORES)
    return int(given) if given else max(1, len(os.sched_getaffinity(0)) // ranks.local_world)


def total(ranks: Ranks, values: Sequence[float]) -> list[float]:
    """Returns the sum of each of ``values`` over all ranks, in fp64."""
    sums = torch.tensor(values, dtype=torch.float64, device=ranks.device)
    dist.all_reduce(sums)
    return [float(value) for value in sums.tolist()]


def gather(value: T, group: dist.ProcessGroup | None = None) -> list[T]:
    """Returns the ``value`` of every rank, in the order of the ranks, on all ranks. A ``group`` of its own keeps the
    messages apart from all others."""
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value, group)
    return values


def on_first(ranks: Ranks, work: Callable[[], T]) -> T:
    """Runs ``work`` on rank 0 and returns its result on all ranks. All ranks raise the HeadraceError or OSError that it
    raises."""
    box: list[Any] = [None, None]
    if ranks.first:
        try:
            box[0] = work()
        except (HeadraceError, OSError) as error:
            box[1] = error
    dist.broadcast_object_list(box, src=0)
    if box[1] is not None:
        raise box[1]
    result: T = box[0]
    return result


def on_each(work: Callable[[], T]) -> list[T]:
    """Runs ``work`` on every rank and returns all results, in the order of the ranks. All ranks raise the first
    HeadraceError or OSError that one raises."""
    mine: tuple[list[T], HeadraceError | OSError | None]
    try:
        mine = [work()], None
    except (HeadraceError, OSError) as error:
        mine = [], error
    both = gather(mine)
    for _, problem in both:
        if problem is not None:
            raise problem
    return [result for results, _ in both for result in results]


@contextlib.contextmanager
def alone(ranks: Ranks, folder: Path) -> Iterator[None]:
    """Holds the lock of ``folder`` for this training, which goes on in the threads that it began with.

    A second training is refused while the holder lives.

    Raises:
        RetryableError: on all ranks, when another training writes there.
    """
    with contextlib.ExitStack() as stack:
        on_first(ranks, lambda: _lock(folder, stack))
        if ranks.device.type == "cpu":
            _keep_threads(ranks, folder)
        yield


def _keep_threads(ranks: Ranks, folder: Path) -> None:
    """Computes in the threads of the first start of the training in ``folder``, or says that there are fewer cores."""
    begun, cores = on_first(ranks, lambda: work_log.start_threads(folder, 0)), torch.get_num_threads()
    if begun is not None and begun <= cores:
        torch.set_num_threads(begun)
    elif begun is not None and ranks.first:
        problem = f"goes on in {cores} of the {begun} threads that it began in, as there are no more cores"
        work_log.record_start(folder, f"{folder.parent.name}: {problem}; its sums are rounded in another order", cores)


def _lock(folder: Path, stack: contextlib.ExitStack) -> None:
    make(folder)
    stream = stack.enter_context((folder / "lock").open("a+"))
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        stream.seek(0)
        holder = stream.read().strip() or "unknown"
        raise RetryableError(
            str(folder), f"another training writes here ({holder})", "wait for it or stop it, then run again"
        ) from None
    stream.truncate(0)
    stream.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    stream.flush()


class StopRequest:
    """Records that this process was asked to stop. The loop checks it between two steps. Ignored signals (SIGHUP under
    nohup) stay ignored."""

    SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> "StopRequest":
        self._before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in self.SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._ask) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, *_: object) -> None:
        self.asked = True


def stopped(stage: str, where: str) -> StoppedError:
    """The error that ends ``stage`` after a request to stop; ``where`` names the last saved step."""
    return StoppedError(stage, f"stopped on request {where}", "run the same command again to go on")


@contextlib.contextmanager
def device_errors(training: TrainingConfig, ranks: Ranks, folder: Path) -> Iterator[None]:
    """Translates errors of torch inside the block. The node of a GPU that fails is recorded below ``folder``; that of a
    rank that NCCL fails on is not, because the reason may be on any other node.

    Raises:
        ConfigError: when the memory of the GPU is not enough, which another start would not change.
        RetryableError: naming node and GPU, when the GPU or NCCL fails: a start on other nodes may succeed.
    """
    where = f"rank {ranks.rank} on {socket.gethostname()}, {ranks.device}"
    try:
        yield
    except torch.OutOfMemoryError as error:
        problem = f"is {training.micro_batch_rows}, and {where} ran out of memory ({_first_line(error)})"
        kinds = get_args(Recompute)
        less = " or ".join(kinds[kinds.index(training.recompute) + 1 :])
        recompute = f", or give training.recompute={less}" if less else ""
        remedy = f"lower it{recompute}, or a higher zero.stage on several GPUs; headrace plan prints what fits"
        raise ConfigError("training.micro_batch_rows", problem, remedy) from error
    except (torch.AcceleratorError, DistBackendError) as error:
        if isinstance(error, torch.AcceleratorError):
            work_log.add_bad_node(folder, work_log.this_node())
        remedy = "run again to go on from the newest checkpoint; leave out this node if it fails again"
        raise RetryableError("weights", f"{where} failed ({_first_line(error)})", remedy) from error


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
