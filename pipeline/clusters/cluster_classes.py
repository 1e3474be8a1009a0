"""The class of a cluster by its name in records of jobs: ``slurm``, or ``<file>:<class>`` of the user's own."""

import inspect

from headrace.pipeline.clusters import CLUSTERS
from headrace.pipeline.clusters.base import Cluster
from headrace.pipeline.clusters.own_cluster import cluster_class


def name_of(cluster: Cluster) -> str:
    """Returns the name of the class of ``cluster``."""
    cls = type(cluster)
    return cluster.type if CLUSTERS.get(cluster.type) is cls else f"{inspect.getfile(cls)}:{cls.__qualname__}"


def has_class(name: str) -> bool:
    """Whether ``class_of`` has a class of this ``name``, which is not loaded."""
    return ":" in name or name in CLUSTERS


def class_of(name: str) -> type[Cluster]:
    """Returns the class of this ``name``, for which ``has_class`` is true.

    Raises:
        ConfigError: when the file of a class of the user's own is gone, or fails.
    """
    return cluster_class(name) if ":" in name else CLUSTERS[name]
