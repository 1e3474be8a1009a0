"""A clock for waits for claims, which only their sleeps move on: the time that a test itself takes does not count."""

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from headrace.pipeline.core import claim
from headrace.pipeline.run import planned_stage


def release_when_reported(monkeypatch: pytest.MonkeyPatch, release: Callable[[], object]) -> None:
    """Calls ``release`` once, when a wait for a claim is so long that it was reported."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        before, now = now, now + seconds
        if before < 2 * claim.QUIET_SECONDS <= now:
            release()
        time.sleep(0.01)

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now)
    monkeypatch.setattr(planned_stage, "time", clock)
    monkeypatch.setattr(claim, "time", clock)
