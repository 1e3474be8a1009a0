"""Notices that a real command, SMTP server and web server receive, and the failures of each."""

import base64
import email
import email.policy
import http.server
import json
import shutil
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from smtplib import SMTPException
from typing import Any

import pytest

from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.tracking import notifiers
from headrace.pipeline.tracking.notice import Notice
from headrace.pipeline.tracking.notifiers import ByCommand, ByEmail, BySlack, ByWebhook, Notifying
from tests.other_processes import is_running, wait_until

NOTICE = Notice(
    event="died",
    run="small",
    id="0b5c2f7d9e11",
    stage="weights",
    host="node7",
    time="2026-11-28T19:20:00Z",
    text="3 attempts saved no checkpoint: <größe> & more",
    lines=("step 7", "killed"),
    next="cd /data && headrace experiment=demo",
)


def python(code: str, *arguments: str) -> ByCommand:
    return ByCommand(command=(sys.executable, "-c", code, *arguments))


def test_a_command_gets_the_notice_as_json(tmp_path: Path) -> None:
    python("import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())", f"{tmp_path}/got").deliver(NOTICE)
    values = json.loads((tmp_path / "got").read_text(encoding="utf-8"))
    assert values.pop("subject") == "headrace: small died (weights on node7)"
    assert Notice(**values | {"lines": tuple(values["lines"])}) == NOTICE


def test_a_command_that_fails_is_reported_with_its_last_line() -> None:
    with pytest.raises(TaskError, match=r"^notify: \S+ ended with status 3: no route; correct it$"):
        python("import sys; print('first\\nno route', file=sys.stderr); sys.exit(3)").deliver(NOTICE)
    with pytest.raises(FileNotFoundError):
        ByCommand(command=("/no/such/program",)).deliver(NOTICE)
    with pytest.raises(ConfigError, match=r"^notify.command: no program '/no/such/program'"):
        ByCommand(command=("/no/such/program",)).check()


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = tmp_path / "child"

    class Begun(subprocess.Popen[str]):
        """A command whose time begins when it has a child."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            wait_until(lambda: written.exists() and written.read_text())

    monkeypatch.setattr(notifiers.subprocess, "Popen", Begun)
    monkeypatch.setattr(notifiers, "SECONDS", 0.2)
    code = "import os, sys, time; child = os.fork(); child and open(sys.argv[1], 'w').write(str(child)); time.sleep(99)"
    with pytest.raises(TaskError, match=r"did not end within 0\.2 s"):
        python(code, str(written)).deliver(NOTICE)
    wait_until(lambda: not is_running(int(written.read_text())))


class Web(http.server.BaseHTTPRequestHandler):
    """Answers with the status in the path, and keeps the bodies."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append((self.headers["Content-Type"], json.loads(body)))  # type: ignore[attr-defined]
        self.send_response(int(self.path.split("/")[1]))
        self.send_header("Location", "/200/secret")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def web() -> Iterator[Any]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        server.bodies = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_webhook_gets_the_fields_and_slack_a_text(web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_URL", f"http://127.0.0.1:{web.server_port}/200/secret")
    ByWebhook(url_variable="OWN_URL").deliver(NOTICE)
    BySlack(url_variable="OWN_URL").deliver(NOTICE)
    (kind, plain), (_, slack) = web.bodies
    assert kind == "application/json; charset=utf-8"
    assert plain == {**NOTICE.values, "lines": list(NOTICE.lines)}
    assert list(slack) == ["text"]
    assert "&lt;größe&gt; &amp; more" in slack["text"]
    assert "next: cd /data &amp;&amp; headrace experiment=demo" in slack["text"]


@pytest.mark.parametrize("status", [302, 307, 404, 500])
def test_another_status_is_a_failure_that_does_not_name_the_url(
    status: int, web: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_URL", f"http://127.0.0.1:{web.server_port}/{status}/secret")
    with pytest.raises(TaskError, match=rf"\$OWN_URL did not take it \(status {status}\)") as error:
        ByWebhook(url_variable="OWN_URL").deliver(NOTICE)
    assert "secret" not in str(error.value)
    assert len(web.bodies) == 1, "a redirect is not followed"


def test_a_server_that_does_not_answer_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifiers, "SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OWN_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/secret")
        with pytest.raises(TaskError, match=r"did not take it \((TimeoutError|timed out)\)"):
            BySlack(url_variable="OWN_URL").deliver(NOTICE)


def test_a_server_that_refuses_the_connection_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # it keeps the port and does not listen
        monkeypatch.setenv("OWN_URL", f"http://127.0.0.1:{deaf.getsockname()[1]}/secret")
        with pytest.raises(TaskError, match=r"did not take it \(.*refused\)"):
            BySlack(url_variable="OWN_URL").deliver(NOTICE)


@pytest.mark.parametrize("url", ["", "file:///etc/passwd", "hooks.example.org/secret", "https://a b/secret"])
def test_a_variable_without_a_web_address_is_refused_at_the_start(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_URL", url)
    for kind in (ByWebhook, BySlack):
        with pytest.raises(ConfigError, match=r"^notify.url_variable: the environment variable OWN_URL ") as error:
            kind(url_variable="OWN_URL").check()
        assert "secret" not in str(error.value)
    with pytest.raises(ConfigError, match=r"^notify.url_variable: "):
        decode(Notifying, {"notify": {"type": "slack", "url_variable": "https://hooks.example.org/x"}})


class Smtp(socketserver.StreamRequestHandler):
    """As much of SMTP (RFC 5321) and its extensions AUTH and STARTTLS as a client needs."""

    def say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())

    def handle(self) -> None:
        server: Any = self.server
        self.say("220 test")
        while line := self.rfile.readline().decode().strip():
            server.lines.append(line)
            verb = line.split()[0].upper()
            if verb == "EHLO":
                extensions = ["250-AUTH PLAIN"] + ["250-STARTTLS"] * (server.context is not None)
                self.say("250-test", *extensions, "250 8BITMIME")
            elif verb == "STARTTLS":
                self.say("220 go")
                self.connection = server.context.wrap_socket(self.connection, server_side=True)
                self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
            elif verb == "AUTH":
                self.say("235 ok")
            elif verb == "RCPT" and "nobody" in line:
                self.say("550 no such user")
            elif verb == "DATA":
                self.say("354 go")
                rows = iter(self.rfile.readline, b".\r\n")
                server.messages.append(b"".join(row.removeprefix(b".") if row[:2] == b".." else row for row in rows))
                self.say("250 ok")
            elif verb == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 ok")


@pytest.fixture
def smtp() -> Iterator[Any]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Smtp) as server:
        server.daemon_threads = True
        server.lines, server.messages, server.context = [], [], None  # type: ignore[attr-defined]
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def mail(smtp: Any, **settings: Any) -> ByEmail:
    given = {"host": "127.0.0.1", "port": smtp.server_address[1], "sender": "a@example.org", "to": ("b@example.org",)}
    return ByEmail(**given | settings)


def test_an_email_arrives_as_it_is_written(smtp: Any) -> None:
    mail(smtp, security="none", to=("b@example.org", "c@example.org")).deliver(NOTICE)
    assert [line for line in smtp.lines if line.startswith("rcpt")] == [
        "rcpt TO:<b@example.org>",
        "rcpt TO:<c@example.org>",
    ]
    message = email.message_from_bytes(smtp.messages[0], policy=email.policy.default)
    assert (message["From"], message["To"]) == ("a@example.org", "b@example.org, c@example.org")
    assert message["Subject"] == NOTICE.subject
    assert message.get_content().strip().splitlines() == NOTICE.body.splitlines()  # type: ignore[attr-defined]


def test_an_email_that_the_server_refuses_is_a_failure(smtp: Any) -> None:
    with pytest.raises(SMTPException):
        mail(smtp, security="none", to=("nobody@example.org",)).deliver(NOTICE)
    with pytest.raises(SMTPException, match="STARTTLS"):  # nothing is sent in clear text instead
        mail(smtp).deliver(NOTICE)
    assert smtp.messages == []


def test_a_password_comes_from_the_environment_and_goes_to_a_verified_server(
    smtp: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl, which makes the certificate")
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-nodes"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-keyout", key, "-out", certificate, *subject]
    subprocess.run(command, check=True, capture_output=True)
    smtp.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    smtp.context.load_cert_chain(certificate, key)
    monkeypatch.setenv("OWN_PASSWORD", "open sesame")
    sender = mail(smtp, host="localhost", user="a", password_variable="OWN_PASSWORD")
    sender.check()
    with pytest.raises(ssl.SSLCertVerificationError):
        sender.deliver(NOTICE)
    assert not any(line.startswith("AUTH") for line in smtp.lines)
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    sender.deliver(NOTICE)
    (login,) = [line for line in smtp.lines if line.startswith("AUTH")]
    assert base64.b64decode(login.split()[-1]) == b"\0a\0open sesame"
    assert len(smtp.messages) == 1


def test_an_email_without_its_password_is_refused_at_the_start(smtp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_SMTP_PASSWORD", raising=False)
    mail(smtp).check()
    with pytest.raises(ConfigError, match=r"^notify.password_variable: .*HEADRACE_SMTP_PASSWORD is not set"):
        mail(smtp, user="a").check()
    monkeypatch.setenv("HEADRACE_SMTP_PASSWORD", "p")
    with pytest.raises(ConfigError, match=r"^notify.security: is none: the password"):
        mail(smtp, user="a", security="none").check()
