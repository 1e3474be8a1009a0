"""The table of clusters that a run's work can happen on."""

from typing import Annotated

from headrace.pipeline.clusters.base import Cluster
from headrace.pipeline.core.kinds import Kinds

CLUSTERS = Kinds(
    "cluster",
    Cluster,
    {
        "local": "headrace.pipeline.clusters.base:Local",
        "slurm": "headrace.pipeline.clusters.slurm:Slurm",
        "ray": "headrace.pipeline.clusters.ray:Ray",
    },
)
AnyCluster = Annotated[Cluster, CLUSTERS]
