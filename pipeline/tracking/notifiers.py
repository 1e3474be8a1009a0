"""The ways of sending a notice to a person: a command, an e-mail, a webhook in plain JSON or in Slack's form.

    notify=slack    {"type": "slack", "url_variable": "HEADRACE_WEBHOOK_URL"}

Passwords and URLs of webhooks are secrets. They are read from the environment when a notice is sent, and never stored:
the settings only name the variable.
"""

import abc
import http.client
import json
import os
import shutil
import signal
import smtplib
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import EmailMessage
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.settings import SomeTexts, settings
from headrace.pipeline.tracking.notice import Notice

SECONDS = 30.0
"""The time after which a notifier that has not ended is given up."""

Port = Annotated[int, Field(ge=1, le=65535)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of an environment variable."""


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
class ByEmail:
    """Each notice is an e-mail, sent by SMTP."""

    type: Literal["email"] = "email"
    host: str
    """The SMTP server."""
    port: Port = 587
    """Its port: usually 587 with ``starttls``, 465 with ``tls``, 25 with ``none``."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """The encryption of the connection; ``none`` sends all in clear text."""
    sender: str
    """The address that the e-mail comes from."""
    to: SomeTexts
    """The addresses that it goes to."""
    user: str | None = None
    """The user at the server; None: the server asks for none."""
    password_variable: Variable = "HEADRACE_SMTP_PASSWORD"
    """The environment variable with the password of ``user``."""

    def check(self) -> None:
        """Refuses a user without a password, and a password without encryption.

        Raises:
            ConfigError: naming the setting.
        """
        if self.user is not None:
            of_environment("notify.password_variable", self.password_variable)
            if self.security == "none":
                problem = "is none: the password would be sent in clear text"
                raise ConfigError("notify.security", problem, "give starttls or tls, or leave out notify.user")

    def deliver(self, notice: Notice) -> None:
        """Sends the e-mail.

        Raises:
            SMTPException: when the server refuses it.
            OSError: when it cannot be reached.
        """
        message = EmailMessage()
        message["Subject"], message["From"], message["To"] = notice.subject, self.sender, ", ".join(self.to)
        message.set_content(notice.body)
        with self._connected() as server:
            if self.security == "starttls":
                server.starttls(context=ssl.create_default_context())
            if self.user is not None:
                server.login(self.user, of_environment("notify.password_variable", self.password_variable))
            server.send_message(message)

    def _connected(self) -> smtplib.SMTP:
        """Returns a connection to the server. Python verifies a certificate only with a context."""
        if self.security == "tls":
            return smtplib.SMTP_SSL(self.host, self.port, timeout=SECONDS, context=ssl.create_default_context())
        return smtplib.SMTP(self.host, self.port, timeout=SECONDS)


@settings
class Posting(abc.ABC):
    """Each notice is posted to a URL as a JSON object."""

    url_variable: Variable = "HEADRACE_WEBHOOK_URL"
    """The environment variable with the URL, which is a secret."""

    @abc.abstractmethod
    def posted(self, notice: Notice) -> Mapping[str, Any]:
        """Returns the fields of the object."""

    def check(self) -> None:
        """Refuses a variable without a URL.

        Raises:
            ConfigError: naming the variable.
        """
        web_address(self.url_variable)

    def deliver(self, notice: Notice) -> None:
        """Posts the notice.

        Raises:
            TaskError: when the server does not take it.
        """
        post(self.url_variable, self.posted(notice))


@settings
class ByWebhook(Posting):
    """Each notice is posted to a URL as a JSON object."""

    type: Literal["webhook"] = "webhook"

    def posted(self, notice: Notice) -> Mapping[str, Any]:
        return notice.values


@settings
class BySlack(Posting):
    """Each notice is posted to an incoming webhook of Slack, or of a service that takes its form."""

    type: Literal["slack"] = "slack"

    def posted(self, notice: Notice) -> Mapping[str, Any]:
        """Returns the notice as one text, in which Slack escapes ``&``, ``<`` and ``>`` (its page on formatting)."""
        body = notice.body.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return {"text": f"*{notice.subject}*\n```\n{body}\n```"}


AnyNotifier = Annotated[NoNotices | ByCommand | ByEmail | ByWebhook | BySlack, Field(discriminator="type")]


@settings
class Notifying:
    """The part of a run's settings that a notice needs."""

    notify: AnyNotifier


def of_environment(where: str, variable: str) -> str:
    """Returns the value of the environment ``variable``, which the setting ``where`` names.

    Raises:
        ConfigError: when it is not set.
    """
    if not (value := os.environ.get(variable)):
        raise ConfigError(where, f"the environment variable {variable} is not set", f"export {variable}=…")
    return value


def web_address(variable: str) -> str:
    """Returns the URL in the environment ``variable``.

    Raises:
        ConfigError: when it holds none; the message does not hold it.
    """
    url = of_environment("notify.url_variable", variable)
    if not url.startswith(("https://", "http://")) or not url.isprintable() or " " in url:
        problem = f"the environment variable {variable} holds no web address"
        raise ConfigError("notify.url_variable", problem, "give one that begins with https://")
    return url


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without the notice."""

    def redirect_request(self, *_: Any) -> None:
        return None


def post(variable: str, values: Mapping[str, Any]) -> None:
    """Posts ``values`` as JSON to the URL in the environment ``variable``.

    Raises:
        TaskError: when the server answers with another status than 2xx, or not at all; without the URL.
    """
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "headrace"}
    body = json.dumps(values, ensure_ascii=False).encode()
    try:
        request = urllib.request.Request(web_address(variable), body, headers, method="POST")
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=SECONDS):
            return
    except urllib.error.HTTPError as error:
        problem = f"status {error.code}"
        error.close()
    except urllib.error.URLError as error:
        problem = str(error.reason)
    except (OSError, ValueError, http.client.HTTPException) as error:
        problem = type(error).__name__  # its text may hold the URL
    raise TaskError("notify", f"the server of ${variable} did not take it ({problem})", "correct the address")
