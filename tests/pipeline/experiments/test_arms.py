"""The table at the end of a sweep."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.experiments import sweep
from headrace.pipeline.experiments.sweep import SweptRun
from headrace.pipeline.run.planner import Run


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize(
    ("names", "compared"),
    [(["lr-1", "lr-2"], ["lr-1", "lr-2"]), (["lr", "lr"], ["ID", "ID"]), ([None, "lr-2"], ["ID", "lr-2"])],
)
def test_the_command_that_compares_has_names_if_they_are_unique(
    names: list[str | None],
    compared: list[str],
    is_whole: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also without scores; arms on a cluster are compared later."""
    monkeypatch.setattr(sweep, "accuracies", lambda steps: [])
    monkeypatch.setattr(sweep, "validation_loss", lambda steps: None)
    config = decoded(compose([]))
    steps: list[Any] = [SimpleNamespace(name="weights", is_whole=is_whole)]
    runs = [Run(replace(config, name=name), {}, steps, [f"ranks={number}"]) for number, name in enumerate(names)]
    found = [SweptRun(run, "") for run in runs]
    sweep.show(found)
    expected = [one.run.id if name == "ID" else name for one, name in zip(found, compared, strict=True)]
    when = "compare them" if is_whole else "when they are done"
    assert capsys.readouterr().out.splitlines()[-1] == f"{when}: headrace compare {' '.join(expected)}"
