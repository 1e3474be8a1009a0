"""A notice, the message to a person about an event of a run, and the ways of sending it: a command, or apprise, which
knows a hundred services by one URL.

    notify=apprise    {"type": "apprise", "url_variable": "HEADRACE_NOTIFY_URL"}

The URL of a service is a secret. It is read from the environment when a notice is sent, and never stored or printed:
the settings only name the variable.
"""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.extras import require
from headrace.pipeline.core.settings import SomeTexts, settings

SECONDS = 30.0
"""The time after which a notifier that has not ended is given up."""

Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of an environment variable."""


Event = Literal["ended", "died", "waits", "spike", "disk"]
PHRASES: Mapping[str, str] = {
    "ended": "ended",
    "died": "died",
    "waits": "waits",
    "spike": "has a spike",
    "disk": "runs out of disk space",
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

    @property
    def values(self) -> dict[str, Any]:
        """The notice as JSON values: its fields, and the subject."""
        return {**dataclasses.asdict(self), "subject": self.subject}


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
        try:
            _, said = process.communicate(json.dumps(notice.values, ensure_ascii=False), timeout=SECONDS)
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
