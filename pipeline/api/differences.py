"""Differences between runs for notebooks and scripts: what ``headrace compare`` shows above the scores.

headrace.differences("small", "large") ──> Table: kind, name, small, large
"""

from headrace.pipeline.api.run import Run
from headrace.pipeline.api.tables import Table
from headrace.pipeline.experiments.comparison import contestants, differing_settings, differing_stages
from headrace.pipeline.run.saved_run import DEFAULT_ROOT


def differences(*runs: Run | str, root: str = DEFAULT_ROOT) -> Table:
    """Returns one row for each setting that differs, and for each stage at which the runs part.

    The columns are ``kind`` (setting or stage), ``name``, and one for each run: the value of the setting as JSON, what
    is known of other data, or the address of the stage; ``–`` where the run has none. No row: the results are equal.

    Args:
        runs: runs, or their names, ids, beginnings of ids or paths; folders of scores, too.
        root: the folder in which names and ids are searched.

    Raises:
        ConfigError: when a name is unknown.
    """
    wanted = [str(run.folder / "run.json") if isinstance(run, Run) else run for run in runs]
    compared = contestants(wanted, root)
    names = [run.name for run in compared]
    of_kinds = {"setting": differing_settings(compared), "stage": differing_stages(compared)}
    rows = (
        {"kind": kind, "name": name, **dict(zip(names, cells, strict=True))}
        for kind, lines in of_kinds.items()
        for name, *cells in lines
    )
    return Table(("kind", "name", *names), rows)
