"""Where a run's work happens: on this machine, or on a SLURM cluster."""

from typing import Annotated, Literal

from pydantic import Field

from headrace.pipeline.core.settings import Natural, Positive, settings

TimeLimit = Annotated[str, Field(pattern=r"^(\d+-)?\d+(:\d+){0,2}$")]
"""As sbatch reads it: minutes, minutes:seconds, hours:minutes:seconds, days-hours, …"""
Memory = Annotated[str, Field(pattern=r"^\d+[KMGTkmgt]?$")]
"""As sbatch reads it: megabytes, or a number with a unit."""


@settings
class Local:
    """This machine: a pool of worker processes for data, torchrun for training and scoring."""

    type: Literal["local"] = "local"


@settings
class Slurm:
    """A SLURM cluster: an array job per phase of a data stage, a multi-node job each for training and scoring, in a
    chain."""

    type: Literal["slurm"] = "slurm"
    partition: str | None = None
    """Partition of every job; None takes the cluster's default."""
    account: str | None = None
    """Account to charge; None takes the user's default."""
    qos: str | None = None
    """Quality of service; None takes the default."""
    data_time: TimeLimit = "04:00:00"
    """Time limit of one array index of a data stage."""
    data_cpus: Positive = 1
    """Cores of one array index."""
    data_memory: Memory | None = None
    """Memory of one array index, such as 8G; None takes the partition's default."""
    array_tasks: Positive = 1000
    """Most array indices of one job (the cluster's MaxArraySize − 1); more tasks than that share an index."""
    array_running: Positive | None = None
    """Most array indices that run at once; None sets no limit."""
    train_time: TimeLimit = "24:00:00"
    """Time limit of the training job and of the scoring; a training that has not ended goes back into the queue and
    continues."""
    signal_seconds: Annotated[int, Field(ge=0, le=65535)] = 600
    """How long before its time limit the training is told to save and stop."""
    train_attempts: Positive = 3
    """A training whose ranks were killed, hung or found no room goes back into the queue, unless so many attempts in a
    row began from the same checkpoint."""
    nodes: Positive = 1
    """Nodes of the training job, and of the scoring; so are the settings below."""
    ranks_per_node: Positive = 1
    """Ranks of the training job on each node: one for each GPU."""
    gpus_per_node: Natural = 0
    """GPUs asked for on each node (--gres=gpu:N); 0 works on CPU."""
    train_cpus: Positive = 1
    """Cores of one rank."""
    train_memory: Memory | None = None
    """Memory of one node of the training job; None takes the default."""
    site_env: str | None = None
    """A shell file that every job sources first (modules, proxies); see slurm/site.env.example."""
    options: tuple[str, ...] = ()
    """More options for every sbatch, such as --constraint=h100."""


AnyCluster = Annotated[Local | Slurm, Field(discriminator="type")]
