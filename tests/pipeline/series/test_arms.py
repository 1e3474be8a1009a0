"""The table at the end of a sweep."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from headrace.pipeline.composition import compose
from headrace.pipeline.config import decoded
from headrace.pipeline.series import arms
from headrace.pipeline.series.arms import Arm


@pytest.mark.parametrize(
    ("names", "compared"),
    [(["lr-1", "lr-2"], ["lr-1", "lr-2"]), (["lr", "lr"], ["ID", "ID"]), ([None, "lr-2"], ["ID", "lr-2"])],
)
def test_the_command_that_compares_has_names_if_they_are_unique(
    names: list[str | None], compared: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark, metric = SimpleNamespace(name="piqa"), SimpleNamespace(name="acc")
    monkeypatch.setattr(arms, "accuracies", lambda steps: [(benchmark, metric)])
    monkeypatch.setattr(arms, "percent", lambda metric: "50.0 %")
    monkeypatch.setattr(arms, "validation_loss", lambda steps: None)
    config = decoded(compose([]))
    runs = [SimpleNamespace(config=replace(config, name=name), steps=[]) for name in names]
    found = [Arm([f"ranks={number}"], run, "") for number, run in enumerate(runs)]
    arms.show(found)
    expected = [one.id if name == "ID" else name for one, name in zip(found, compared, strict=True)]
    assert capsys.readouterr().out.splitlines()[-1] == f"compare them: headrace compare {' '.join(expected)}"
