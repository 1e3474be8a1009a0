"""The fork server imports this module, so its workers share what it loads: all stages, and numba's compiler.

The first call of any compiled function loads numba's registries, 0.5 s of CPU time, in each process that has not
inherited them. Each worker would load them, and so would each process that reads pages (sources/isolation.py).
"""

from headrace.pipeline.core.extras import loading

with loading():
    from headrace.data_prep.sources.other_extractors import MAX_DEPTH, depth
    from headrace.pipeline import stages

    depth("<" * (MAX_DEPTH + 1))

__all__ = ["stages"]
