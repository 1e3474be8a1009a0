"""A real SLURM on this machine for the whole session; everything in this folder is marked ``slurm``."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.one_machine import OneMachineSlurm, lacking


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
