"""The settings that Hydra merges: conf/config.yaml, the files of the chosen options, and the values of overrides.

experiment=smoke model.layers=3
└── choices ──> files, merged once in a process ──> a copy ──> model.layers=3 set in it
"""

import functools
import pickle
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.defaults_list import Overrides, create_defaults_list
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from headrace.pipeline.conf_folder import CONF, own_files, own_folder
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.overrides import HYDRA, parsed

PRIMARY = "headrace"
"""Hydra's name of conf/config.yaml, so that a config.yaml in the user's folder is not read."""


def search() -> str:
    """Prepares Hydra's search for options: in the user's folder first, then in ours. Returns the first folder."""
    primary, own = _primary(CONF), own_folder()
    primary.hydra.searchpath = [f"file://{CONF}"] if own else []
    ConfigStore.instance().store(PRIMARY, primary)
    return str(own or CONF)


@functools.cache
def _primary(folder: Path) -> DictConfig:
    loaded = OmegaConf.load(folder / "config.yaml")
    assert isinstance(loaded, DictConfig)
    return loaded


def merged(overrides: Sequence[str]) -> tuple[DictConfig, Mapping[str, Any]]:
    """Composes as ``hydra.compose`` does, and returns the chosen option of each group as well.

    Hydra's own settings, which cost a third of the time, are left out.
    """
    loader, state, typed = _loader(), _state_of_files(), parsed(overrides)
    loader.validate_sweep_overrides_legal(typed, RunMode.RUN, from_shell=False)
    values = Overrides(_repository(state), typed).config_overrides
    chosen = tuple(str(one.input_line) for one in typed if one not in values)
    stored, choices = _merged_files(chosen, state)
    config: DictConfig = pickle.loads(stored)
    loader._apply_overrides_to_config(values, config)
    return config, choices


@functools.lru_cache(maxsize=128)
def _merged_files(chosen: tuple[str, ...], files: Hashable) -> tuple[bytes, Mapping[str, Any]]:
    """Returns what the files of the ``chosen`` options hold together, pickled, and the chosen option of each group.

    This takes most of the time of a composition. Those of one process mostly differ in the values that are set then.
    """
    repository = _repository(files)
    read = create_defaults_list(repository, PRIMARY, parsed(chosen), prepend_hydra=False, skip_missing=False)
    config = _loader()._compose_config_from_defaults_list(read.defaults, repository)
    if config.pop(HYDRA).keys() - {"searchpath"}:
        wrong = "settings of Hydra itself are in a file of options, and are not used"
        raise ConfigError(HYDRA, wrong, f"take them out of the file (one of: {', '.join(chosen)})")
    OmegaConf.set_struct(config, True)
    return pickle.dumps(config), read.overrides.known_choices


@functools.lru_cache(maxsize=32)
def _repository(files: Hashable) -> CachingConfigRepository:
    """Returns Hydra's reader of the folders of options, which keeps the files that it has read."""
    loader = _loader()
    loader.ensure_main_config_source_available()
    _, repository = loader._parse_overrides_and_create_caching_repo(PRIMARY, [])
    return repository


def _loader() -> ConfigLoaderImpl:
    loader = GlobalHydra.instance().config_loader()
    assert isinstance(loader, ConfigLoaderImpl)
    return loader


def _state_of_files() -> Hashable:
    """Returns a value that is another one when a file of the user's folder was changed."""
    return CONF, *((file, (stat := file.stat()).st_mtime_ns, stat.st_size) for file in own_files())
