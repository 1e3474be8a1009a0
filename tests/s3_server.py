"""A server with the interface of S3 on this machine (moto), for tests of what is stored there."""

import contextlib
import importlib.util
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import fsspec
import pytest

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "mill", "AWS_SECRET_ACCESS_KEY": "stone", "AWS_DEFAULT_REGION": "us-east-1"}
SERVER = """
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.port, flush=True)
server.serve_forever()
"""
"""What ``moto_server`` does, at a port that the kernel chooses, which is printed when it takes connections."""


@contextlib.contextmanager
def s3_server(knows_keys: bool = True) -> Iterator[str]:
    """Gives the URL of a bucket whose server the environment names. It refuses keys that it does not know."""
    for module in ("moto", "flask", "s3fs"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed (pip install 'moto[server,s3]' s3fs)")
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env=os.environ | CREDENTIALS,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}.items():
                patch.setenv(name, value)
            s3 = fsspec.get_filesystem_class("s3")
            s3.clear_instance_cache()
            s3().mkdir("valley")
            if not knows_keys:
                plain = {"Content-Type": "text/plain"}
                reset = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", data=b"0", headers=plain)
                urllib.request.urlopen(reset, timeout=60).close()
            yield "s3://valley/mirror"
            s3.clear_instance_cache()
    finally:
        server.kill()
        server.wait()
