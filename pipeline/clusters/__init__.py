"""The clusters that a run's work can happen on."""

from typing import Annotated, get_args

from pydantic import Field

from headrace.pipeline.clusters.base import Cluster
from headrace.pipeline.clusters.local import Local
from headrace.pipeline.clusters.slurm import Slurm

AnyCluster = Annotated[Local | Slurm, Field(discriminator="type")]

CLUSTERS = dict[str, type[Cluster]]((cluster.type, cluster) for cluster in get_args(get_args(AnyCluster)[0]))
"""The class of each type."""
