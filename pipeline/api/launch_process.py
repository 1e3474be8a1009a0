"""The process that ``headrace.launch`` starts. It runs or submits the stages, as ``headrace run`` does.

python -m headrace.pipeline.api.launch_process FOLDER OVERRIDE …

    FOLDER/run.txt           the path of the finished or submitted run's run.json
    FOLDER/logs/error.json   else its error (core/work_log.py)

Its standard input is a pipe that the calling process holds. When that process ends, this one stops in an orderly way.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.command_line.declaration import load
from headrace.pipeline.core import environment, work_log
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.signals import Stop, stoppable
from headrace.pipeline.core.system_errors import system_errors_explained

RUN_FILE = "run.txt"


def stop_with_caller() -> None:
    """Asks this process to stop when the calling process has ended."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


@stoppable()
def main(folder: Path, overrides: Sequence[str]) -> int:
    """Carries out the run of ``overrides``, and writes its end to ``folder``. Returns the exit status."""
    try:
        with system_errors_explained("headrace"):
            threading.Thread(target=stop_with_caller, name="stop-with-caller", daemon=True).start()
            run = load("command_line.run_start").start_run(overrides)
            run_json = run.run_json
            (folder / RUN_FILE).write_text(str(run_json.absolute()))
    except HeadraceError as error:
        work_log.write_error(folder, error)
        return error.exit_status
    except Stop as stop:
        print(f"headrace: {stop}", file=sys.stderr)
        return stop.exit_status
    return 0


if __name__ == "__main__":
    environment.prepare()
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
