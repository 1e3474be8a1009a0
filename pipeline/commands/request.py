"""Finds the settings, or the run, that the overrides of a command ask for.

headrace why numpy:2                        the newest run below the default root
headrace why numpy:2 root=/data/runs        the newest run below another root
headrace why numpy:2 experiment=demo        the run of these settings
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from headrace.pipeline.composition import compose
from headrace.pipeline.conf_folder import setting_of
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.run.planner import Run, newest, plan


def config_of(overrides: Sequence[str]) -> RunConfig:
    """Returns the settings; no raw file has to be there."""
    return decoded(compose(overrides))


def run_of(overrides: Sequence[str], may_change: Collection[str] = ()) -> Run:
    """Returns the run of the settings, or the newest run when no override chooses one.

    Overrides of ``root`` and of the settings ``may_change`` choose no run. The latter replace settings of the newest.
    """
    values = compose(overrides)
    given = {setting_of(override) for override in overrides} - {"root"}
    if given - set(may_change):
        return planned(values, overrides)
    run = newest(decoded(values).root)
    return changed(run, overrides, given) if given else run


def planned(values: Mapping[str, Any], overrides: Sequence[str]) -> Run:
    """Plans the run of the composed ``values``; ``overrides`` led to them."""
    config = decoded(values)
    return Run(config, values, plan(config), overrides)


def changed(run: Run, overrides: Sequence[str], names: AbstractSet[str]) -> Run:
    """Returns ``run`` with the settings ``names`` as ``overrides`` make them, and the same artifacts."""
    anew = {override.partition("=")[0] for override in overrides}
    before = [override for override in run.overrides if override.partition("=")[0] not in anew]
    config = config_of([*before, *overrides])
    values = {name: getattr(config, name) for name in names}
    return dataclasses.replace(run, config=dataclasses.replace(run.config, **values))
