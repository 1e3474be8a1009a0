"""A real SLURM on this machine for the whole session, and the same small run on one machine without it.

Everything in this folder is marked ``slurm``.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.line import Line, headrace, write_source
from tests.cluster.one_machine import OneMachineSlurm, lacking
from tests.cluster.training import Training


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneMachineSlurm]:
    """Two nodes, n1 and n2, of 4 cores each; SLURM_CONF points at them."""
    if reason := lacking():
        pytest.skip(reason)
    with OneMachineSlurm(tmp_path_factory.mktemp("slurm") / "one") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def local_line(tmp_path_factory: pytest.TempPathFactory) -> Line:
    """The whole line on one machine, with two ranks."""
    folder = tmp_path_factory.mktemp("line")
    line = Line((write_source(folder / "raw"), "cleaning=c4", "cleaning.buckets=2"), folder / "local")
    done = headrace("run", *line.settings, f"root='{line.root}'", "ranks=2", "workers=2")
    assert done.returncode == 0, done.stderr
    return line


@pytest.fixture(scope="session")
def undisturbed(slurm: OneMachineSlurm, local_line: Line, tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A training on SLURM without any fault."""
    training = Training.submit(local_line, tmp_path_factory.mktemp("undisturbed"))
    training.wait_for_end("COMPLETED")
    return training
