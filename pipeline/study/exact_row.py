"""A row of the exact study: an expected number, or property, and our own."""

import dataclasses
from typing import Literal

NumberOrigin = Literal["publication", "code of others", "formula"]


@dataclasses.dataclass(frozen=True)
class ExactRow:
    """An expected number, or property, and our own."""

    topic: str
    what: str
    expected: str
    own: str
    is_equal: bool
    origin: NumberOrigin
    """The origin of ``expected``."""
    source: str
    remark: str = ""
    """Why they differ, where they do."""

    @classmethod
    def of(
        cls,
        topic: str,
        what: str,
        expected: float,
        own: float,
        origin: NumberOrigin,
        source: str,
        form: str = ",.0f",
        remark: str = "",
    ) -> "ExactRow":
        """Compares two numbers as ``form`` writes the expected one; ``remark`` says why they differ if they do."""
        texts = format(expected, form), format(own, form)
        is_equal = texts[0] == texts[1]
        return cls(topic, what, *texts, is_equal, origin, source, "" if is_equal else remark)
