"""The set-up of Headrace's tests, with this package among the installed ones."""

import os

from headrace.pipeline.core.environment import EXTENSIONS

__all__ = [
    *("data_folder", "one_thread", "pytest_collection_finish", "pytest_make_parametrize_id"),
    *("run_clean", "run_stage"),
]

os.environ.pop(EXTENSIONS, None)
