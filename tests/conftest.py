"""The folder of real data for the tests: $HEADRACE_DATA, else the folder shared/data beside the checkout."""

import gc
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.stage_run import run_clean, run_stage

__all__ = ["run_clean", "run_stage"]

os.environ["HEADRACE_EXTENSIONS"] = "none"  # what other packages add has tests of its own
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("WANDB__SERVICE_WAIT", "300")  # seconds; a busy machine may need more than the default of 30
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # else each process of pytest starts some that load torch

settings.register_profile(
    "steady", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")
"""The same examples in every run, on a slow machine too; ``--hypothesis-profile=default`` looks for new ones."""

gc.disable()
"""The collector is off until all tests are loaded, which takes a fifth less time."""

MEMORY, MEMORY_BYTES = Path("/dev/shm"), 8 << 30
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
"""The folders of tests are in memory where it has room. A run makes 30,000 files of half a gigabyte; on a disk it takes
a sixth more time."""

DATA = Path(os.environ.get("HEADRACE_DATA", Path(__file__).parents[2] / "shared" / "data"))


for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:  # the tests run in the background, or under nohup
        signal.signal(number, lambda *_: None)  # so that the processes they start do not inherit it


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes go by their number: gzip writes the time into them, and every process must give a test the same name."""
    return f"{len(val)}-bytes" if isinstance(val, bytes) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Moves the longest tests to the front, so that no process runs one of them alone at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/end_to_end/", "tests/train/")))


def pytest_collection_finish() -> None:
    """Leaves what is loaded now out of garbage collections: DeepSpeed starts several for each engine, 0.5 s each.

    Python collects when 50,000 objects are new instead of 700, which saves 3 % of the time.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session")
def data_folder() -> Callable[[str], Path]:
    """``data_folder("web/warc")``: the path of real data, or a skip that names what is absent."""

    def find(name: str) -> Path:
        if not (DATA / name).exists():
            pytest.skip(f"no real data at {DATA / name} (set HEADRACE_DATA)")
        return DATA / name

    return find
