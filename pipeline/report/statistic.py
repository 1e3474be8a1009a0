"""A number of the page with its label and a note."""

import dataclasses
from collections.abc import Sequence

from headrace.pipeline.report.formatting import NONE


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A number of the page with its label and a note, as text."""

    label: str
    value: str
    note: str = ""


def known(statistics: Sequence[Statistic]) -> list[Statistic]:
    """Returns the ``statistics`` that have a value."""
    return [statistic for statistic in statistics if statistic.value != NONE]
