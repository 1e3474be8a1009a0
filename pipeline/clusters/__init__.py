"""The clusters that a run's work can happen on."""

from typing import Annotated, get_args

from pydantic import Field

from headrace.pipeline.clusters.base import Cluster
from headrace.pipeline.clusters.local import Local
from headrace.pipeline.clusters.own import OwnCluster, cluster_class, name_of_class
from headrace.pipeline.clusters.ray import Ray
from headrace.pipeline.clusters.slurm import Slurm

AnyCluster = Annotated[Local | Slurm | Ray | OwnCluster, Field(discriminator="type")]

CLUSTERS = dict[str, type[Cluster]](
    (cluster.type, cluster) for cluster in get_args(get_args(AnyCluster)[0]) if cluster is not OwnCluster
)
"""The class of each type."""


def name_of(cluster: Cluster) -> str:
    """Returns the name of the class of ``cluster`` in records of jobs: its type, or the file and class of the user."""
    return cluster.type if CLUSTERS.get(cluster.type) is type(cluster) else name_of_class(type(cluster))


def has_class(name: str) -> bool:
    """Whether ``class_of`` has a class of this ``name``, which is not loaded."""
    return ":" in name or name in CLUSTERS


def class_of(name: str) -> type[Cluster]:
    """Returns the class that has this ``name`` in records of jobs. ``has_class`` is true.

    Raises:
        ConfigError: when the file of a class of the user's own is gone, or fails.
    """
    return cluster_class(name) if ":" in name else CLUSTERS[name]
