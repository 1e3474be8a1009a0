"""A server with the interface of S3 on this machine (moto), for tests of what is stored there."""

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import fsspec
import pytest

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "mill", "AWS_SECRET_ACCESS_KEY": "stone", "AWS_DEFAULT_REGION": "us-east-1"}
START_SECONDS = 60


@contextlib.contextmanager
def s3_server(knows_keys: bool = True) -> Iterator[str]:
    """Gives the URL of a bucket whose server the environment names. It refuses keys that it does not know."""
    for module in ("moto", "flask", "s3fs"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed (pip install 'moto[server,s3]' s3fs)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    variables = {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)],
        env=os.environ | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            _wait(endpoint)
            s3 = fsspec.get_filesystem_class("s3")
            s3.clear_instance_cache()
            s3().mkdir("valley")
            if not knows_keys:
                plain = {"Content-Type": "text/plain"}
                reset = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", data=b"0", headers=plain)
                urllib.request.urlopen(reset, timeout=5).close()
            yield "s3://valley/mirror"
            s3.clear_instance_cache()
    finally:
        server.kill()
        server.wait()


def _wait(endpoint: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(f"{endpoint}/moto-api/", timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.2)
