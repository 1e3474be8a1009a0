"""Where a run's work happens: on this machine, or on a SLURM cluster."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.core.settings import settings


@settings
class Local:
    """This machine: a pool of worker processes for data, torchrun for training."""

    type: Literal["local"] = "local"


@settings
class Slurm:
    """A SLURM cluster: an array job per phase of a data stage, one multi-node job for training, chained by dependencies."""

    type: Literal["slurm"] = "slurm"
    partition: str | None = None
    """Partition of every job; None takes the cluster's default."""
    account: str | None = None
    """Account to charge; None takes the user's default."""
    qos: str | None = None
    """Quality of service; None takes the default."""
    data_time: str = "04:00:00"
    """Time limit of one array task of a data stage."""
    data_cpus: int = 1
    """Cores of one array task."""
    data_memory: str | None = None
    """Memory of one array task, such as 8G; None takes the partition's default."""
    array_tasks: int = 1000
    """Most array indices of one job (the cluster's MaxArraySize − 1); more tasks than that share an index."""
    array_running: int | None = None
    """Most array indices that run at once; None sets no limit."""
    train_time: str = "24:00:00"
    """Time limit of the training job."""
    nodes: int = 1
    """Nodes of the training job."""
    ranks_per_node: int = 1
    """Ranks of the training job on each node: one for each GPU."""
    gpus_per_node: int = 0
    """GPUs asked for on each node; 0 trains on CPU."""
    train_cpus: int = 1
    """Cores of one rank."""
    train_memory: str | None = None
    """Memory of one node of the training job; None takes the partition's default."""
    site_env: str | None = None
    """A shell file that every job sources first (modules, proxies); see slurm/site.env.example."""
    options: tuple[str, ...] = ()
    """More options for every sbatch, such as --constraint=h100."""


AnyCluster = Annotated[Local | Slurm, Field(discriminator="type")]
