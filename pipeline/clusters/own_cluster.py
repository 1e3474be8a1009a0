"""A cluster class of the user's own, named by its module and class.

    cluster.type=my_cluster:Pool +cluster.queue=night
    cluster=python cluster.path=my_cluster:Pool +cluster.settings.queue=night      the same, with cluster.folder

The class implements ``Scheduler`` of base.py and is a ``@settings`` class; examples/files_cluster.py is a small one.
Records of its jobs name its file and class, so that ``headrace status`` and ``cancel`` find it again.
"""

import dataclasses
import functools
import inspect
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from headrace.pipeline.clusters import CLUSTERS
from headrace.pipeline.clusters.base import Cluster, Scheduler
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import AnyPath, decode, settings
from headrace.pipeline.core.user_classes import LoadingErrors, file_of_module, load_class

WHERE = "cluster.path"


@settings
class OwnCluster:
    """A cluster of a class of one's own."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(validate_default=True)  # for the path ``folder``

    type: Literal["python"] = "python"
    path: str
    """The class as <module>:<class>."""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The settings of the class."""
    folder: AnyPath = ""
    """The folder of the module. Without it, and for a module that is not there, the folders of PYTHONPATH follow."""

    @functools.cached_property
    def inner(self) -> Cluster:
        """The user's cluster.

        Raises:
            ConfigError: when the module or the class fails, or the settings are not valid.
        """
        file = file_of_module(WHERE, self.path, self.folder)
        cls = cluster_class(f"{file.resolve()}:{self.path.rpartition(':')[2]}")
        try:
            return decode(cls, self.settings, runs_code=True)
        except ConfigError as error:
            raise ConfigError(f"{self.path} {error.where}", error.problem, error.remedy) from None

    @property
    def shares_packages(self) -> bool:
        return self.inner.shares_packages

    @property
    def scheduler(self) -> Scheduler | None:
        return self.inner.scheduler

    def world(self, ranks: int) -> int:
        return self.inner.world(ranks)


@functools.cache
def cluster_class(name: str) -> type[Cluster]:
    """Loads the class that a record names: ``<file>:<class>``.

    Raises:
        ConfigError: when the file is gone, fails, or has no such class.
    """
    path, _, class_name = name.rpartition(":")
    file = Path(path)
    if not file.is_file():
        raise ConfigError(WHERE, f"no file {path!r}, which had the class of these jobs", "bring it back")
    with LoadingErrors(WHERE, file):
        return load_class(WHERE, file, class_name, "cluster", lambda cls: hasattr(cls, "scheduler"))


def name_of(cluster: Cluster) -> str:
    """Returns the name of the class of ``cluster`` in records of jobs: ``slurm``, or ``<file>:<class>``."""
    cls = type(cluster)
    is_known = cluster.type in CLUSTERS and CLUSTERS[cluster.type] is cls
    return cluster.type if is_known else f"{inspect.getfile(cls)}:{cls.__qualname__}"


def has_class(name: str) -> bool:
    """Whether ``class_of`` has a class of this ``name``, which is not loaded."""
    return ":" in name or name in CLUSTERS


def class_of(name: str) -> type[Cluster]:
    """Returns the class of this ``name``, for which ``has_class`` is true.

    Raises:
        ConfigError: when the file of a class of the user's own is gone, or fails.
    """
    cls: type[Cluster] = cluster_class(name) if ":" in name else CLUSTERS[name]
    return cls
