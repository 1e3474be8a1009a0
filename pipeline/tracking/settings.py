"""The settings of wandb."""

import dataclasses
import os
from typing import Literal

from headrace.pipeline.core.extras import is_installed, require
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
