"""Extractors of other libraries, and what protects a run from them.

    page ── too deep? ── isolated ──> text | Drop("too_slow" | "too_much_memory" | "crashed", …)

For some pages the time of an HTML parser grows with the square of their size or faster, and C code may fault. So a
process of its own extracts: a page that ends it, or that raises an error, is dropped with the reason, and the next page
gets a new process. The limit is CPU time, so other work on the machine does not decide what is dropped: a page above it
takes hundreds of times as long as others of its size. docs/reading.md names what each extractor loses.
"""

import math
import multiprocessing
import os
import re
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.page_bytes import sanitize
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.extras import require

CPU_SECONDS = 60
"""Limit of one page. resiliparse reads a page of average size in 4 ms, and 20 MB of tags in 12 s."""
MEMORY_BYTES = 4 << 30
"""Memory that a page may take in addition to the process's own; 20 MB of tags take 2.3 GB."""
IDLE_SECONDS = 900
"""A process that has not answered after this time hangs."""
ATTEMPTS = 3
"""Processes that are started for the same page when somebody else kills them."""
STATM = Path("/proc/self/statm")
"""Its first number is this process's address space in pages (proc(5)). On other systems memory is not limited."""

BOILERPLATE = ["nav", "footer", "aside", "form", "dialog", "button", "select"]
BOILERPLATE += ["[role=navigation]", "[role=contentinfo]", "[role=dialog]"]
MAIN_FRACTION = 0.3
"""The main content must have at least this fraction of the characters of the page without BOILERPLATE, else the page
without BOILERPLATE is used. Values of 0.2 to 0.4 give the same F1 within 0.005. Without this check F1 falls by 0.07."""
MAX_DEPTH = 1000
"""The time of parsers and of resiliparse grows with the square of the depth (0.1 s at 1,000 elements, hours at
200,000), so deeper pages are dropped. Of 500 real pages the deepest has 442 levels, the median 17."""
NOT_NESTING = (
    "area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr"  # void elements
    "|p|li|dd|dt|tr|td|th|tbody|thead|tfoot|colgroup|option|optgroup|html|head|body"  # optional end tags
    "|path|circle|rect|use|line|polygon|polyline|ellipse|stop|animate"  # SVG elements without children
)
"""Names of tags that do not count for the depth."""
NESTING_TAG = re.compile(rf"<(?!/?(?:{NOT_NESTING})\b)(/?)[a-z]", re.IGNORECASE)


def require_extractor(extractor: str) -> None:
    """Checks that ``extractor`` is installed.

    Raises:
        ConfigError: when its package is not installed.
    """
    if extractor == "trafilatura":
        require("source.extractor", extractor)


def extract_with(extractor: str, html: str | bytes) -> str | Drop:
    """Returns the text of ``html``, which is never empty, each paragraph on one line, or the reason why there is none.

    The reasons are ``no_text``, ``too_nested`` (value: the depth) and those of ``isolated``.
    """
    html = html if isinstance(html, str) else html.decode()
    if (levels := depth(html)) > MAX_DEPTH:
        return Drop("too_nested", str(levels))
    text = isolated(EXTRACTORS[extractor], html)
    if isinstance(text, Drop):
        return text
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return sanitize("\n".join(line for line in lines if line)).strip() or Drop("no_text", "")


def depth(html: str) -> int:
    """Returns the depth to which elements nest, by start and end tags; 0 if it cannot exceed MAX_DEPTH."""
    level = deepest = 0
    for slash in NESTING_TAG.findall(html) if html.count("<") > MAX_DEPTH else ():
        level += -1 if slash else 1
        deepest = max(deepest, level)
    return deepest


def isolated(function: Callable[[str], str], text: str) -> str | Drop:
    """Computes ``function(text)`` in another process. Drops: ``too_slow``, ``too_much_memory``, ``crashed``.

    Raises:
        RetryableError: when the process was killed in every attempt.
    """
    for _ in range(ATTEMPTS):
        if not _helpers or _helpers[0].parent != os.getpid():
            _helpers[:] = [_Helper()]
        result = _helpers[0].result(function, text)
        if result is not None:
            return result
    raise RetryableError("extraction", f"its process was killed {ATTEMPTS} times", "run again with fewer workers")


class _Helper:
    """A forked process that extracts one page after the other. It ends with the process that started it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.parent = os.getpid()
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._pipe), name="extractor", daemon=True)
        self._process.start()
        theirs.close()

    def result(self, function: Callable[[str], str], text: str) -> str | Drop | None:
        """Returns ``function(text)``, or the Drop for what ended the process; None: somebody else ended it."""
        try:
            self._pipe.send((function, text))
            if self._pipe.poll(IDLE_SECONDS):
                answer: str | Drop = self._pipe.recv()
                return answer
        except (EOFError, OSError):
            self._process.join()
        _helpers.clear()
        self._pipe.close()
        self._process.kill()
        self._process.join()
        received = signal.Signals(-min(self._process.exitcode or 0, -1))
        if received in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            return None
        if received is signal.SIGXCPU:
            return Drop("too_slow", f"more than {CPU_SECONDS} s of CPU time")
        return Drop("crashed", received.name)


_helpers: list[_Helper] = []
"""The process that extracts for this one, if there is one."""


def _serve(pipe: Connection, parents_end: Connection) -> None:
    """Answers what is sent, until the other end is closed."""
    parents_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit(resource.RLIMIT_CORE, 0)
    while True:
        try:
            function, text = pipe.recv()
        except EOFError:
            return
        usage = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, math.ceil(usage.ru_utime + usage.ru_stime) + CPU_SECONDS)
        if STATM.exists():
            _limit(resource.RLIMIT_AS, int(STATM.read_text().split()[0]) * resource.getpagesize() + MEMORY_BYTES)
        answer: str | Drop
        try:
            answer = function(text)
        except MemoryError:
            answer = Drop("too_much_memory", f"more than {MEMORY_BYTES} bytes")
        except Exception as error:  # noqa: BLE001, a fault of the library costs one page
            answer = Drop("crashed", type(error).__name__)
        pipe.send(answer)


def _limit(what: int, amount: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (amount if hard == resource.RLIM_INFINITY else min(amount, hard), hard))


def _resiliparse(html: str) -> str:
    """Returns resiliparse's main content, or the page without BOILERPLATE if the main content is too short."""
    tree = HTMLTree.parse(html)
    main = extract_plain_text(
        tree, main_content=True, comments=False, post_meta=False, alt_texts=False, list_bullets=False
    )
    page = extract_plain_text(tree, skip_elements=BOILERPLATE, alt_texts=False, list_bullets=False)
    return main if len(main) >= MAIN_FRACTION * len(page) else page


def _trafilatura(html: str) -> str:
    import trafilatura

    return trafilatura.extract(html) or ""


EXTRACTORS: dict[str, Callable[[str], str]] = {"resiliparse": _resiliparse, "trafilatura": _trafilatura}
