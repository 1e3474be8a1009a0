"""The rest of a chain of jobs, which a full queue did not take: the last job that it took submits it at its end.

    <root>/runs/rest-118-<run>.json     {"run_json": …}: job 118, which may be that of another run, submits its rest

python -m headrace.pipeline.run.rest RUN_JSON
    Submits the rest of the run, as the command that submitted it would do.
"""

import sys
from pathlib import Path

from headrace.pipeline.clusters.base import adopt_job
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.run.planner import load
from headrace.pipeline.run.submission import submit
from headrace.pipeline.tracking.notices import noticed, send


def main(run_json: Path) -> int:
    """Submits the rest of the run in ``run_json``. A failure is printed, and sent to the user who waits for the run."""
    with noticed(run_json):
        try:
            config, stages = load(run_json)
            if scheduler := config.cluster.scheduler:
                submit(stages, scheduler, run_json, takes_effect=False)
        except HeadraceError as error:
            print(f"headrace: {error}", file=sys.stderr, flush=True)
            send("waits", "report", f"the rest of the chain is not submitted: {error}")
            return error.exit_status
    return 0


if __name__ == "__main__":
    adopt_job()
    sys.exit(main(Path(sys.argv[1])))
