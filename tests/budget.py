"""A pytest plugin: what each default test costs, in seconds of CPU of its process and of those that it started.

    ... 23 tests take more than 0.5 s of CPU, 31 of 402 s:
      2.31  tests/pipeline/test_config.py::test_a_run        the slowest, at the end of ``make test``

A test that takes more than LIMIT_SECONDS fails the whole: it belongs to ``make test-slow``. The limit is many times
the budget, because a busy machine and the first call of a compiled function make a test dearer than its work.
"""

import os
from collections.abc import Generator
from typing import Any

import pytest

BUDGET_SECONDS = 0.5
LIMIT_SECONDS = 10.0
LISTED = 15
COST = "cpu_seconds"


def pytest_configure(config: pytest.Config) -> None:
    if "not slow" in config.getoption("markexpr"):
        config.pluginmanager.register(Budget())


class Budget:
    """The costs of the default tests."""

    def __init__(self) -> None:
        self._costs: dict[str, float] = {}
        self._before = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        self._before = _cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            report.user_properties = [*report.user_properties, (COST, _cpu_seconds() - self._before)]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Runs in the process that the user started; the tests may have run in others (pytest-xdist)."""
        self._costs.update((report.nodeid, cost) for name, cost in report.user_properties if name == COST)

    def _above(self, seconds: float) -> dict[str, float]:
        return {test: cost for test, cost in self._costs.items() if cost > seconds}

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._above(LIMIT_SECONDS) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        above = self._above(BUDGET_SECONDS)
        if not above:
            return
        total = f"{sum(above.values()):.0f} of {sum(self._costs.values()):.0f} s"
        terminalreporter.write_line(f"{len(above)} tests take more than {BUDGET_SECONDS} s of CPU, {total}:")
        for test, cost in sorted(above.items(), key=lambda pair: -pair[1])[:LISTED]:
            problem = f"  above {LIMIT_SECONDS} s: make it cheaper, or mark it slow" * (cost > LIMIT_SECONDS)
            terminalreporter.write_line(f"{cost:6.2f}  {test}{problem}")


def _cpu_seconds() -> float:
    """Returns the CPU time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
