"""This machine: the command itself does the work."""

from collections.abc import Mapping, Sequence
from typing import Literal

from headrace.pipeline.clusters.base import Entry, Job, Scheduler
from headrace.pipeline.core.settings import settings


@settings
class Local:
    """This machine: a pool of worker processes for data, ranks for training and scoring."""

    type: Literal["local"] = "local"

    @property
    def shares_packages(self) -> bool:
        return True

    @property
    def scheduler(self) -> Scheduler | None:
        return None

    def world(self, ranks: int) -> int:
        return ranks

    @staticmethod
    def states(jobs: Sequence[Job]) -> dict[str, list[Entry]]:
        """Returns no entries: there are no jobs."""
        return {job.job: [] for job in jobs}

    @staticmethod
    def submitted(jobs: Mapping[str, Job]) -> dict[str, str]:
        """Returns nothing: there are no jobs."""
        return {}

    @staticmethod
    def cancel(jobs: Sequence[Job]) -> None:
        """Does nothing: there are no jobs."""
