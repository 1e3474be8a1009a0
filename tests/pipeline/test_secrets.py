"""A secret is never written below the root, to a log or to the terminal."""

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.secrets import redacted
from headrace.pipeline.core.settings import decode
from headrace.train.inference.settings import Sampling
from tests.command_line import headrace, headrace_here

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCY"
URLS = (
    f"s3://AKIAIOSFODNN7:{SECRET}@bucket/crawl/*.jsonl",
    f"https://user:{SECRET}@127.0.0.1:1/a.jsonl",
    f"https://{SECRET.replace('/', '')}@127.0.0.1:1/a.jsonl",
    f"https://127.0.0.1:1/a.jsonl?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={SECRET}",
    f"https://127.0.0.1:1/a.jsonl?X-Amz-Credential={SECRET}",
    f"https://127.0.0.1:1/a.jsonl?AWSAccessKeyId=AKIA&Signature={SECRET}",
    f"https://account.blob.core.windows.net/a.jsonl?sv=2024&sig={SECRET}",
    f"https://127.0.0.1:1/a.jsonl?token={SECRET}",
    f"https://127.0.0.1:1/a.jsonl?page=1&Authorization={SECRET}",
    f"https://127.0.0.1:1/a.jsonl#access_token={SECRET}",
    f"simplecache::zip://*.jsonl::https://user:{SECRET}@127.0.0.1:1/a.zip",
)
HARMLESS = (
    "s3://bucket/crawl/*.jsonl",
    "https://host:8443/a@b/page.jsonl?page=3&token=",
    "http://[::1]:8080/a@b",
    "abfs://container@account.dfs.core.windows.net/crawl",
    "github://organization:repository@main/pages.jsonl",
    "hdfs://namenode:8020/crawl/a@b",
    "pages@home.jsonl",
    "key=value/part.jsonl",
)
URL = f'"{URLS[0]}"'
SETTINGS = (
    [f"source.paths=[{URL}]"],
    [f"root={URL}"],
    [f"dedup.against=[{URL}]"],
    ["tokenizer=file", f"tokenizer.path={URL}"],
    [f"evaluation.data={URL}"],
    [f"+evaluation.benchmarks.own={{type: lambada, paths: [{URL}]}}"],
    [f"evaluation.tasks=[{URL}]"],
    [f"packing.forget={URL}"],
    [f"training.initial_weights={URL}"],
    [f"cleaning.filters=[{{type: bad_words, path: {URL}}}]"],
    [f"mixture.sources=[{{name: a, packed: {URL}, weight: 1}}]"],
    [f"tracking.project={URL}"],
    [f"tracking.name={URL}"],
    ["cluster=slurm", f"cluster.site_env={URL}"],
    ["cluster=slurm", f"cluster.options=[--comment={URL}]"],
    [f"until={URL}", "until=clean"],
)


@pytest.mark.parametrize("overrides", SETTINGS)
def test_a_setting_with_a_secret_is_refused_by_its_name(overrides: list[str], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = headrace_here("source=jsonl", *overrides)
    assert done.returncode == 2
    assert "holds a password, key or signature, which would be written to the root; remove it" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert SECRET not in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("command", [[], ["-m"], ["status"], ["plan"]])
def test_every_kind_of_secret_is_refused(url: str, command: list[str], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = headrace_here(*command, "source=jsonl", f'source.paths=["{url}"]')
    assert done.returncode == 2
    assert done.stderr.startswith("headrace: source.paths: holds a password, key or signature")
    assert SECRET[:8] not in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


def test_a_variable_on_the_command_line_of_sbatch_is_refused() -> None:
    done = headrace_here("cluster=slurm", f"cluster.options=['--export=ALL,WANDB_API_KEY={SECRET}']")
    assert done.returncode == 2
    assert SECRET not in done.stderr


def test_a_secret_in_a_file_of_settings_is_refused_too() -> None:
    with pytest.raises(ConfigError) as error:
        decode(Sampling, {"stops": ["a", URLS[1]]})
    assert error.value.where == "stops.1"
    with pytest.raises(ConfigError) as error:
        decode(Sampling, {"arguments": {"api_key": SECRET}})
    assert error.value.where == "arguments.api_key"
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("text", HARMLESS)
def test_other_urls_are_left_alone(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "name", ["WANDB_API_KEY", "HF_TOKEN", "SMTP_PASSWORD", "my_secret", "AWS_CREDENTIALS", "XKEYX"]
)
@pytest.mark.parametrize("form", ["{}", "refused: {}.", "x{}y", "curl -H 'X-Auth: {}'"])
def test_the_value_of_a_variable_is_hidden_wherever_it_stands(name: str, form: str, monkeypatch) -> None:
    monkeypatch.setenv(name, SECRET)
    assert redacted(form.format(SECRET)) == form.format("***")


@pytest.mark.parametrize(
    "form",
    [
        *("Authorization: Bearer {}", "authorization: {}", "Authorization: Basic {}", "'Authorization': 'token {}'"),
        *("Proxy-Authorization: Basic {}", '{{"authorization": "Bearer {}"}}', "bearer {}", "-H Authorization:{}"),
        *(
            "DB_PASSWORD={}",
            "DB_PASSWORD='{}'",
            'export GITHUB_TOKEN="{}"',
            "SSH_KEY={}",
            "MY_CREDENTIALS={}",
            "APIKEY={}",
        ),
        *("postgres://user:{}@host/db", "mailto://user:{}@host", "see https://{}@host/x and y"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(form: str) -> None:
    secret = SECRET.replace("/", "")
    shown = redacted(f"before {form.format(secret)} after")
    assert secret not in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")


@pytest.mark.parametrize(
    ("name", "value"), [("TOKENIZERS_PARALLELISM", "parallel"), ("API_KEY", "on"), ("HOME", "/srv/u")]
)
def test_other_values_of_variables_are_left_alone(name: str, value: str, monkeypatch) -> None:
    monkeypatch.setenv(name, value)
    text = f"{value}: bearers of tokens, an authorization by key"
    assert redacted(text) == text


@pytest.mark.parametrize("url", URLS)
def test_an_error_shows_no_secret(url: str) -> None:
    """For example, a library's message about a redirect to a signed URL."""
    error = TaskError(url, f"403, message='Forbidden', url=URL('{url}')", f"correct {url}")
    assert SECRET[:8] not in str(error)
    assert "***" in error.problem


class Guarded(http.server.BaseHTTPRequestHandler):
    """A server of one page that needs a password."""

    def do_HEAD(self) -> None:
        self.answer(False)

    def do_GET(self) -> None:
        self.answer(True)

    def answer(self, has_body: bool) -> None:
        body = b'{"text": "A page about mills.", "url": "https://example.org/?token=abc"}\n'
        password = base64.b64encode(f"user:{SECRET}".encode()).decode()
        knows = self.headers.get("Authorization") == f"Basic {password}"
        self.send_response(200 if knows else 401)
        self.send_header("Content-Length", str(len(body) if knows else 0))
        self.end_headers()
        if has_body and knows:
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_credentials_from_the_environment_leave_no_trace(server: str, tmp_path: Path, monkeypatch) -> None:
    """The way that the refusal names works, and a page's own URL is data, whatever it holds."""
    password = base64.b64encode(f"user:{SECRET}".encode()).decode()
    headers = {"client_kwargs": {"headers": {"Authorization": f"Basic {password}"}}}
    monkeypatch.setenv("FSSPEC_HTTP", json.dumps(headers))
    run = ("source=jsonl", f"source.paths=[{server}/a.jsonl]", "cleaning=none", "until=clean", f"root={tmp_path}/runs")
    done = headrace(*run, "workers=1")
    assert done.returncode == 0, done.stderr
    why = headrace_here("why", f"{server}/a.jsonl:0", f"root={tmp_path}/runs")
    assert "https://example.org/?token=abc" in why.stdout
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert len(files) > 4
    for text in [
        done.stdout,
        done.stderr,
        why.stdout,
        why.stderr,
        *(path.read_bytes().decode("latin1") for path in files),
    ]:
        assert SECRET not in text
        assert password not in text
