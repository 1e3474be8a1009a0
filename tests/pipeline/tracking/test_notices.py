"""Notices that a real command and, through apprise, a web server receive, and the failures of each."""

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.gone import GONE
from headrace.pipeline.tracking import notices
from headrace.pipeline.tracking.notices import ByApprise, ByCommand, Notice
from tests.command_line import headrace_here
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

    monkeypatch.setattr(notices.subprocess, "Popen", Begun)
    monkeypatch.setattr(notices, "SECONDS", 0.2)
    code = "import os, sys, time; child = os.fork(); child and open(sys.argv[1], 'w').write(str(child)); time.sleep(99)"
    with pytest.raises(TaskError, match=r"did not end within 0\.2 s"):
        python(code, str(written)).deliver(NOTICE)
    wait_until(lambda: not is_running(int(written.read_text())))


class Web(http.server.BaseHTTPRequestHandler):
    """Answers with the status in the path, and keeps the bodies."""

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))  # type: ignore[attr-defined]
        self.send_response(int(self.path.split("/")[1]))
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def web() -> Iterator[Any]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        server.bodies = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_apprise_gets_the_subject_and_the_body(web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"json://user:secret@127.0.0.1:{web.server_port}/200"
    monkeypatch.setenv("OWN_URL", f"{url} {url}")
    ByApprise(url_variable="OWN_URL").check()
    ByApprise(url_variable="OWN_URL").deliver(NOTICE)
    first, second = web.bodies
    assert first == second
    assert first["title"] == NOTICE.subject
    assert first["message"] == NOTICE.body


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "notify.url_variable: the environment variable OWN_URL is not set; "),
        ("nonsense://user:secret@127.0.0.1", "notify.url_variable: the environment variable OWN_URL holds no URL that"),
        ("json://user:secret@127.0.0.1:{}/500", "notify: a service of $OWN_URL did not take it; "),
        ("json://user:secret@127.0.0.1:1/200", "notify: a service of $OWN_URL did not take it; "),
    ],
)
def test_a_failure_does_not_name_the_url(
    url: str, problem: str, web: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OWN_URL", url.format(web.server_port))
    with pytest.raises((ConfigError, TaskError)) as error:
        ByApprise(url_variable="OWN_URL").deliver(NOTICE)
    assert str(error.value).startswith(problem)
    assert "secret" not in f"{error.value}{''.join(capfd.readouterr())}"


@pytest.mark.parametrize(("option", "scheme"), [("email", "mailto://"), ("slack", "slack://"), ("webhook", "json://")])
def test_a_notifier_that_is_gone_is_refused_with_the_scheme_of_apprise(option: str, scheme: str) -> None:
    done = headrace_here(f"notify={option}", "until=texts")
    assert done.returncode == 2
    assert done.stderr == f"headrace: notify: unknown option {option!r}; {GONE[f'notify={option}']}\n"
    assert scheme in done.stderr
