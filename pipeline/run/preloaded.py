"""The fork server imports this module, so its workers share what it loads: all stages, and numba's compiler.

The first call of any compiled function loads numba's registries, 0.5 s of CPU time, in each process that has not
inherited them. Each worker would load them.
"""

import numpy as np

from headrace.pipeline.core.extras import loading

with loading():
    from headrace.data_prep.dedup.minhash import permutations, signature
    from headrace.pipeline import stages

    signature(np.zeros(1, np.uint64), permutations(1, seed=1))

__all__ = ["stages"]
