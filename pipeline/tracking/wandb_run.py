"""The settings of wandb; opens its runs, names their group, and hands them pages. Only this module imports wandb.

    opened      continues a run; offline when the server refuses it or does not answer for ``INIT_SECONDS``
    replaced    begins a run again under its id; the caller handles the errors of a server

wandb is imported inside the functions: it takes half a second. Calls may fail or hang, so a thread makes them in their
order, and the caller does not wait for them:

    call(a) call(b) ──> thread: a, b, …      the caller continues at once
                        └─ b raises ──> one line on stderr; the later calls are skipped
    close(seconds)  ──> waits for the thread, at most this long
"""

import dataclasses
import importlib.metadata
import os
import queue
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from headrace.pipeline.core.errors import ArtifactError, RetryableError
from headrace.pipeline.core.extras import is_installed, require
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.core.secrets import without_secrets
from headrace.pipeline.core.settings import settings

KEY = "WANDB_API_KEY"


@settings
class Tracking:
    """Settings of wandb."""

    wandb: Literal["auto", "online", "offline", "off"] = "auto"
    """``auto`` is online when WANDB_API_KEY is set. Without the key, it records offline, and only runs that train.
    Without the package wandb (``headrace[wandb]``), it records nothing."""
    project: str = "headrace"
    """The wandb project of the runs."""
    name: str | None = None
    """The name of the training in wandb; None takes the run's name, and wandb's choice when it has none."""
    entity: str | None = None
    """The user or team that owns the project; None takes the default of the key."""
    group: str | None = None
    """The group of a run's training and other stages; None takes the name of its sweep, else the run's name or id."""
    job_type: str | None = None
    """The type of the training within its group, such as ablation; None takes ``weights``. Other stages have their
    names."""
    tags: tuple[str, ...] = ()
    """Tags of the run."""
    notes: str | None = None
    """A description of the run, in Markdown."""
    lineage: bool = True
    """Records each finished stage, with its address and those of the artifacts that it was made from."""
    report: bool = True
    """Records the page of the report, with its texts of documents and questions."""

    def of_training(self, run: str | None, stage: str) -> "Tracking":
        """Returns the settings of the training: by default, its name is that of the run, its type is its stage."""
        return dataclasses.replace(self, name=self.name or run, job_type=self.job_type or stage)

    @property
    def is_on(self) -> bool:
        """Whether wandb is called. ``auto`` leaves it out where it is not installed, and with WANDB_MODE=disabled."""
        is_there = is_installed("wandb") and os.environ.get("WANDB_MODE") != "disabled"
        return self.wandb != "off" and (self.wandb != "auto" or is_there)

    def check(self, is_chosen: bool) -> None:
        """Checks that wandb is installed, if the settings ask for it; ``auto`` does so only where it ``is_chosen``.

        Raises:
            ConfigError: when it is not.
        """
        if self.wandb in ("online", "offline") or (self.wandb == "auto" and is_chosen):
            require("tracking", "wandb", otherwise="record in metrics.jsonl alone: tracking=file")

    @property
    def missing(self) -> str:
        """The line for a user who has a key, but not the package; empty for others."""
        if self.wandb != "auto" or self.is_on or not os.environ.get(KEY):
            return ""
        return f"wandb: is not installed, so {KEY} has no effect; pip install 'headrace[wandb]', or unset {KEY}"

    def records_stages(self, trains: bool) -> bool:
        """Whether stages are recorded when they finish; ``trains``: whether the run includes the training.

        Without a key, the user has not asked for wandb. A short run on data alone does not wait for it then.
        """
        return self.is_on and (self.wandb != "auto" or trains or bool(os.environ.get(KEY)))


GROUP = "WANDB_RUN_GROUP"
"""The environment variable of the group of runs without ``tracking.group``, as wandb names it. Jobs inherit it."""
INIT_SECONDS = 10
"""The longest wait for wandb's server to accept a run. The environment variable WANDB_INIT_TIMEOUT overrides it."""
ONLINE = ("online", "run", "shared")
"""The values of WANDB_MODE with which wandb sends anything: offline, disabled and dryrun send nothing."""
CLOSING_SECONDS = 60
"""The longest wait for wandb at the end of a command or a job."""

PAGE_BYTES = 20_000_000
"""The size of the largest page that is uploaded. plotly.js takes 2 MB of each page."""

RunFacts = Mapping[str, Any]
Mode = Literal["online", "offline"]


def group_of(tracking: Tracking, name: str | None, run_json: Path) -> str:
    """Returns the group of the wandb runs of the run ``name`` that is saved in ``run_json``.

    It is the one in its settings, else that of its first start (a sweep's), else the run's name or id.
    """
    first = None
    with suppress(ArtifactError, PermissionError, FileNotFoundError):  # there is none, or another user's
        first = read_sealed(run_json).get("group")
    return str(tracking.group or first or name or run_json.parent.name)


@contextmanager
def grouped(name: str) -> Iterator[None]:
    """Puts the runs that are started in this block into the group ``name``, unless the environment has another."""
    before = os.environ.get(GROUP)
    os.environ[GROUP] = before or name
    try:
        yield
    finally:
        if before is None:
            del os.environ[GROUP]


def opened(folder: Path, tracking: Tracking, run_id: str, facts: RunFacts) -> Any:
    """Opens the wandb run ``run_id`` to continue it; offline when the server refuses it or does not answer."""
    import wandb

    mode = _mode(tracking)
    try:
        return _run(folder, tracking, run_id, facts, mode, resumes=True)
    except (wandb.Error, OSError) as error:
        if mode == "offline":
            raise
        print(
            f"wandb: {one_line(error)}; the run is recorded offline in {folder / 'wandb'}", file=sys.stderr, flush=True
        )
    wandb.teardown()  # otherwise its service keeps the id of the failed run
    return _run(folder, tracking, run_id, facts, "offline", resumes=True)


def replaced(folder: Path, tracking: Tracking, run_id: str, facts: RunFacts) -> Any:
    """Opens the wandb run ``run_id`` without what it has so far, also when ``tracking`` turns wandb off."""
    enabled = dataclasses.replace(tracking, wandb="auto") if tracking.wandb == "off" else tracking
    return _run(folder, enabled, run_id, facts, _mode(enabled), resumes=False)


@contextmanager
def errors_explained() -> Iterator[None]:
    """Turns errors of wandb and its server into one line.

    Raises:
        RetryableError: when wandb's server refuses a run or does not answer.
    """
    import wandb

    try:
        yield
    except (wandb.Error, OSError) as error:
        remedy = "run again when the server answers, or with WANDB_MODE=offline"
        raise RetryableError("wandb", one_line(error), remedy) from None


def record_page(run: Any, page: Path) -> None:
    """Logs an HTML ``page``, unless it is large."""
    import wandb

    if page.stat().st_size <= PAGE_BYTES:
        run.log({"page": wandb.Html(str(page), inject=False)})


def place_of(run: Any) -> str:
    """Returns the URL of ``run``; offline, the folder that ``wandb sync`` uploads."""
    return str(run.settings.sync_dir) if run.offline else str(run.url)


def finish(run: Any) -> None:
    """Ends ``run``. An offline run is a whole file then.

    ``run.finish()`` returns before wandb's service has written the end of the file, and the service drops what it has
    not written when this process ends. So an offline run ends the service too, which writes first.
    """
    import wandb

    is_offline = run.offline
    run.finish()
    if is_offline:
        wandb.teardown()


def remove_older_offline(folder: Path, run_id: str, newest: Path) -> None:
    """Removes the offline folders of the wandb run ``run_id`` below ``folder``, except ``newest``: it has all rows.

    A start within the same second as another one has a folder whose name ends with a number.
    """
    of_run = re.compile(rf"offline-run-.+-{re.escape(run_id)}(-\d+)?")
    for path in folder.glob("wandb/offline-run-*"):
        if of_run.fullmatch(path.name) and path.resolve() != newest.resolve():
            shutil.rmtree(path)


def _mode(tracking: Tracking) -> Mode:
    """Returns the mode of ``tracking``; offline when there is no key."""
    import wandb

    has_key = bool(os.environ.get(KEY))
    if tracking.wandb == "online":
        return "online" if has_key or wandb.login(prompt=False) else "offline"
    wanted = os.environ.get("WANDB_MODE") or "online"
    return "online" if tracking.wandb == "auto" and has_key and wanted in ONLINE else "offline"


def _run(folder: Path, tracking: Tracking, run_id: str, facts: RunFacts, mode: Mode, resumes: bool) -> Any:
    """Opens the wandb run ``run_id``. It is resumed if ``resumes`` is true and the mode is online, else replaced."""
    import wandb

    if mode == "offline":
        wandb.setup(wandb.Settings(mode=mode))  # without it, wandb reports even an offline run's start to its server
    settings = wandb.Settings(silent=True, console="off")
    if "WANDB_INIT_TIMEOUT" not in os.environ:
        settings.init_timeout = INIT_SECONDS
    run = wandb.init(
        project=tracking.project,
        name=tracking.name,
        entity=tracking.entity,
        group=tracking.group or os.environ.get(GROUP),
        job_type=tracking.job_type,
        tags=tracking.tags or None,
        notes=tracking.notes,
        id=run_id,
        resume="allow" if resumes and mode == "online" else None,
        mode=mode,
        dir=str(folder),
        config=without_secrets({**facts, "headrace": importlib.metadata.version("headrace")}),
        settings=settings,
    )
    run.define_metric("global_step")
    run.define_metric("*", step_metric="global_step")
    return run


Call = Callable[[], object]

QUEUE_LIMIT = 10_000
"""The largest number of waiting calls. When a call hangs and more of them wait, the service is given up."""


class Background:
    """Makes the calls of the service ``name``. Its thread is a daemon: a call that hangs does not keep the process."""

    def __init__(self, name: str, consequence: str) -> None:
        """Starts the thread. The line about a failure ends with its ``consequence``."""
        self._name, self._consequence = name, consequence
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._given_up = False
        self._thread = threading.Thread(target=self._make_calls, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Call) -> None:
        """Calls ``function`` after all earlier ones, unless one of them failed."""
        if self._calls.qsize() >= QUEUE_LIMIT:
            self._give_up(f"has not answered for {QUEUE_LIMIT:,} calls")
        if not self._given_up:
            self._calls.put(function)

    def close(self, seconds: float) -> None:
        """Waits for the calls, at most ``seconds``. Calls that are not finished then are skipped."""
        self._calls.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._give_up(f"did not finish within {seconds:g} s")

    def _make_calls(self) -> None:
        while (function := self._calls.get()) is not None:
            if self._given_up:
                continue
            try:
                function()
            except Exception as error:  # noqa: BLE001 an error of the service must not end the run
                self._give_up(one_line(error))

    def _give_up(self, reason: str) -> None:
        if not self._given_up:
            self._given_up = True
            print(f"{self._name}: {reason}; {self._consequence}", file=sys.stderr, flush=True)


def one_line(error: BaseException) -> str:
    """Returns the type of ``error`` and the first line of its text."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
