"""The clusters that a run's work can happen on."""

from typing import Annotated, get_args

from pydantic import Field

from headrace.pipeline.clusters.base import Cluster
from headrace.pipeline.clusters.local import Local
from headrace.pipeline.clusters.own_cluster import OwnCluster
from headrace.pipeline.clusters.ray import Ray
from headrace.pipeline.clusters.slurm import Slurm

AnyCluster = Annotated[Local | Slurm | Ray | OwnCluster, Field(discriminator="type")]

CLUSTERS = dict[str, type[Cluster]](
    (cluster.type, cluster) for cluster in get_args(get_args(AnyCluster)[0]) if cluster is not OwnCluster
)
"""The class of each type."""
