"""A server for wandb that fails in one of several ways."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator

FAULTS = ("hangs", "hangs later")
MORE_FAULTS = ("refuses", "errors")

BUCKET = {
    "id": "x",
    "name": "abc123",
    "displayName": "run",
    "description": "",
    "config": "{}",
    "sweepName": None,
    "historyLineCount": 0,
    "project": {"id": "p", "name": "headrace", "entity": {"id": "e", "name": "me"}},
}
ANSWERS = {
    "upsertBucket": {"upsertBucket": {"bucket": BUCKET, "inserted": True}},
    "RunResumeStatus": {"model": BUCKET["project"] | {"bucket": None}},
    "viewer": {"viewer": {"id": "v", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}},
}
"""The answers that a run needs to begin, by a word of the query."""


@contextlib.contextmanager
def server(fault: str) -> Iterator[str]:
    """The address of a server with ``fault``: it takes no connection, answers 500, answers nothing, or nothing after
    a run began."""
    over = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = self.rfile.read(int(self.headers.get("content-length", 0))).decode(errors="replace")
            answer = next((answer for word, answer in ANSWERS.items() if word in query), None)
            if fault == "errors":
                self.send_error(500)
            elif fault == "hangs" or answer is None:
                over.wait(120)
            else:
                body = json.dumps({"data": answer}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    if fault == "refuses":
        listener.shutdown()
        listener.server_close()
    try:
        yield f"http://127.0.0.1:{listener.server_port}"
    finally:
        over.set()
        if fault != "refuses":
            listener.shutdown()
            listener.server_close()
