"""The seed of a run: ``seed=7`` sets each other seed of its settings that no override sets.

seed=7    shuffle.seed  packing.seed  training.seed  evaluation.benchmarks.NAME.seed  …  ->  7
          finetune.seeds                                                                 ->  [7]
"""

from collections.abc import Collection, Sequence
from typing import Any

from headrace.pipeline.configuration.overrides import parsed

SEED = "seed"
"""The seed of the run, and the last part of the name of each other one."""


def seeded(values: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Returns ``values`` with the seed of the run in place of each other seed that no override sets."""
    if values.get(SEED) is None:
        return values
    given = {str(override.key_or_group) for override in parsed(overrides)}
    return {key: with_seed(key, value, values[SEED], given) for key, value in values.items()}


def with_seed(path: str, value: Any, seed: Any, given: Collection[str]) -> Any:
    """Returns the ``value`` at ``path`` with ``seed`` for each seed in it, but those at the paths ``given``."""
    if path.endswith((f".{SEED}", f".{SEED}s")):
        return value if path in given else [seed] if isinstance(value, list) else seed
    if isinstance(value, dict):
        return {key: with_seed(f"{path}.{key}", inner, seed, given) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_seed(f"{path}.{index}", inner, seed, given) for index, inner in enumerate(value)]
    return value
