"""The process that sends one notice of a run (tracking/notices.py). Nothing waits for it.

python -m headrace.pipeline.run.notice_program RUN_JSON < ORDER
python -m headrace.pipeline.run.notice_program RUN_JSON ended     the last job of a chain

    {"event": "died", "stage": "weights", "text": …} ──> the last lines of the log, the next command ──> notify=…
                                                    └──> <run>/logs/notices.log: one line, sent or not

It ends after ``LIMIT_SECONDS`` in any case.
"""

import json
import os
import platform
import shlex
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.secrets import redacted
from headrace.pipeline.core.settings import decode
from headrace.pipeline.report.about import start_command
from headrace.pipeline.run import jobs
from headrace.pipeline.run.run_logs import log_files, tail
from headrace.pipeline.run.saved_run import SavedRun, SavedStage
from headrace.pipeline.tracking.notices import MARKS, SECONDS, Event, Notice, Notifying, is_due

LIMIT_SECONDS = SECONDS + 30
LINES = 10
LAST = {"event": "ended", "stage": "chain", "text": "", "asks_end": True}
"""The order of the last job of a chain."""
LOG = "logs/notices.log"
"""Below the folder of the run."""


def notice_of(run: SavedRun, order: Mapping[str, Any]) -> Notice | None:
    """Returns the notice that ``order`` asks for; None when it asks whether the jobs have ended, and some have not."""
    event, stage, text = order["event"], order["stage"], order["text"]
    if order.get("asks_end"):
        if (news := ended_chain(run)) is None or not is_due(run.file.parent / MARKS, f"{news[0]}-{news[1]}"):
            return None
        event, stage, text = news
    if event == "ended":
        text = f"{text}; report: {run.steps[-1].folder.resolve() / 'report.html'}"
    return Notice(
        event=event,
        run=run.label,
        id=run.id,
        stage=stage,
        host=platform.node(),
        time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        text=redacted(text),
        lines=last_lines(run, stage) if event in ("died", "waits", "spike") else (),
        next=redacted(next_command(run, event)),
    )


def ended_chain(run: SavedRun) -> tuple[Event, str, str] | None:
    """Returns the event, the stage and the text of the end of the jobs of ``run``; None while one waits or runs, or
    another command works on it.

    Raises:
        ConfigError, TaskError: when the cluster cannot be asked.
    """
    if run.steps[-1].is_whole:
        return "ended", run.steps[-1].name, "all stages are done"
    unfinished = [stage for stage in run.steps if not stage.is_whole]
    if run.processes() or jobs.live(unfinished):
        return None
    states = jobs.asked_states(unfinished)
    stage = next(iter(states), unfinished[0].name)
    why = states.get(stage, "its jobs have ended")
    reported = work_log.error_of(next(saved.folder for saved in unfinished if saved.name == stage))
    attempt = f"; {reported}" if reported and str(reported) not in why else ""
    return "died", stage, f"{why}{attempt}"


def next_command(run: SavedRun, event: str) -> str:
    """Returns the command that a person is likely to type after ``event``."""
    if event in ("died", "waits"):
        again = start_command(list(map(str, run.values["overrides"])), run.values.get("config_dir", ""))
        return f"cd {shlex.quote(run.values['folder'])} && {again}"
    return run.command("status") + (" --logs" if event == "spike" else "")


def last_lines(run: SavedRun, stage: str) -> tuple[str, ...]:
    """Returns the last lines of the newest log of ``stage``; nothing when it has none."""
    named: SavedStage | None = next((saved for saved in run.steps if saved.name == stage), None)
    newest = log_files(named)[:1] if named else []
    return tuple(line for path in newest for line in tail(path, LINES))


def write_line(run_json: Path, line: str) -> None:
    """Appends ``line`` to the log of notices, with the time. A disk that does not take it is reported on stderr."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        path = run_json.parent / LOG
        path.parent.mkdir(exist_ok=True)  # in the folder of the run: one that was moved is not made again
        with path.open("a", encoding="utf-8") as stream:
            stream.write(f"{now} {line}\n")
    except OSError as error:
        print(f"notify: {line} ({error.strerror})", file=sys.stderr, flush=True)


def main(run_json: Path, order: Mapping[str, Any]) -> None:
    """Sends the notice that ``order`` asks for, and writes a line about it."""
    what = f"{order['event']} {order['stage']}:"
    limit = threading.Timer(LIMIT_SECONDS, give_up, (run_json, f"{what} not sent: no end within {LIMIT_SECONDS:g} s"))
    limit.daemon = True
    limit.start()
    try:
        run = SavedRun.read(run_json)
        notifier = decode(Notifying, {"notify": run.values["config"]["notify"]}).notify
        notice = notice_of(run, order)
        if notice is None:
            return
        notifier.deliver(notice)
        line = f"{notice.event} {notice.stage}: sent ({notifier.type})"
    except (HeadraceError, OSError) as error:
        line = f"{what} not sent: {redacted(' '.join(str(error).split()))}"
    finally:
        limit.cancel()
    write_line(run_json, line)


def give_up(run_json: Path, line: str) -> None:
    """Writes ``line`` and ends this process, whatever it waits for."""
    write_line(run_json, line)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), LAST if len(sys.argv) > 2 else json.loads(sys.stdin.readline()))
