"""Notices of a run to a person: it ended, died, waits, or has a spike.

    send("spike", "weights", "the loss …") ── one JSON line ──> run/notice_program.py, a process of its own ──> notify=…

    notify=command    a program of the user's gets the notice as JSON
    notify=apprise    a library that knows a hundred services by one URL. The URL is a secret: it is read from the
                      environment when a notice is sent, and never stored or printed

Nothing waits for the process that sends, and its failure is a line in ``<run>/logs/notices.log``. Only a job, whose
processes end with it, waits at its end, at most ``CLOSING_SECONDS``.

The environment variable ``HEADRACE_NOTICES`` names the run. It is set when the run asks for notices; ranks inherit it.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.pipeline.core.environment import JOB, NOTICES, own_packages
from headrace.pipeline.core.errors import ConfigError, HeadraceError, TaskError
from headrace.pipeline.core.extras import require
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.core.settings import SomeTexts, settings
from headrace.pipeline.core.signals import Stop

SECONDS = 30.0
"""The time after which a notifier that has not ended is given up."""

Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of an environment variable."""

Event = Literal["ended", "died", "waits", "spike"]
PHRASES: Mapping[str, str] = {
    "ended": "ended",
    "died": "died",
    "waits": "waits",
    "spike": "has a spike",
}
"""Event → the end of a subject, after the name of the run."""


@dataclasses.dataclass(frozen=True)
class Notice:
    """A message to a person about a run."""

    event: Event
    run: str
    """The name of the run, or its id."""
    id: str
    stage: str
    host: str
    time: str
    """In UTC, as ISO 8601 writes it."""
    text: str
    lines: tuple[str, ...] = ()
    """The last lines of the log of the stage."""
    next: str = ""
    """The next command."""

    @property
    def subject(self) -> str:
        """One line, for the subject of an e-mail."""
        return " ".join(f"headrace: {self.run} {PHRASES[self.event]} ({self.stage} on {self.host})".split())

    @property
    def body(self) -> str:
        """The whole notice as text."""
        lines = ["", *(f"    {line}" for line in self.lines)] if self.lines else []
        command = ["", f"next: {self.next}"] if self.next else []
        run = f"run {self.id}, {self.time}"
        return "\n".join([self.text, *lines, *command, "", run])


@settings
class NoNotices:
    """No notice is sent."""

    type: Literal["none"] = "none"

    def check(self) -> None:
        """Does nothing."""

    def deliver(self, notice: Notice) -> None:
        """Does nothing."""


@settings
class ByCommand:
    """A command of the user's gets each notice as JSON on its standard input."""

    type: Literal["command"] = "command"
    command: SomeTexts
    """The program and its arguments; no shell reads them."""

    def check(self) -> None:
        """Refuses a program that is not on this machine.

        Raises:
            ConfigError: with its name.
        """
        if shutil.which(self.command[0]) is None:
            problem = f"no program {self.command[0]!r} on this machine"
            raise ConfigError("notify.command", problem, "install it, or give its path")

    def deliver(self, notice: Notice) -> None:
        """Runs the command; it and its children are killed after ``SECONDS``.

        Raises:
            TaskError: when it fails, or does not end in time.
            OSError: when it does not start.
        """
        process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        values = dataclasses.asdict(notice) | {"subject": notice.subject}
        try:
            _, said = process.communicate(json.dumps(values, ensure_ascii=False), timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise TaskError("notify", f"{self.command[0]} did not end within {SECONDS:g} s", "shorten it") from None
        if process.returncode:
            last = said.strip().splitlines()[-1:] or ["it printed no error"]
            raise TaskError(
                "notify", f"{self.command[0]} ended with status {process.returncode}: {last[0]}", "correct it"
            )


@settings
class ByApprise:
    """The library apprise sends each notice to an e-mail address, a chat, a telephone or a web address."""

    type: Literal["apprise"] = "apprise"
    url_variable: Variable = "HEADRACE_NOTIFY_URL"
    """The environment variable with the URL of the service, a secret: mailto://, slack://, json://, …; several URLs are
    separated by spaces."""

    def check(self) -> None:
        """Refuses a variable without a URL that apprise knows.

        Raises:
            ConfigError: naming the variable; without the URL.
        """
        require("notify=apprise", "apprise")
        self._services()

    def deliver(self, notice: Notice) -> None:
        """Sends the notice to every service.

        Raises:
            ConfigError: as ``check`` does.
            TaskError: when a service does not take it; without the URL.
        """
        if not self._services().notify(title=notice.subject, body=notice.body):
            raise TaskError("notify", f"a service of ${self.url_variable} did not take it", "try it: apprise -vv URL")

    def _services(self) -> Any:
        import apprise

        where, variable = "notify.url_variable", self.url_variable
        if not (urls := os.environ.get(variable, "").split()):
            raise ConfigError(where, f"the environment variable {variable} is not set", f"export {variable}=mailto://…")
        services = apprise.Apprise()
        are_known = [services.add(url) for url in urls]
        if not all(are_known):
            remedy = "give mailto://, slack://, json:// or another one of github.com/caronc/apprise/wiki"
            raise ConfigError(where, f"the environment variable {variable} holds no URL that apprise knows", remedy)
        return services


AnyNotifier = Annotated[NoNotices | ByCommand | ByApprise, Field(discriminator="type")]


@settings
class Notifying:
    """The part of a run's settings that a notice needs."""

    notify: AnyNotifier


PROGRAM = "headrace.pipeline.run.notice_program"
MARKS = "logs/notices"
"""Below the folder of the run: an empty file for each event and stage, as old as its last notice."""
AGAIN_SECONDS = 3600.0
"""A notice of the same event and stage is sent again after this time: a thousand array indices may fail at once."""
CLOSING_SECONDS = 10.0
TEXT_CHARACTERS = 2000

_programs: list["subprocess.Popen[str]"] = []
"""The processes that this process started."""


@contextlib.contextmanager
def noticed(run_json: Path) -> Iterator[None]:
    """Lets ``send`` in this block, and in ranks that start in it, tell of the run in ``run_json`` if it asks for it."""
    before = os.environ.pop(NOTICES, None)
    if wants_notices(run_json):
        os.environ[NOTICES] = str(run_json.resolve())
    try:
        yield
    finally:
        _close()
        os.environ.pop(NOTICES, None)
        if before is not None:
            os.environ[NOTICES] = before


def wants_notices(run_json: Path) -> bool:
    """Whether the settings in ``run_json`` ask for notices. A file that cannot be read asks for none: the work itself
    reports it."""
    try:
        return bool(read_sealed(run_json)["config"].get("notify", {}).get("type", "none") != "none")
    except (HeadraceError, OSError):
        return False


def begin(run_json: Path) -> None:
    """Forgets the notices of earlier starts of the run in ``run_json``: those of this start are sent at once."""
    for mark in (run_json.parent / MARKS).glob("*"):
        mark.unlink(missing_ok=True)


@contextlib.contextmanager
def failure_noticed(stage: str) -> Iterator[None]:
    """Notifies of the error that ends the block, which works on ``stage``, or of a request to stop by another signal
    than Ctrl-C, which a person types."""
    try:
        yield
    except Stop as stop:
        if stop.number != signal.SIGINT:
            send("waits", stage, f"{stage} was stopped by {signal.Signals(stop.number).name}: {stop}")
        raise
    except HeadraceError as error:
        send("died", stage, str(error))
        raise
    except Exception as error:
        send("died", stage, f"{type(error).__name__}: {error}")
        raise


def send(event: Event, stage: str, text: str) -> None:
    """Has a notice of ``event`` at ``stage`` sent, unless the run asks for none, or an equal one was sent just now.

    A failure to start the process is one line.
    """
    run_json = os.environ.get(NOTICES)
    if not run_json or not is_due(Path(run_json).parent / MARKS, f"{event}-{stage}"):
        return
    order = {"event": event, "stage": stage, "text": text[:TEXT_CHARACTERS]}
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, run_json],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | own_packages(),  # the current folder may hold a user's email.py
            text=True,
            start_new_session=True,  # Ctrl-C goes to the command alone
        )
        with process.stdin or contextlib.nullcontext() as stream:
            print(json.dumps(order), file=stream, flush=True)
        _programs.append(process)
    except OSError as error:
        print(f"notify: no notice of {stage} was sent ({error.strerror})", file=sys.stderr, flush=True)


def is_due(marks: Path, name: str) -> bool:
    """Whether no notice ``name`` was sent within ``AGAIN_SECONDS``; marks it as sent. Of several processes at once, one
    gets True. A disk that takes no mark does not hold a notice back."""
    mark = marks / name
    try:
        if marks.parent.parent.is_dir():  # not where the run was moved away
            marks.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # there is none, or another process removes it now
            if time.time() - mark.stat().st_mtime < AGAIN_SECONDS:
                return False
            mark.unlink()
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return not marks.is_dir()
    except OSError:
        return True
    return True


def _close() -> None:
    """Waits for the processes that send notices where they end with this one: in a job, and in a container."""
    deadline = time.monotonic() + CLOSING_SECONDS
    for process in _programs if JOB in os.environ or os.getpid() == 1 else ():
        with contextlib.suppress(subprocess.TimeoutExpired):  # its log has no line then
            process.wait(max(0.0, deadline - time.monotonic()))
    _programs[:] = [process for process in _programs if process.poll() is None]
