"""The start of the fork server."""

import pytest

from headrace.pipeline.run import fork_server


@pytest.mark.parametrize(
    ("overrides", "is_started"),
    [
        ([], True),
        (["experiment=smoke", "name=cluster=slurm"], True),
        (["cluster=local"], True),
        (["cluster.type=local"], True),
        (["cluster.workers=2"], True),
        (["experiment=smoke", "cluster=slurm"], False),
        (["cluster.type=files", "+cluster.width=2"], False),
        (["+cluster=mine"], False),
    ],
)
def test_a_command_that_submits_jobs_starts_no_server(
    monkeypatch: pytest.MonkeyPatch, overrides: list[str], is_started: bool
) -> None:
    started: list[int] = []
    monkeypatch.setattr(fork_server, "start_fork_server", lambda: started.append(1))
    fork_server.start_early(overrides)
    assert bool(started) is is_started
